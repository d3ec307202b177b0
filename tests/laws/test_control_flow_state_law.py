"""What bodies do to state happens as often as the program says and in its order, whatever the schedule."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import actorflow as af
from actorflow import sim
from actorflow.graph.node import Node
from actorflow.plan.control.lowering import Lowering
from actorflow.plan.control.region import Region
from actorflow.sim.engine.schedulers import Schedule
from tests.plan.control_flow import SUPPLY, Drawn, World, build, evaluate, programs
from tests.support.strategies import examples, run_drawn

STEPS = 2


def law(drawn: Drawn, schedule: Schedule) -> None:
    """Two steps, one after the other, give and leave what plain Python does."""
    built = build(drawn)
    asked = [built.out, built.done]
    with built.graph:
        fill = [queue.enqueue_many(np.arange(SUPPLY)) for queue in built.supplied.values()]
        sizes = [queue.size() for queue in (*built.supplied.values(), *built.filled.values())]
        values = [variable.read() for variable in built.variables]

    async def body(session: af.Session) -> None:
        feeds = {x: np.int64(value) for x, value in zip(built.fed, drawn.inputs, strict=True)}
        world = World()
        await session.run(fill)
        for _ in range(STEPS):
            out, _ = await session.run(asked, feeds)
            assert [int(v) for v in out] == evaluate(drawn, world)
        assert [int(v) for v in await session.run(values)] == world.variables
        left = [SUPPLY - world.taken.get(at, 0) for at in built.supplied]
        put = [world.put.get(at, []) for at in built.filled]
        assert [int(n) for n in await session.run(sizes)] == [*left, *map(len, put)]
        with built.graph:
            drains = [q.dequeue_many(len(n)) for q, n in zip(built.filled.values(), put, strict=True)]
        assert [np.ravel(got).tolist() for got in await session.run(drains)] == put

    run_drawn(built.graph, schedule, body)


@settings(max_examples=examples(60), deadline=None)
@given(drawn=programs(trips=4, state=True), schedule=sim.schedules())
def test_state_is_touched_as_often_and_in_the_order_that_the_program_says(
    drawn: Drawn, schedule: Schedule
) -> None:
    law(drawn, schedule)


# ------------------------------------------------------------------------------------ planted faults


def _nothing(self: Region, name: str) -> list[int]:
    return []


def _without_token(self: Region, node: Node, name: str) -> list[int]:
    found = self.order.before.get(node.id, {}).get(name, ())
    return [c for i in found for c in self._done_nodes(i, name)]


SLOW = [("op", "add", -1, 0)] * 4
"""Known are the input, the loop variable, its number, and what a turn has read; the last is added up."""

TURNS = Drawn([4], [("loop", 0, 9, [0], [("read", 0), *SLOW, ("add_to", 0, -1)], [3], 8, None)])


@pytest.mark.parametrize(
    ("what", "name", "instead"),
    [
        (Region, "last", _nothing),
        (Region, "before", _without_token),
        (Lowering, "effects", lambda *args: ()),
    ],
    ids=["the token goes on at once", "nobody waits for the token", "nothing happens that nobody needs"],
)
def test_the_law_finds_a_planted_fault(
    what: Any, name: str, instead: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    law(TURNS, sim.FIFO)
    monkeypatch.setattr(what, name, instead)

    with pytest.raises(AssertionError):
        law(TURNS, sim.FIFO)


@settings(max_examples=examples(40), deadline=None)
@given(
    parallel=st.sampled_from([1, 2, 8]),
    moment=st.integers(0, 60),
    schedule=sim.schedules(),
)
def test_a_loop_that_moves_elements_and_is_cancelled_leaves_each_in_one_place(
    parallel: int, moment: int, schedule: Schedule
) -> None:
    with af.Graph() as graph:
        source, target = (
            af.state.FIFOQueue(None, "int64", (), name="a"),
            af.state.FIFOQueue(None, "int64", (), name="b"),
        )
        fill = source.enqueue_many(np.arange(1, 9))
        sizes = [source.size(), target.size()]

        def body(i: Any) -> Any:
            found = source.dequeue()
            for _ in range(8):  # a long way, on which it can be cancelled
                found = af.negative(found)
            target.enqueue(found)
            return i + 1

        moving = af.while_loop(lambda i: i < 6, body, 0, parallel_iterations=parallel)

    async def main(session: af.Session) -> None:
        await session.run(fill)
        step = asyncio.ensure_future(session.run(moving))
        for _ in range(moment):
            await asyncio.sleep(0)
        step.cancel()
        ended = (await asyncio.gather(step, return_exceptions=True))[0]
        counts = [int(n) for n in await session.run(sizes)]
        with graph:
            drains = [q.dequeue_many(n) for q, n in zip((source, target), counts, strict=True)]
        left, moved = [np.ravel(v).tolist() for v in await session.run(drains)]
        assert [*moved, *left] == list(range(1, 9))
        assert len(moved) == 6 or isinstance(ended, asyncio.CancelledError)

    run_drawn(graph, schedule, main)
