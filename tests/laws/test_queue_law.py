"""A queue under producers, consumers, closers and cancelled steps is one FIFO queue, in every order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import actorflow as af
from actorflow import errors, sim
from actorflow.actors.fifo import Fifo
from actorflow.sim.checkers import Call, Refusal
from actorflow.sim.choosers import Schedule
from tests.strategies import examples, plan_of_the_fault, run_drawn, simulated


@dataclass(frozen=True)
class Bounded:
    """The model: `put v` where there is room, `take`, and `size`.

    A linearizable history keeps every element that was put until it is taken, once, first in first
    out; so the elements of one producer keep their order, whoever takes them.
    """

    capacity: int

    def key(self, call: Call) -> None:
        return None

    def initial(self, key: Any) -> Any:
        return ()

    def observes(self, call: Call) -> bool:
        return call.op == "size"

    def step(self, state: Any, call: Call) -> Any:
        match call.op:
            case "put":
                return (
                    (*state, *call.args) if len(state) < self.capacity else Refusal("it was full: {}", state)
                )
            case "take":
                if not state:
                    return Refusal("it was empty")
                if call.known and call.result != state[0]:
                    return Refusal("take gave {}, the first was {}", call.result, state[0])
                return state[1:]
        size = call.result == len(state) or not call.known
        return state if size else Refusal("size gave {}, it held {}", call.result, state)


class Market:
    """One queue, and those who put in, take out and close.

    Args:
        producers: How many elements each puts in, one after the other.
        consumers: How many take out until the queue is closed and empty. The first is never cancelled.
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
    ) -> None:
        self.producers = producers
        self.consumers = consumers
        self.capacity = capacity
        self.early = early
        self.cancelled = cancelled
        with af.Graph() as self.graph:
            queue = af.FIFOQueue(capacity, ["int64"], [()], name="q")
            self.x = af.placeholder("int64", (), name="x")
            self.put, self.take, self.size = queue.enqueue(self.x), queue.dequeue(), queue.size()
            self.close, self.cancel = queue.close(), queue.close(cancel_pending_enqueues=True)

    async def judged(self, session: af.Session) -> None:
        """Lets all of them go on until the queue is closed and empty, and judges what they saw."""
        recorder = sim.history.Recorder(session._system.clock)

        async def produce(p: int, count: int) -> None:
            for k in range(count):

                async def put(value: int) -> None:
                    await session.run(self.put, {self.x: np.int64(value)})

                await recorder.record(f"producer {p}", "put", put, 10 * p + k)

        async def consume(c: int) -> None:
            while True:
                await recorder.record(f"consumer {c}", "take", lambda: session.run(self.take), keep=int)

        async def close() -> None:
            if self.early is None:
                await asyncio.wait(producing)
                await session.run(self.close)
            else:
                await _turns(self.early)
                await session.run(self.cancel)

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
        await recorder.record("last", "size", lambda: session.run(self.size), keep=int)

        ends = (errors.QueueClosed, errors.OutOfRange, asyncio.CancelledError)
        assert all(isinstance(r, ends) for r in results if r is not None), results
        verdict = sim.checkers.linearizable(recorder.history(), Bounded(self.capacity))
        assert verdict.ok, verdict.explain()
        waiting = [*session._live, *session._waiting]
        assert not waiting, "no step is left behind"


async def _turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


@settings(max_examples=examples(60), deadline=None)
@given(
    producers=st.lists(st.integers(1, 3), min_size=1, max_size=3),
    consumers=st.integers(1, 3),
    capacity=st.integers(1, 3),
    early=st.none() | st.integers(0, 8),
    cancelled=st.frozensets(st.tuples(st.integers(0, 4), st.integers(0, 7)), max_size=2),
    schedule=sim.schedules(),
)
def test_a_queue_is_first_in_first_out_and_keeps_every_element(
    producers: list[int],
    consumers: int,
    capacity: int,
    early: int | None,
    cancelled: frozenset[tuple[int, int]],
    schedule: Schedule,
) -> None:
    market = Market(producers, consumers, capacity, early, cancelled)

    run_drawn(market.graph, schedule, market.judged)


def test_the_law_finds_a_queue_that_takes_from_the_wrong_end_while_producers_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    market = Market([3], 1, 2)
    dequeue = Fifo.dequeue

    def wrong_end(self: Fifo, who: Any, wanted: int = 1, *, up_to: bool = False) -> Any:
        if self.enqueues:
            last = self.store.take()
            self.store.put(last)
        return dequeue(self, who, wanted, up_to=up_to)

    monkeypatch.setattr(Fifo, "dequeue", wrong_end)

    assert 1 <= len(plan_of_the_fault(simulated(market.graph, market.judged))) <= 2


def test_the_law_finds_a_queue_that_loses_the_element_of_a_cancelled_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A cancelled enqueue is taken out of the queue although its producer was told that it is in."""
    market = Market([1, 2], 1, 1, cancelled=frozenset({(1, 2)}))

    def losing(self: Fifo, who: Any) -> Any:
        self.store.clear()
        return cancel(self, who)

    cancel: Callable[..., Any] = Fifo.cancel
    monkeypatch.setattr(Fifo, "cancel", losing)

    assert len(plan_of_the_fault(simulated(market.graph, market.judged))) <= 2
