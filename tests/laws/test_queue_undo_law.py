"""Whatever step is cancelled at whatever point, every element is in one place: in a queue or with its taker.

A source fills a queue, steps move elements one by one into a second one, and consumers take them out;
a trainer assigns what it takes from the first queue, or books it in two variables at once, in an atomic
block. All kinds of queue, in every drawn order.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import actorflow as af
from actorflow import errors, sim
from actorflow.dataflow.engine.step import Step
from actorflow.dataflow.state.queue_rule import QueueRule
from actorflow.dataflow.state.queue_store import FirstIn
from actorflow.sim.engine.schedulers import Schedule
from tests.support.faults import planted
from tests.support.sessions import assert_no_step_left
from tests.support.strategies import examples, plan_of_the_fault, run_drawn, simulated

KINDS = ("fifo", "shuffle", "priority", "padding")
ENDS = (errors.QueueClosed, errors.OutOfRange, asyncio.CancelledError)


def made(kind: str, capacity: int, max_bytes: int | None, name: str) -> Any:
    """A queue of one number, or of one beside its priority."""
    match kind:
        case "fifo":
            return af.state.FIFOQueue(capacity, ["int64", "int64"], [(), ()], max_bytes=max_bytes, name=name)
        case "shuffle":
            return af.state.RandomShuffleQueue(
                capacity, capacity - 1, ["int64", "int64"], [(), ()], max_bytes=max_bytes, name=name
            )
        case "priority":
            return af.state.PriorityQueue(
                capacity, ["int64", "int64"], [(), ()], max_bytes=max_bytes, name=name
            )
    return af.state.PaddingFIFOQueue(capacity, ["int64", "int64"], [(), ()], max_bytes=max_bytes, name=name)


class Works:
    """Two queues, and those who fill, move, train and take.

    Args:
        kind: That of both queues.
        count: How many elements the source puts in, one after the other.
        capacity: Of both; the second is also limited to two elements by bytes.
        batch: How many a consumer takes at once.
        cancelled: (task, turn): that worker is cancelled when the loop has come round so often.
        atomic: Whether the trainer books in a block; beside it somebody else locks one of the variables.
    """

    def __init__(
        self,
        kind: str,
        count: int,
        capacity: int,
        batch: int,
        cancelled: frozenset[tuple[int, int]] = frozenset(),
        atomic: bool = False,
    ) -> None:
        self.kind = kind
        self.atomic = atomic
        self.count = count
        self.cancelled = cancelled
        with af.Graph() as self.graph:
            first, second = made(kind, capacity, None, "first"), made(kind, capacity, 32, "second")
            self.x = af.placeholder("int64", (), name="x")
            self.put = first.enqueue((self.x % 2, self.x))
            rank, value = first.dequeue()
            with af.control_dependencies([second.enqueue((rank, value))]):
                self.move = af.arrays.identity(value)
            self.seen = af.Variable(np.zeros(2, "int64"), name="seen", trainable=False)
            self.also = af.Variable(np.zeros(2, "int64"), name="also", trainable=False)
            trained = af.stack([af.constant(np.int64(1)), first.dequeue()[1]])
            if atomic:
                with af.atomic(self.seen, self.also) as block:
                    self.seen.assign(self.seen + trained)
                    self.also.assign(self.also + trained)
                self.train = block.done
            else:
                self.train = self.seen.assign_add(trained)
            with af.atomic(self.also) as block:
                self.also.assign(self.also.read())
            self.lock = block.done
            self.take = second.dequeue_up_to(batch)[1]
            self.close = [first.close(), second.close()]
            self.rest = [first.dequeue(), second.dequeue()]

    async def judged(self, session: af.Session) -> None:
        """Lets all of them go on, closes both queues, and counts every element."""
        taken: list[int] = []
        put: list[int] = []

        async def fill() -> None:
            for k in range(self.count):
                put.append(k)
                await session.run(self.put, {self.x: np.int64(k)})

        async def again(fetch: Any) -> None:
            while True:
                await session.run(fetch)

        async def consume() -> None:
            while True:
                taken.extend((await session.run(self.take)).tolist())

        work = (
            fill(), again(self.move), again(self.move), again(self.train), consume(), consume(),
            self.locking(session),
        )  # fmt: skip
        workers = [asyncio.create_task(each) for each in work]
        for turn in range(10):
            for i, when in sorted(self.cancelled):
                if when == turn:
                    workers[i].cancel()
            await asyncio.sleep(0)
        await asyncio.wait(workers[:1], timeout=5)
        closers = [asyncio.create_task(session.run(op)) for op in self.close]
        await asyncio.wait(closers, timeout=5)
        for worker in workers:
            worker.cancel()
        ends = await asyncio.gather(*workers, return_exceptions=True)
        await asyncio.gather(*closers)

        assert all(isinstance(end, ENDS) for end in ends if end is not None), ends
        assert_no_step_left(session)
        doubtful = set(put[-1:]) if ends[0] is not None else set()
        left = await self.drained(session)
        count_all(put, doubtful, [*taken, *left], await self.trained(session))

    async def locking(self, session: af.Session) -> None:
        """Locks one of the variables a few times."""
        for _ in range(3 if self.atomic else 0):
            await session.run(self.lock)

    async def trained(self, session: af.Session) -> tuple[int, ...]:
        """Number and sum of what was trained on."""
        seen, also = [tuple((await session.run(v)).tolist()) for v in (self.seen, self.also)]
        assert also == (seen if self.atomic else (0, 0)), "both variables of the block, or none"
        return seen

    async def drained(self, session: af.Session) -> list[int]:
        """What is in the queues, which is in the order of their kind."""
        first, second = [await _rest(session, op) for op in self.rest]
        if self.kind == "priority":
            assert first == sorted(first, key=lambda k: (k % 2, k)), first
            assert [k % 2 for k in second] == sorted(k % 2 for k in second), second
        elif self.kind != "shuffle":
            assert first == sorted(first), f"what came back is not where it was: {first}"
        return first + second


async def _rest(session: af.Session, op: Any) -> list[int]:
    found = []
    while True:
        try:
            found.append(int((await session.run(op))[1]))
        except errors.OutOfRange:
            return found


def count_all(put: list[int], doubtful: set[int], found: list[int], trained: tuple[int, ...]) -> None:
    """Every element once: with a consumer, in a queue, or among those whose number and sum were trained on.

    One whose enqueue was cancelled may be there or not.
    """
    assert len(found) == len(set(found)), f"doubled: {Counter(found)}"
    missing = set(put) - set(found)
    may_be = [missing, missing - doubtful]
    assert trained in [(len(m), sum(m)) for m in may_be], f"put {put}, found {found}, trained on {trained}"


works = st.builds(
    Works,
    st.sampled_from(KINDS),
    st.integers(1, 6),
    st.integers(1, 3),
    st.integers(1, 2),
    st.frozensets(st.tuples(st.integers(0, 6), st.integers(0, 9)), max_size=4),
    st.booleans(),
)


@settings(max_examples=examples(150), deadline=None)
@given(work=works, schedule=sim.schedules())
def test_every_element_is_in_one_place(work: Works, schedule: Schedule) -> None:
    run_drawn(work.graph, schedule, work.judged)


def test_the_law_finds_a_queue_that_loses_what_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    work = Works("fifo", 3, 1, 1, frozenset({(1, 2), (2, 3)}))
    monkeypatch.setattr(QueueRule, "put_back", lambda self, entries: self._flush([]))

    plan_of_the_fault(simulated(work.graph, work.judged), most=2)


def test_the_law_finds_a_step_that_gives_back_what_it_has_used(monkeypatch: pytest.MonkeyPatch) -> None:
    work = Works("fifo", 4, 2, 1, frozenset({(1, 4), (2, 5), (3, 6)}))
    monkeypatch.setattr(Step, "mark_used", lambda self, nodes: None)

    plan_of_the_fault(simulated(work.graph, work.judged), most=3)


def test_the_law_finds_a_queue_that_puts_back_in_the_wrong_place(monkeypatch: pytest.MonkeyPatch) -> None:
    work = Works("fifo", 4, 3, 1, frozenset({(1, 4), (2, 4), (4, 1), (5, 1)}))
    monkeypatch.setattr(FirstIn, "put_back", lambda self, entries: self._entries.extend(entries))

    plan_of_the_fault(simulated(work.graph, work.judged))


def test_the_law_finds_a_block_that_does_not_say_what_it_has_used(monkeypatch: pytest.MonkeyPatch) -> None:
    work = Works("fifo", 4, 2, 1, frozenset({(3, 6), (3, 8)}), atomic=True)

    @planted(monkeypatch, Step, "mark_used")
    def forgetful(used: Any, self: Step, nodes: Any, live: Any) -> None:
        used(self, [node for node in nodes if node.plan.op == "lock_variable"], live)

    plan_of_the_fault(simulated(work.graph, work.judged, starvation_s=None))
