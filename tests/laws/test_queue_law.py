"""A queue under producers, consumers, closers and cancelled steps is one queue of its kind, in every order."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from heapq import heappush
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import actorflow as af
from actorflow import errors, sim
from actorflow.dataflow.state import queue as actor
from actorflow.dataflow.state.fifo_rule import FifoRule
from actorflow.dataflow.state.queue_rule import QueueRule
from actorflow.dataflow.state.queue_store import Entry, Ranked
from actorflow.sim.checkers import Call, Refusal
from actorflow.sim.engine.schedulers import Schedule
from tests.support.faults import planted
from tests.support.sessions import assert_no_step_left
from tests.support.strategies import examples, plan_of_the_fault, run_drawn, simulated

KINDS = ("fifo", "bytes", "shuffle", "priority", "padding")


@dataclass(frozen=True)
class Bounded:
    """The model: `put v` where there is room, `take` what is next, `close`, and how many are `left` at last.

    A linearizable history keeps every element that was put until it is taken, once, in the order of the
    kind; so the elements of one producer keep their order, whoever takes them. A take that was cancelled
    has no effect. But it may have held an element for a while, and while it did, those behind that were
    next, and there was room for one more: so many of the first may be passed over as takes are cancelled.
    """

    kind: str
    capacity: int
    held: int = 0

    def key(self, call: Call) -> None:
        return None

    def initial(self, key: Any) -> Any:
        return (), False

    def observes(self, call: Call) -> bool:
        return call.op == "left"

    def step(self, state: Any, call: Call) -> Any:
        inside, closed = state
        match call.op:
            case "put":
                if len(inside) >= self.capacity + self.held:
                    return Refusal("it was full: {}", inside)
                return ((*inside, *call.args), closed)
            case "take":
                return self.taken(inside, closed, call.result) if call.known else state
            case "close":
                return (inside, True)
        right = not call.known or call.result == len(inside)
        return state if right else Refusal("{} were left, it held {}", call.result, inside)

    def taken(self, inside: tuple[int, ...], closed: bool, value: Any) -> Any:
        if value not in inside:
            return Refusal("take gave {}, it held {}", value, inside)
        at = inside.index(value)
        ahead = at
        if self.kind == "shuffle":
            if not closed and len(inside) + self.held < self.capacity:
                return Refusal("take gave {}, and left {} at most", value, len(inside) - 1)
            ahead = 0
        elif self.kind == "priority":
            ahead = sum((v % 2, i) < (value % 2, at) for i, v in enumerate(inside))
        if ahead > self.held:
            return Refusal("take gave {}, {} were ahead in {}", value, ahead, inside)
        return (inside[:at] + inside[at + 1 :], closed)


class Market:
    """One queue, and those who put in, take out and close.

    Args:
        producers: How many elements each puts in, one after the other.
        consumers: How many take out until the queue is closed and empty. The first is never cancelled.
        kind: That of the queue; `bytes` has a limit of bytes alone. A shuffle queue gives only when full.
        early: When the queue is closed, failing who waits; None closes it after the last element.
        cancelled: (task, turn): that producer or further consumer is cancelled when the loop has come
            round so often.
    """

    def __init__(
        self,
        producers: list[int],
        consumers: int,
        capacity: int,
        early: int | None = None,
        cancelled: frozenset[tuple[int, int]] = frozenset(),
        kind: str = "fifo",
    ) -> None:
        self.producers = producers
        self.consumers = consumers
        self.early = early
        self.cancelled = cancelled
        takers = {i for i, _ in cancelled if len(producers) <= i < len(producers) + consumers - 1}
        self.model = Bounded(kind, capacity, len(takers))
        with af.Graph() as self.graph:
            queue = _queue(kind, capacity)
            self.x = af.placeholder("int64", (), name="x")
            self.put, self.size = queue.enqueue((self.x % 2, self.x)), queue.size()
            self.take = queue.dequeue()[1]
            self.close, self.cancel = queue.close(), queue.close(cancel_pending_enqueues=True)

    async def judged(self, session: af.Session) -> None:
        """Lets all of them go on until the queue is closed and empty, and judges what they saw."""
        recorder = sim.history.Recorder(session.system.clock)

        async def produce(p: int, count: int) -> None:
            for k in range(count):

                async def put(value: int) -> None:
                    await session.run(self.put, {self.x: np.int64(value)})

                await recorder.record(f"producer {p}", "put", put, 10 * p + k)

        async def consume(c: int) -> None:
            while True:
                await recorder.record(f"consumer {c}", "take", lambda: session.run(self.take), keep=int)

        async def close() -> None:
            op = self.close
            if self.early is None:
                await asyncio.wait(producing)
            else:
                await _turns(self.early)
                op = self.cancel
            await recorder.record("closer", "close", lambda: session.run(op), keep=bool)

        producing = [asyncio.create_task(produce(p, n)) for p, n in enumerate(self.producers)]
        consuming = [asyncio.create_task(consume(c)) for c in range(self.consumers)]
        others = [*producing, *consuming[1:]]
        closing = asyncio.create_task(close())
        for turn in range(8):
            for i, when in sorted(self.cancelled):
                if when == turn and i < len(others):
                    others[i].cancel()
            await _turns(1)
        results = await asyncio.gather(*producing, *consuming, return_exceptions=True)
        await closing
        await recorder.record("last", "left", lambda: session.run(self.size), keep=int)

        ends = (errors.QueueClosed, errors.OutOfRange, asyncio.CancelledError)
        assert all(isinstance(r, ends) for r in results if r is not None), results
        verdict = sim.checkers.linearizable(recorder.history(), self.model)
        assert verdict.ok, verdict.explain()
        assert_no_step_left(session)


def _queue(kind: str, capacity: int) -> Any:
    """A queue of a priority and a number."""
    components: Any = (["int64", "int64"], [(), ()])
    match kind:
        case "fifo":
            return af.state.FIFOQueue(capacity, *components, name="q")
        case "bytes":
            return af.state.FIFOQueue(None, *components, max_bytes=16 * capacity, name="q")
        case "shuffle":
            return af.state.RandomShuffleQueue(capacity, capacity - 1, *components, name="q")
        case "priority":
            return af.state.PriorityQueue(capacity, *components, name="q")
    return af.state.PaddingFIFOQueue(capacity, *components, name="q")


async def _turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


@settings(max_examples=examples(120), deadline=None)
@given(
    producers=st.lists(st.integers(1, 3), min_size=1, max_size=3),
    consumers=st.integers(1, 3),
    capacity=st.integers(1, 3),
    early=st.none() | st.integers(0, 8),
    cancelled=st.frozensets(st.tuples(st.integers(0, 4), st.integers(0, 7)), max_size=2),
    kind=st.sampled_from(KINDS),
    schedule=sim.schedules(),
)
def test_a_queue_keeps_every_element_and_its_order(
    producers: list[int],
    consumers: int,
    capacity: int,
    early: int | None,
    cancelled: frozenset[tuple[int, int]],
    kind: str,
    schedule: Schedule,
) -> None:
    market = Market(producers, consumers, capacity, early, cancelled, kind)

    run_drawn(market.graph, schedule, market.judged)


def test_the_law_finds_a_queue_that_takes_from_the_wrong_end_while_producers_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    market = Market([3], 1, 2)

    @planted(monkeypatch, FifoRule, "dequeue")
    def wrong_end(dequeue: Any, self: FifoRule, who: Any, wanted: int = 1, *, up_to: bool = False) -> Any:
        if self.enqueues:
            last = self.store.take()
            self.store.put(last)
        return dequeue(self, who, wanted, up_to=up_to)

    assert plan_of_the_fault(simulated(market.graph, market.judged), most=2)


def test_the_law_finds_a_queue_that_loses_the_element_of_a_cancelled_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A cancelled enqueue is taken out of the queue although its producer was told that it is in."""
    market = Market([1, 2], 1, 1, cancelled=frozenset({(1, 2)}))

    @planted(monkeypatch, FifoRule, "cancel")
    def losing(cancel: Any, self: FifoRule, who: Any) -> Any:
        self.store.clear()
        return cancel(self, who)

    plan_of_the_fault(simulated(market.graph, market.judged), most=2)


