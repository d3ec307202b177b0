"""First values that are taken out of something: an element is with its variable, or where it was."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import actorflow as af
from actorflow import errors, sim
from actorflow.dataflow.state.variable import Initialise
from actorflow.plan.program import Holder, Holding
from actorflow.session.local import LocalBackend
from actorflow.sim.engine.schedulers import Schedule
from tests.support.sessions import run
from tests.support.strategies import examples, plan_of_the_fault, run_drawn, simulated


class Begun:
    """A variable that begins with what it takes out of a queue."""

    def __init__(self) -> None:
        with af.Graph() as self.graph:
            queue = af.state.FIFOQueue(8, "int64", (), name="queue")
            self.xs = af.placeholder("int64", (None,), name="xs")
            self.put = queue.enqueue_many(self.xs)
            self.v = af.Variable(queue.dequeue(), name="v", trainable=False)
            self.read = self.v.read()
            self.take, self.size = queue.dequeue(), queue.size()

    async def left(self, session: af.Session) -> list[int]:
        return [int(await session.run(self.take)) for _ in range(int(await session.run(self.size)))]


async def cancelled_at(begun: Begun, session: af.Session, turn: int, *, late: bool) -> bool:
    """Cancels whoever brings the first value about, and counts the elements; tells whether he had it."""
    fill = {begun.xs: np.arange(1, 4)}
    filling = None
    if not late:
        await session.run(begun.put, fill)
    reading = asyncio.create_task(session.run(begun.read))
    if late:
        await asyncio.sleep(0)
        filling = asyncio.create_task(session.run(begun.put, fill))
    for _ in range(turn):
        await asyncio.sleep(0)
    reading.cancel()
    await asyncio.wait([reading])
    if filling is not None:
        await filling
    value = int(await session.run(begun.read))
    assert [value, *await begun.left(session)] == [1, 2, 3]
    return not reading.cancelled()


@pytest.mark.parametrize("late", [False, True])
def test_a_first_value_that_is_cancelled_at_any_turn_loses_no_element(late: bool) -> None:
    begun = Begun()

    def at(turn: int) -> Any:
        return run(begun.graph, lambda session: cancelled_at(begun, session, turn, late=late))

    assert {at(turn) for turn in range(40)} == {True, False}


@settings(max_examples=examples(100), deadline=None)
@given(turn=st.integers(0, 12), late=st.booleans(), schedule=sim.schedules())
def test_a_first_value_that_is_cancelled_in_any_order_loses_no_element(
    turn: int, late: bool, schedule: Schedule
) -> None:
    begun = Begun()

    run_drawn(begun.graph, schedule, lambda session: cancelled_at(begun, session, turn, late=late))


def test_a_first_value_that_the_variable_refuses_goes_back() -> None:
    with af.Graph() as graph:
        queue = af.state.FIFOQueue(4, "int64", None, name="queue")
        x = af.placeholder("int64", None, name="x")
        put, take, size = queue.enqueue(x), queue.dequeue(), queue.size()
        v = af.Variable(queue.dequeue(), shape=(2,), name="v")

    async def body(session: af.Session) -> Any:
        await session.run(put, {x: [1, 2, 3]})
        await session.run(put, {x: [4, 5]})
        with pytest.raises(errors.SpecError, match=r"variable 'v' .*\(3,\)"):
            await session.run(v)
        refused = (await session.run(take)).tolist()
        return refused, (await session.run(v)).tolist(), int(await session.run(size))

    assert run(graph, body) == ([1, 2, 3], [4, 5], 0)


def test_a_first_value_that_came_too_late_goes_back() -> None:
    """Meanwhile a session whose graph gives none has assigned the shared variable."""
    with af.Graph() as other:
        v = af.Variable(dtype="int64", shape=(), shared_name="v", trainable=False)
        assigned = v.assign(np.int64(7))
    with af.Graph() as graph:
        queue = af.state.FIFOQueue(4, "int64", (), name="queue")
        put, take = queue.enqueue(np.int64(1)), queue.dequeue()
        mine = af.Variable(queue.dequeue(), shared_name="v", trainable=False)

    async def main() -> Any:
        async with (
            af.ActorSystem(name="system") as system,
            af.Session(graph, system=system) as s,
            af.Session(other, system=system) as t,
        ):
            reading = asyncio.create_task(s.run(mine))
            await asyncio.sleep(0.01)
            await t.run(assigned)
            await s.run(put)
            return int(await reading), int(await s.run(take))

    assert af.run(main()) == (7, 1)


async def _asked(self: LocalBackend, name: str, compute: Any) -> asyncio.Future[bool]:
    """As `initialise`, but whoever is cancelled does not send what has been computed."""
    (value,), _ = await compute()
    answer = self.system.create_future()
    ref = self.resources.find(Holder(Holding.RESOURCE, name))
    answer.set_result(await ref.ask(Initialise(value)))
    return answer


def test_the_law_finds_a_first_value_that_is_sent_by_whoever_may_be_cancelled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(LocalBackend, "initialise", _asked)
    begun = Begun()

    async def body(session: af.Session) -> None:
        await cancelled_at(begun, session, 3, late=False)

    plan_of_the_fault(simulated(begun.graph, body), most=2)


# -- the order in which those go on who waited ------------------------------------------------------


class Counted:
    """Steps that draw a number and count themselves, over variables that have no value yet."""

    def __init__(self) -> None:
        with af.Graph(seed=5) as self.graph:
            self.draw = af.random.uniform((), dtype="float64", name="draw")
            base = af.Variable(np.int64(10), name="base", trainable=False)
            count = af.Variable(base.read() - 10, name="count", trainable=False)
            queue = af.state.FIFOQueue(1, "float64", (), name="queue")
            late = af.Variable(queue.dequeue(), name="late", trainable=False)
            self.put = queue.enqueue(np.float64(0))
            self.drawn_late = self.draw + late.read()
            self.out = [self.draw, count.assign_add(np.int64(1)), base.read()]

    async def one_by_one(self, session: af.Session, steps: int) -> list[tuple[float, int]]:
        return [told(await session.run(self.out)) for _ in range(steps)]


def told(values: list[Any]) -> tuple[float, int]:
    return float(values[0]), int(values[1])


@pytest.mark.parametrize("max_steps", [1, 2, 64])
def test_runs_that_begin_together_begin_in_their_order(max_steps: int) -> None:
    """Also those that wait for first values, of which one reads another, and then for room."""
    counted = Counted()

    async def together(session: af.Session) -> list[tuple[float, int]]:
        return [told(v) for v in await asyncio.gather(*(session.run(counted.out) for _ in range(5)))]

    expected = run(counted.graph, lambda session: counted.one_by_one(session, 5), threads=0)
    found = run(counted.graph, together, threads=0, max_steps=max_steps)

    assert found == expected
    assert [count for _, count in found] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("turn", range(0, 12, 2))
def test_runs_that_wait_go_on_in_their_order_when_the_first_is_cancelled(turn: int) -> None:
    counted = Counted()

    async def body(session: af.Session) -> list[float]:
        tasks = [asyncio.create_task(session.run(counted.out)) for _ in range(4)]
        await asyncio.sleep(0)
        for _ in range(turn):
            await asyncio.sleep(0)
        tasks[0].cancel()
        left = [told(values) for values in await asyncio.gather(*tasks[1:])]
        assert [count - left[0][1] for _, count in left] == [0, 1, 2]
        return [draw for draw, _ in left]

    expected = run(counted.graph, lambda session: counted.one_by_one(session, 4), threads=0)

    assert run(counted.graph, body, threads=0) == [draw for draw, _ in expected[1:]]


def test_a_run_that_waits_for_long_has_the_number_of_its_call() -> None:
    counted = Counted()

    async def body(session: af.Session) -> list[float]:
        waiting = asyncio.create_task(session.run(counted.drawn_late))
        await asyncio.sleep(0)
        second = await session.run(counted.draw)
        assert not waiting.done()
        await session.run(counted.put)
        return [float(await waiting), float(second)]

    expected = run(counted.graph, lambda session: counted.one_by_one(session, 2), threads=0)

    assert run(counted.graph, body, threads=0) == [draw for draw, _ in expected]
