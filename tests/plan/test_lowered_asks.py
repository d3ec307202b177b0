"""Code of the user in loops: once a turn, at the same time where no order is asked for."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import actorflow as af
from actorflow import sim
from actorflow.values.spec import spec
from tests.support.strategies import run_drawn

TURNS = 8


@pytest.mark.parametrize(("parallel", "seconds"), [(1, 8.0), (4, 2.0), (32, 1.0)])
def test_asks_of_several_turns_overlap_as_far_as_turns_may(parallel: int, seconds: float) -> None:
    async def nap(i: Any) -> Any:
        begun.append(int(i))
        await asyncio.sleep(1.0)
        return i

    with af.Graph() as graph:

        def body(i: Any, total: Any) -> Any:
            return i + 1, total + af.py_actor(nap, i, spec("int32", ()))

        _, total = af.while_loop(lambda i, _: i < TURNS, body, (0, 0), parallel_iterations=parallel)
    begun: list[int] = []

    async def main(session: af.Session) -> Any:
        now = asyncio.get_running_loop().time
        before = now()
        return int(await session.run(total)), now() - before

    found, took = run_drawn(graph, sim.FIFO, main)

    assert found == sum(range(TURNS))
    assert sorted(begun) == list(range(TURNS))
    assert took == pytest.approx(seconds, rel=0.2)


def test_an_ask_of_which_nobody_needs_anything_happens_once_a_turn_and_never_in_another_branch() -> None:
    async def note(i: Any) -> None:
        await asyncio.sleep(1.0)
        noted.append(int(i))

    with af.Graph() as graph:

        def odd(i: Any) -> Any:
            af.py_actor(note, i, None)
            return af.arrays.identity(i)

        def body(i: Any) -> Any:
            af.cond(af.equal(i % 2, 1), lambda: odd(i), lambda: af.arrays.identity(i))
            return i + 1

        out = af.while_loop(lambda i: i < TURNS, body, 0)
    noted: list[int] = []

    async def main(session: af.Session) -> Any:
        return int(await session.run(out))

    assert run_drawn(graph, sim.FIFO, main) == TURNS
    assert sorted(noted) == [1, 3, 5, 7]