def test_the_law_finds_a_shuffle_queue_that_gives_what_has_to_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    market = Market([3], 1, 3, kind="shuffle")
    monkeypatch.setattr(QueueRule, "_available", property(lambda self: len(self.store)))

    plan_of_the_fault(simulated(market.graph, market.judged), most=2)


@pytest.mark.usefixtures("only_the_law")
def test_the_law_finds_priorities_whose_ties_come_out_last_first(monkeypatch: pytest.MonkeyPatch) -> None:
    market = Market([1, 1], 1, 3, kind="priority")

    def last_first(self: Ranked, entry: Entry) -> None:
        number, size, element = entry
        heappush(self._heap, (self._rank(element), (-number, size, element)))

    monkeypatch.setattr(Ranked, "_push", last_first)

    plan_of_the_fault(simulated(market.graph, market.judged), most=2)


def test_the_law_finds_a_queue_that_does_not_count_its_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    market = Market([2, 2], 1, 1, kind="bytes")
    monkeypatch.setattr(actor, "_size", lambda components: lambda element: 1)

    plan_of_the_fault(simulated(market.graph, market.judged), most=2)


def test_the_law_finds_a_queue_that_loses_what_a_cancelled_step_gave_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The consumer is cancelled in the turn in which its step ended, or while another one is answered."""
    market = Market([2], 2, 2, cancelled=frozenset({(1, 3)}))
    monkeypatch.setattr(QueueRule, "put_back", lambda self, entries: self._flush([]))

    plan_of_the_fault(simulated(market.graph, market.judged), most=3)
