"""Feeds operators chunks of drawn sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import strategies as st

from actorflow.data.stages.stage import CallSite, Operator
from actorflow.data.values.chunk import Chunk, number
from actorflow.errors import InputError

PLACE = CallSite("stage 'x'", "here.py:1")
cuts = st.lists(st.integers(1, 9), max_size=8)


def chunks(values: Sequence[Any], sizes: Sequence[int], epoch: int = 0) -> list[Chunk]:
    """The values as chunks of these sizes, the rest as one."""
    found, at = [], 0
    for size in [*sizes, len(values)]:
        part = list(values[at : at + size])
        if part:
            found.append(Chunk(part, [number(epoch, i) for i in range(at, at + len(part))]))
        at += size
    return found


def fed(operator: Operator, given: Sequence[Chunk]) -> list[Chunk]:
    """What an operator gives for one epoch."""
    found = [out for chunk in given for out in operator.push(chunk)]
    return [*found, *operator.end()]


def values(outs: Sequence[Chunk]) -> list[Any]:
    return [value for out in outs for value in out.values]


def numbers(outs: Sequence[Chunk]) -> list[int]:
    return [whose for out in outs for whose in out.numbers]


def noting(called: list[Any]) -> Callable[[Any], Any]:
    """A function that gives what it gets, and keeps it in a list."""

    def f(value: Any) -> Any:
        called.append(value)
        return value

    return f


def until_it_fails(operator: Operator, given: Sequence[Chunk]) -> tuple[list[Any], InputError]:
    """What an operator gives before it fails, and the error."""
    seen: list[Any] = []
    try:
        for chunk in given:
            for out in operator.push(chunk):
                seen.extend(out.values)
        for out in operator.end():
            seen.extend(out.values)
    except InputError as error:
        return seen, error
    raise AssertionError("it did not fail")
