"""Variables under concurrent steps: linearizable, in program order, each write once."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import actorflow as af
from tests.strategies import examples, run_shuffled


@settings(max_examples=examples(60), deadline=None)
@given(
    program=st.lists(st.sampled_from(["read", "add", "assign"]), min_size=1, max_size=8),
    seed=st.integers(0, 2**16),
)
def test_reads_and_writes_of_one_step_follow_program_order(program: list[str], seed: int) -> None:
    expected, value = [], 1.0
    with af.Graph() as graph:
        w = af.Variable(1.0, name="w")
        fetches = []
        for k, verb in enumerate(program):
            if verb == "read":
                fetches.append(w.read())
            elif verb == "add":
                fetches.append(w.assign_add(float(k + 1)))
                value += k + 1
            else:
                fetches.append(w.assign(float(10 * k)))
                value = 10.0 * k
            expected.append(value)

    values = run_shuffled(graph, seed, lambda session: session.run(fetches))

    assert [float(v) for v in values] == expected


@settings(max_examples=examples(60), deadline=None)
@given(
    waves=st.lists(
        st.lists(st.sampled_from(["read", "add"]), min_size=1, max_size=5), min_size=1, max_size=4
    ),
    seed=st.integers(0, 2**16),
)
def test_concurrent_steps_see_one_history(waves: list[list[str]], seed: int) -> None:
    """Every add is a distinct power of two, so a value tells exactly which adds came before it."""
    with af.Graph() as graph:
        w = af.Variable(np.int64(0), name="w")
        delta = af.placeholder("int64", (), name="delta")
        read, add = w.read(), w.assign_add(delta)

    async def body(session: af.Session) -> list[list[int]]:
        bits, results = 0, []
        for wave in waves:  # the steps of a wave overlap; waves follow each other
            steps = []
            for verb in wave:
                if verb == "read":
                    steps.append(session.run(read))
                else:
                    steps.append(session.run(add, {delta: np.int64(1 << bits)}))
                    bits += 1
            results.append([int(v) for v in await asyncio.gather(*steps)])
        return results

    results = run_shuffled(graph, seed, body)

    chain = sorted({v for wave in results for v in wave} | {0})
    assert all(small & large == small for small, large in itertools.pairwise(chain))
    written = adds_so_far = 0
    for wave, values in zip(waves, results, strict=True):
        adds = [v for verb, v in zip(wave, values, strict=True) if verb == "add"]
        assert len(set(adds)) == len(adds)
        assert all(v & written == written for v in values), "what ended before a step began is seen by it"
        adds_so_far += len(adds)
        written |= max(adds, default=0)
        assert written == (1 << adds_so_far) - 1, "each add was applied, once"


@settings(max_examples=examples(60), deadline=None)
@given(
    waves=st.lists(
        st.lists(st.sampled_from(["read", "add", "assign"]), min_size=1, max_size=5), min_size=1, max_size=4
    ),
    seed=st.integers(0, 2**16),
)
def test_concurrent_steps_with_assigns_see_one_history(waves: list[list[str]], seed: int) -> None:
    """Some order of the steps of each wave, one after the other, gives every value that they saw."""
    with af.Graph() as graph:
        w = af.Variable(np.int64(0), name="w")
        operand = af.placeholder("int64", (), name="operand")
        verbs = {"add": w.assign_add(operand), "assign": w.assign(operand)}
        read = w.read()

    async def body(session: af.Session) -> list[list[tuple[str, int, int]]]:
        count, history = 0, []
        for wave in waves:
            steps, calls = [], []
            for verb in wave:
                count += 1
                number = 1 << count  # distinct, and distinct from every sum of the others
                feeds = {} if verb == "read" else {operand: np.int64(number)}
                calls.append((verb, number))
                steps.append(session.run(verbs.get(verb, read), feeds))
            seen = await asyncio.gather(*steps)
            history.append([(*call, int(v)) for call, v in zip(calls, seen, strict=True)])
        return history

    history = run_shuffled(graph, seed, body)

    values = {0}
    for wave in history:
        values = {after for before in values for after in _outcomes(before, wave)}
        assert values, f"no order of {wave} gives what its steps saw"


def _outcomes(before: int, wave: list[tuple[str, int, int]]) -> set[int]:
    """The values after `wave` in each order of its steps in which every step sees what it saw."""
    if not wave:
        return {before}
    found: set[int] = set()
    for k, (verb, number, seen) in enumerate(wave):
        after = {"read": before, "add": before + number, "assign": number}[verb]
        if after == seen:
            found |= _outcomes(after, wave[:k] + wave[k + 1 :])
    return found


def test_a_step_that_fails_before_a_write_never_writes() -> None:
    with af.Graph() as graph:
        w = af.Variable(1.0, name="w")
        x = af.placeholder("float32", (None,), name="x")
        bad = af.reshape(x, (2, 2))
        with af.control_dependencies([bad]):
            write = w.assign_add(1.0)
        read = w.read()

    async def main() -> Any:
        async with af.Session(graph) as session:
            for _ in range(3):
                with pytest.raises(af.errors.KernelError):
                    await session.run([write, bad], {x: np.ones(3, "float32")})
            return await session.run(read)

    assert af.run(main()) == 1
