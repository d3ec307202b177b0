"""Sources made of sources against lists: whole, from any element on, and with a part that fails."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import actorflow as af
from actorflow.data.pipeline import Pipeline
from actorflow.data.sources.combined import CombinedSource, in_turn, one_by_one, side_by_side
from actorflow.errors import ConfigError, InputError
from tests.data.pipelines import Blocking, Unsized, numbers_from
from tests.data.reading import SIZES, read, read_till_error
from tests.support.strategies import examples

PARTS = st.lists(
    st.builds(lambda make, n: make(n), st.sampled_from([numbers_from, Unsized, Blocking]), st.integers(0, 9)),
    min_size=1,
    max_size=4,
)


def elements_of(source: Any) -> list[int]:
    return list(range(getattr(source, "size_", source.size)))


def turns(lists: Sequence[list[int]], cycle: int, block: int) -> list[int]:
    """The model of `interleave`: one element after the other."""
    waiting, out = [list(each) for each in lists], []
    slots = [waiting.pop(0) for _ in range(min(cycle, len(waiting)))]
    at, left = 0, block
    while slots:
        at %= len(slots)
        if slots[at]:
            out.append(slots[at].pop(0))
            left -= 1
            if not left:
                at, left = at + 1, block
            continue
        left = block
        if waiting:
            slots[at] = waiting.pop(0)
        else:
            del slots[at]
    return out


def agrees(source: CombinedSource, whole: list[Any], start: int, sizes: list[int]) -> None:
    assert read(source, start, sizes) == whole[start:]
    assert source.size in {None, len(whole)}
    assert source.blocking == any(part.blocking for part in source.parts)


@settings(max_examples=examples(150))
@given(parts=PARTS, start=st.integers(0, 30), sizes=SIZES)
def test_zip_and_concatenate_give_what_lists_give(parts: list[Any], start: int, sizes: list[int]) -> None:
    lists = [elements_of(part) for part in parts]

    agrees(side_by_side(parts), list(zip(*lists, strict=False)), start, sizes)
    agrees(one_by_one(parts), [value for each in lists for value in each], start, sizes)


@settings(max_examples=examples(150))
@given(parts=PARTS, cycle=st.integers(1, 5), block=st.integers(1, 3), start=st.integers(0, 30), sizes=SIZES)
def test_interleave_gives_blocks_in_turn(
    parts: list[Any], cycle: int, block: int, start: int, sizes: list[int]
) -> None:
    whole = turns([elements_of(part) for part in parts], cycle, block)

    agrees(in_turn(parts, cycle, block), whole, start, sizes)


def test_parts_before_the_start_are_not_opened_where_their_sizes_are_known() -> None:
    opened: list[tuple[int, int]] = []

    @dataclass(frozen=True)
    class Noting(Blocking):
        def open(self, start: int, epoch: int) -> Any:
            opened.append((start, epoch))
            return numbers_from(4).open(start, epoch)

    assert read(one_by_one([Noting(4), Noting(4), Noting(4)]), 6, epoch=2) == [2, 3, 0, 1, 2, 3]

    assert opened == [(2, 2), (0, 2)]


def failing(n: int) -> Callable[[], Iterator[int]]:
    def made() -> Iterator[int]:
        yield from range(n)
        raise LookupError("gone")

    return made


def source(n: int) -> Any:
    return af.data.generator(failing(n), blocking=False).bare


@pytest.mark.parametrize(
    ("joined", "whole", "told"),
    [
        (side_by_side([numbers_from(9), source(2)]), [(0, 0), (1, 1)], "part 1 of zip(numbers, generator"),
        (one_by_one([numbers_from(2), source(1)]), [0, 1, 0], "part 1 of concatenate(numbers, generator"),
        (in_turn([source(2), numbers_from(3)], 2, 1), [0, 0, 1, 1], "part 0 of interleave(generator"),
    ],
)
def test_the_error_of_a_part_names_it_and_comes_behind_what_was_before(
    joined: CombinedSource, whole: list[Any], told: str
) -> None:
    found, error = read_till_error(lambda: joined)

    assert found == whole
    assert told in str(error)
    assert "element " in str(error)
    assert "raised LookupError: gone" in str(error)


def test_every_part_is_closed_however_far_it_was_read() -> None:
    ended = []

    def part(k: int) -> Any:
        def made() -> Iterator[int]:
            try:
                yield from range(9)
            finally:
                ended.append(k)

        return af.data.generator(made, blocking=False).bare

    for join in (side_by_side, one_by_one, lambda parts: in_turn(parts, 2, 1)):
        ended.clear()
        reader = join([part(0), part(1)]).open(0, 0)
        reader.read(2)
        reader.close()
        assert sorted(ended) == ([0] if join is one_by_one else [0, 1])
        assert reader.read(2) == []


# ----------------------------------------------------------------------------------- as users do


def elements(pipeline: Pipeline, position: Any = None) -> list[Any]:
    async def main() -> list[Any]:
        async with pipeline.open(position) as stream:
            return [element async for element in stream]

    return asyncio.run(main())


def test_stages_and_epochs_and_positions_are_as_with_any_source() -> None:
    a, b = af.data.numbers(5), af.data.numbers(3)
    pipelines = [
        af.data.zip(a, af.data.concatenate(b, b)).map(sum).repeat(2).batch(3),
        af.data.interleave(a, b, b, cycle=2, block=2).shuffle(4, seed=1).repeat(2).batch(3),
    ]
    assert len(af.data.zip(a, b)) == 3
    assert len(af.data.concatenate(a, b)) == len(af.data.interleave(a, b)) == 8

    for pipeline in pipelines:
        whole = [batch.tolist() for batch in elements(pipeline)]

        async def some(pipeline: Pipeline = pipeline) -> Any:
            async with pipeline.open() as stream:
                await anext(stream)
                await anext(stream)
                return stream.position()

        rest = elements(pipeline, asyncio.run(some()))
        assert [batch.tolist() for batch in rest] == whole[2:]


async def later() -> AsyncIterator[int]:
    yield 1


def test_what_cannot_be_joined_is_refused() -> None:
    a = af.data.numbers(3)
    loose: Any = af.data.zip

    with pytest.raises(ConfigError, match="zip takes sources at least one, got") as caught:
        loose()
    assert "defined at tests/data/sources/test_combined.py:" in str(caught.value)
    with pytest.raises(ConfigError, match=r"without stages, got <Pipeline numbers → skip\(1\)>"):
        loose(a, a.skip(1))
    with pytest.raises(ConfigError, match=r"zip takes sources that begin pipelines, got \[1, 2\]"):
        loose(a, [1, 2])
    with pytest.raises(ConfigError, match="that can be read again: a queue keeps nothing that it gave"):
        af.data.concatenate(a, af.data.queue(asyncio.Queue()))
    with pytest.raises(ConfigError, match="interleave takes cycle from 1 on"):
        af.data.interleave(a, cycle=0)
    with pytest.raises(ConfigError, match="interleave takes block from 1 on"):
        af.data.interleave(a, block=0)
    with pytest.raises(InputError, match="part 1 of zip.* got some that are awaited"):
        elements(af.data.zip(a, af.data.generator(later)))
