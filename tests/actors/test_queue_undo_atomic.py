"""An element used inside an atomic block: it is in the variables of the block, or back in its place."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

import actorflow as af
from actorflow import errors, sim
from actorflow.dataflow.state.locks import LockOwner
from actorflow.dataflow.state.register import Source
from actorflow.dataflow.state.variable import Publish, TakeLock
from tests.support.sessions import run


class Ledger:
    """A queue of bits, and blocks that add what they take to one variable and subtract it from another."""

    def __init__(self) -> None:
        with af.Graph() as self.graph:
            queue = af.state.FIFOQueue(2, "int64", (), name="queue")
            self.x = af.placeholder("int64", (), name="x")
            self.put, self.take, self.size = queue.enqueue(self.x), queue.dequeue(), queue.size()
            self.a, self.b = (af.Variable(np.int64(0), name=name, trainable=False) for name in "ab")
            taken = queue.dequeue()
            with af.atomic(self.a, self.b, name="booking") as block:
                self.a.assign(self.a + taken)
                self.b.assign(self.b - taken)
            self.book = block.done
            taken = queue.dequeue()
            with af.atomic(self.a, self.b, name="failing") as block:
                done = self.a.assign(self.a + taken)
                self.b.assign(self.b - taken)
                self.fail = af.gather(af.reshape(done, (1,)), af.reshape(taken + 9, (1,)))
            taken = queue.dequeue()
            with af.atomic(self.a, self.b, name="last") as block:
                self.a.assign(self.a + taken)
                self.b.assign(self.b - taken)
            with af.control_dependencies([block.done]):
                self.fail_later = af.math.check_numerics(af.constant(1.0) / 0.0)
            held = af.placeholder("int64", (), name="held")
            with af.atomic(self.a, name="holding") as block:
                self.a.assign(self.a + held)
            self.held, self.hold = held, block.done
            self.look = [self.a.read(), self.b.read(), self.a.version(), self.b.version()]

    async def state(self, session: af.Session) -> list[int]:
        return [int(v) for v in await session.run(self.look)]

    async def left(self, session: af.Session) -> list[int]:
        return [int(await session.run(self.take)) for _ in range(int(await session.run(self.size)))]


def test_an_element_whose_block_fails_comes_back_and_the_variables_are_as_before() -> None:
    m = Ledger()

    async def body(session: af.Session) -> Any:
        await session.run(m.put, {m.x: 1})
        await session.run(m.book)
        for k in (2, 4):
            await session.run(m.put, {m.x: k})
        before = await m.state(session)
        with pytest.raises(errors.KernelError):
            await session.run(m.fail)
        return before, await m.state(session), await m.left(session)

    before, after, left = run(m.graph, body)

    assert before == after == [1, -1, 2, 2]
    assert left == [2, 4]


def test_an_element_whose_block_has_ended_does_not_come_back() -> None:
    m = Ledger()

    async def body(session: af.Session) -> Any:
        for k in (1, 2):
            await session.run(m.put, {m.x: k})
        with pytest.raises(errors.NumericError):
            await session.run(m.fail_later)
        return await m.state(session), await m.left(session)

    assert run(m.graph, body, passes=()) == ([1, -1, 2, 2], [2])


@pytest.mark.parametrize("end", ["deadline", "cancel"])
def test_an_element_whose_step_ends_in_the_line_for_its_block_comes_back(end: str) -> None:
    m = Ledger()
    owner = LockOwner(Source("somebody"), 1, "by hand", 7)

    async def body(session: af.Session) -> Any:
        await session.run(m.put, {m.x: 1})
        before = await m.state(session)
        await session.resources.call("b", TakeLock(owner))
        booking = asyncio.create_task(session.run(m.book, deadline_s=0.02 if end == "deadline" else None))
        await asyncio.sleep(0.01)
        held = int(await session.run(m.size))
        if end == "cancel":
            booking.cancel()
        with pytest.raises((errors.DeadlinePassed, asyncio.CancelledError)):
            await booking
        session.resources.tell("b", Publish(owner))
        return before, held, await m.state(session), await m.left(session)

    async def main() -> Any:
        async with af.Session(m.graph) as session:
            return await body(session)

    before, held, after, left = sim.run(
        main
    ).result  # in virtual time: the element is out before the deadline

    assert (held, left) == (0, [1])
    assert before == after == [0, 0, 1, 1]


async def fill(m: Ledger, session: af.Session) -> None:
    """Puts in powers of two, so that the variables tell which of them they hold."""
    for k in range(6):
        await session.run(m.put, {m.x: 1 << k})


async def again(m: Ledger, session: af.Session, which: str) -> None:
    """Books one element after the other; those whose block has failed too, later."""
    while True:
        try:
            await session.run(getattr(m, which))
        except errors.KernelError:
            await session.run(m.book)


async def hold(m: Ledger, session: af.Session) -> None:
    """Locks one of the variables again and again, and changes nothing."""
    while True:
        await session.run(m.hold, {m.held: 0})
        await asyncio.sleep(0)


async def ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait([task])


@pytest.mark.parametrize("which", ["book", "fail"])
@pytest.mark.parametrize("contended", [False, True])
def test_cancelling_at_any_turn_leaves_each_element_in_one_place(which: str, contended: bool) -> None:
    m = Ledger()

    async def cancelled_at(session: af.Session, turn: int) -> int:
        """Returns how many elements were booked by the task that is cancelled."""
        before = (await m.state(session))[0]
        holding = asyncio.create_task(hold(m, session)) if contended else None
        putting = asyncio.create_task(fill(m, session))
        working = asyncio.create_task(again(m, session, which))
        for _ in range(turn):
            await asyncio.sleep(0)
        await ended(working)
        later = []
        while not putting.done() or await session.run(m.size):
            later += await m.left(session)
            await asyncio.sleep(0)
        if holding is not None:
            await ended(holding)

        a, b, *_ = await m.state(session)
        assert a == -b, "both sides of the block, or neither"
        assert a - before + sum(later) == (1 << 6) - 1, (a - before, later)
        assert later == sorted(later), "what comes back is where it was"
        return (a - before).bit_count()

    async def body(session: af.Session) -> Any:
        return [await cancelled_at(session, turn) for turn in range(40)]

    found = run(m.graph, body, starvation_s=0.5)

    assert 0 in found
    assert max(found) > 2, "some are cancelled early, some late, some in between"
