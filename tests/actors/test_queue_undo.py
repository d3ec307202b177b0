"""What a step took out of a queue and has not used comes back to its place, however the step ends."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

import actorflow as af
from actorflow import errors
from tests.support.sessions import run


class Map:
    """Queue `a` of numbers, `b` of what a step makes of them, and a variable that may be assigned."""

    def __init__(self, capacity: int = 8, first: int = 8) -> None:
        with af.Graph() as self.graph:
            self.a = af.state.FIFOQueue(first, "int64", (), name="a")
            self.b = af.state.FIFOQueue(capacity, "int64", (), name="b")
            self.x = af.placeholder("int64", (), name="x")
            self.xs = af.placeholder("int64", (None,), name="xs")
            self.put, self.put_many = self.a.enqueue(self.x), self.a.enqueue_many(self.xs)
            self.fill = self.b.enqueue(self.x)
            self.take, self.close = self.a.dequeue(), self.a.close()
            self.size, self.size_b = self.a.size(), self.b.size()
            self.moved = self.b.enqueue(self.a.dequeue() + 100)
            self.moved_many = self.b.enqueue_many(self.a.dequeue_many(3) + 100)
            self.taken_b = self.b.dequeue()
            self.v = af.Variable(np.int64(0), name="v", trainable=False)
            self.assigned = self.v.assign(self.a.dequeue())
            self.broken = af.math.check_numerics(af.cast(self.a.dequeue(), "float32") / 0.0)

    async def drained(self, session: af.Session) -> list[int]:
        return [int(await session.run(self.take)) for _ in range(int(await session.run(self.size)))]

    async def drained_b(self, session: af.Session) -> list[int]:
        return [int(await session.run(self.taken_b)) for _ in range(int(await session.run(self.size_b)))]


def test_a_step_that_fails_after_its_dequeue_gives_the_element_back_in_its_place() -> None:
    m = Map()

    async def body(session: af.Session) -> Any:
        await session.run(m.put_many, {m.xs: [1, 2, 3]})
        with pytest.raises(errors.NumericError):
            await session.run(m.broken)
        return await m.drained(session)

    assert run(m.graph, body) == [1, 2, 3]


def test_a_step_past_its_deadline_gives_back_what_it_took() -> None:
    m = Map(capacity=1)

    async def body(session: af.Session) -> Any:
        await session.run(m.put_many, {m.xs: [1, 2]})
        await session.run(m.fill, {m.x: 7})
        with pytest.raises(errors.DeadlinePassed):
            await session.run(m.moved, deadline_s=0.02)
        return await m.drained(session), await m.drained_b(session)

    assert run(m.graph, body) == ([1, 2], [7])


def test_a_cancelled_step_that_waits_to_pass_an_element_on_gives_it_back() -> None:
    m = Map(capacity=1)

    async def body(session: af.Session) -> Any:
        await session.run(m.put_many, {m.xs: [1, 2]})
        await session.run(m.fill, {m.x: 7})
        moving = asyncio.create_task(session.run(m.moved))
        await asyncio.sleep(0.01)
        moving.cancel()
        await asyncio.wait([moving])
        return await m.drained(session), await m.drained_b(session)

    assert run(m.graph, body) == ([1, 2], [7])


def test_what_has_been_passed_on_does_not_come_back() -> None:
    m = Map()
    with m.graph, af.control_dependencies([m.moved]):
        then = af.math.check_numerics(af.constant(1.0) / 0.0)

    async def body(session: af.Session) -> Any:
        await session.run(m.put_many, {m.xs: [1, 2]})
        with pytest.raises(errors.NumericError):
            await session.run(then)
        return await m.drained(session), await m.drained_b(session)

    assert run(m.graph, body, passes=()) == ([2], [101])


def test_what_has_been_assigned_does_not_come_back() -> None:
    m = Map()
    with m.graph, af.control_dependencies([m.assigned]):
        then = af.math.check_numerics(af.constant(1.0) / 0.0)

    async def body(session: af.Session) -> Any:
        await session.run(m.put_many, {m.xs: [5, 6]})
        with pytest.raises(errors.NumericError):
            await session.run(then)
        return await m.drained(session), int(await session.run(m.v))

    assert run(m.graph, body, passes=()) == ([6], 5)


def test_a_cancelled_step_never_puts_an_element_into_both_queues() -> None:
    """Some rows of the batch are in: the elements count as used, and those not in are dropped."""
    m = Map(capacity=1)

    async def body(session: af.Session) -> Any:
        await session.run(m.put_many, {m.xs: [1, 2, 3, 4]})
        moving = asyncio.create_task(session.run(m.moved_many))
        await asyncio.sleep(0.01)
        moving.cancel()
        await asyncio.wait([moving])
        return await m.drained(session), await m.drained_b(session)

    assert run(m.graph, body) == ([4], [101])


def test_a_batch_that_has_not_begun_to_go_in_comes_back_whole() -> None:
    m = Map(capacity=1)

    async def body(session: af.Session) -> Any:
        await session.run(m.put_many, {m.xs: [1, 2, 3, 4]})
        await session.run(m.fill, {m.x: 7})
        moving = asyncio.create_task(session.run(m.moved_many))
        await asyncio.sleep(0.01)
        moving.cancel()
        await asyncio.wait([moving])
        return await m.drained(session), await m.drained_b(session)

    assert run(m.graph, body) == ([1, 2, 3, 4], [7])


def has_its_value(session: af.Session) -> bool:
    """Whether the step that began first has all that it fetches."""
    return not session.dump().steps[0].fetches_left


def test_a_caller_cancelled_in_the_turn_in_which_its_step_ended_gives_the_element_back() -> None:
    m = Map()

    async def body(session: af.Session) -> Any:
        taking = asyncio.create_task(session.run(m.take))
        await asyncio.sleep(0.01)
        putting = asyncio.create_task(session.run(m.put, {m.x: 1}))
        for _ in range(9):
            await asyncio.sleep(0)
            if has_its_value(session):
                break
        assert has_its_value(session) and not taking.done()
        taking.cancel()
        await asyncio.wait([taking])
        await putting
        return taking.cancelled(), await m.drained(session)

    assert run(m.graph, body) == (True, [1])


def test_an_element_that_comes_back_goes_to_whoever_waits() -> None:
    m = Map(capacity=1)

    async def body(session: af.Session) -> Any:
        await session.run(m.fill, {m.x: 7})
        await session.run(m.put, {m.x: 1})
        moving = asyncio.create_task(session.run(m.moved))
        await asyncio.sleep(0.01)
        waiting = asyncio.create_task(session.run(m.take))
        await asyncio.sleep(0.01)
        assert not waiting.done()
        moving.cancel()
        return int(await waiting)

    assert run(m.graph, body) == 1


def test_a_closed_queue_serves_what_came_back_after_it_ran_dry() -> None:
    m = Map(capacity=1)

    async def body(session: af.Session) -> Any:
        await session.run(m.fill, {m.x: 7})
        await session.run(m.put, {m.x: 1})
        moving = asyncio.create_task(session.run(m.moved))
        await asyncio.sleep(0.01)
        await session.run(m.close)
        with pytest.raises(errors.OutOfRange):
            await session.run(m.take)
        moving.cancel()
        await asyncio.wait([moving])
        late = int(await session.run(m.take))
        with pytest.raises(errors.OutOfRange):
            await session.run(m.take)
        with pytest.raises(errors.QueueClosed):
            await session.run(m.put, {m.x: 2})
        return late

    assert run(m.graph, body) == 1


def test_two_dequeues_of_one_step_lose_nothing_when_one_of_them_fails() -> None:
    """The first fails when the queue closes; the second is answered in the same turn, for a step that ended."""
    with af.Graph() as graph:
        queue = af.state.FIFOQueue(8, "int64", (), name="q")
        xs = af.placeholder("int64", (None,), name="xs")
        put, close, rest = queue.enqueue_many(xs), queue.close(), queue.dequeue_up_to(9)
        both = [queue.dequeue_many(3), queue.dequeue_up_to(1)]

    async def body(session: af.Session) -> Any:
        taking = asyncio.create_task(session.run(both))
        await asyncio.sleep(0.01)
        await session.run(put, {xs: [1, 2]})
        await session.run(close)
        with pytest.raises(errors.OutOfRange):
            await taking
        return (await session.run(rest)).tolist()

    assert run(graph, body) == [1, 2]


def test_a_step_that_was_cancelled_before_its_call_was_handled_takes_nothing() -> None:
    m = Map()

    async def body(session: af.Session) -> Any:
        await session.run(m.put, {m.x: 1})
        taking = asyncio.create_task(session.run(m.take))
        putting = asyncio.create_task(session.run(m.put, {m.x: 2}))
        taking.cancel()
        putting.cancel()
        await asyncio.wait([taking, putting])
        return await m.drained(session)

    assert run(m.graph, body) == [1]


def test_closing_the_session_ends_those_who_wait(caplog: pytest.LogCaptureFixture) -> None:
    m = Map(capacity=1)

    async def body(session: af.Session) -> Any:
        await session.run(m.fill, {m.x: 7})
        await session.run(m.put, {m.x: 1})
        return [
            asyncio.create_task(session.run(m.moved)),  # it holds an element
            asyncio.create_task(session.run(m.fill, {m.x: 8})),
            asyncio.create_task(session.run(m.take)),
            *[asyncio.sleep(0.01)],
        ]

    async def main() -> Any:
        async with af.Session(m.graph) as session:
            *waiting, pause = await body(session)
            await pause
        return await asyncio.gather(*waiting, return_exceptions=True)

    ends = af.run(main())

    assert all(isinstance(error, errors.StepAborted | errors.SessionClosed) for error in ends), ends
    assert not caplog.records


@pytest.mark.parametrize("which", ["take", "moved"])
def test_cancelling_at_any_turn_neither_loses_nor_doubles_an_element(which: str) -> None:
    m = Map(first=2)

    async def cancelled_at(session: af.Session, turn: int) -> int:
        """Returns how many elements the task got that was cancelled; the others come after it."""
        got: list[int] = []

        async def again() -> None:
            while True:
                got.append(int(await session.run(getattr(m, which))))

        async def put() -> None:
            for k in range(8):
                await session.run(m.put, {m.x: k})

        putting, working = asyncio.create_task(put()), asyncio.create_task(again())
        for _ in range(turn):
            await asyncio.sleep(0)
        working.cancel()
        await asyncio.wait([working])
        later = []
        while not putting.done() or await session.run(m.size):
            if await session.run(
                m.size
            ):  # else what was put last is taken, and the task has yet to hear of it
                later.append(int(await session.run(m.take)))
            else:
                await asyncio.sleep(0)
        if which == "take":
            assert got + later == list(range(8))
        else:
            assert [k - 100 for k in await m.drained_b(session)] + later == list(range(8))
        return len(got)

    async def body(session: af.Session) -> Any:
        return [await cancelled_at(session, turn) for turn in range(40)]

    found = run(m.graph, body)

    assert {0, 8} < set(found), "some are cancelled early, some late, some in between"
