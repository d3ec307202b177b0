"""A take starves exactly when nobody could have put something in for a whole grace period, in every order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import actorflow as af
from actorflow import errors, sim
from actorflow.dataflow.state.progress_check import NEVER, STILL
from actorflow.dataflow.state.starvation_detector import Producers, StarvationDetector
from actorflow.sim.engine.schedulers import Schedule
from tests.support.faults import planted
from tests.support.strategies import examples, plan_of_the_fault, run_drawn, simulated

GRACE_S = 5.0
SLACK_S = 0.05
"""A timer comes at most a tick late; nothing else takes virtual time."""

Interval = tuple[float, float]


@dataclass(frozen=True)
class Put:
    """One producer's step: begins after `pause_s`, lasts `lasts_s`, and is cancelled or ends well."""

    pause_s: float
    lasts_s: float
    cancelled: bool = False
    declared: bool = False


NEVER_TOO_OLD = np.int64(1 << 40)


def made(kind: str) -> tuple[Any, Any, Callable[[Any], Any]]:
    """What is filled, how it is taken from, and how an int64 is put in."""
    match kind:
        case "barrier":
            barrier = af.state.Barrier("int64", (), name="filled")
            taken = barrier.take_many(1).components[0]
            return barrier, taken, lambda x: barrier.insert_many(0, [b"key"], af.reshape(x, (1,)))
        case "accumulator":
            dense = af.state.ConditionalAccumulator("int64", (), "sum", name="filled")
            return dense, dense.take_grad(1), lambda x: dense.apply_grad(x, NEVER_TOO_OLD)
        case "sparse accumulator":
            sparse = af.state.SparseConditionalAccumulator("int64", (3,), "sum", name="filled")

            def rows(x: Any) -> Any:
                return af.IndexedSlices(af.reshape(x, (1,)), np.array([1]), (3,))

            return sparse, sparse.take_grad(1).values, lambda x: sparse.apply_grad(rows(x), NEVER_TOO_OLD)
    queue = af.state.FIFOQueue(None, "int64", (), name="filled")
    return queue, queue.dequeue(), queue.enqueue


KINDS = ("queue", "barrier", "accumulator", "sparse accumulator")


class Days:
    """Producers, each with its steps, and consumers, each with the pauses between its takes."""

    def __init__(
        self,
        producers: tuple[tuple[Put, ...], ...],
        consumers: tuple[tuple[float, ...], ...],
        kind: str = "queue",
    ) -> None:
        self.producers = producers
        self.consumers = consumers
        with af.Graph() as self.graph:
            self.filled, self.take, put = made(kind)
            self.gates = [
                af.state.FIFOQueue(None, "int64", (), name=f"gate{k}") for k in range(len(producers))
            ]
            self.puts = [put(gate.dequeue()) for gate in self.gates]
            self.openings = [gate.enqueue(np.int64(1)) for gate in self.gates]

    async def judged(self, session: af.Session) -> None:
        """Lets them go on to their ends, and judges every take by who was there."""
        now = session.system.now
        live: list[Interval] = []

        async def put(k: int) -> None:
            since = now()
            try:
                await session.run(self.puts[k])
            finally:
                live.append((since, now()))

        async def step(k: int, one: Put) -> None:
            task = asyncio.create_task(put(k))
            await asyncio.sleep(one.lasts_s)
            if one.cancelled:
                task.cancel()
            else:
                await session.run(self.openings[k])
            await asyncio.wait([task])

        async def produce(k: int) -> None:
            for one in self.producers[k]:
                since = now()
                if one.declared:
                    with af.state.producing(session, self.filled):
                        await asyncio.sleep(one.pause_s)
                    live.append((since, now()))
                else:
                    await asyncio.sleep(one.pause_s)
                await step(k, one)

        async def consume(pauses: tuple[float, ...]) -> list[tuple[float, float, BaseException | None]]:
            waits: list[tuple[float, float, BaseException | None]] = []
            for pause_s in pauses:
                await asyncio.sleep(pause_s)
                since = now()
                try:
                    await session.run(self.take)
                except errors.QueueStarved as error:
                    waits.append((since, now(), error))
                else:
                    waits.append((since, now(), None))
            return waits

        with af.state.producing(session, *self.gates) if self.gates else nullcontext():
            producing = [asyncio.create_task(produce(k)) for k in range(len(self.producers))]
            consuming = [asyncio.create_task(consume(pauses)) for pauses in self.consumers]
            waited = await asyncio.gather(*consuming)
            await asyncio.gather(*producing)
        judge([wait for waits in waited for wait in waits], live)


def judge(waits: list[tuple[float, float, BaseException | None]], live: list[Interval]) -> None:
    """Asserts of every take that it starved exactly when it had to."""
    for since, until, error in waits:
        quiet = longest_quiet((since, until), live)
        if error is None:
            assert quiet <= GRACE_S + SLACK_S, ("it should have starved", since, until, live)
        else:
            mine = [one for one in live if one[1] > until - GRACE_S + SLACK_S and one[0] < until - SLACK_S]
            assert not mine, ("somebody was there", since, until, mine)
            assert until - since >= GRACE_S - SLACK_S, ("too early", since, until)


def longest_quiet(wait: Interval, live: list[Interval]) -> float:
    """The longest time within the wait in which nobody was there."""
    longest, at = 0.0, wait[0]
    for since, until in sorted(live):
        longest = max(longest, min(since, wait[1]) - at)
        at = max(at, until)
    return max(longest, wait[1] - at)


seconds = st.sampled_from([0.0, 1.0, 4.0, 6.0, 11.0])
puts = st.builds(Put, pause_s=seconds, lasts_s=seconds, cancelled=st.booleans(), declared=st.booleans())


@settings(max_examples=examples(60), deadline=None)
@given(
    producers=st.lists(st.lists(puts, max_size=3).map(tuple), max_size=3).map(tuple),
    consumers=st.lists(st.lists(seconds, min_size=1, max_size=3).map(tuple), min_size=1, max_size=3).map(
        tuple
    ),
    kind=st.sampled_from(KINDS),
    schedule=sim.schedules(),
)
def test_a_take_starves_exactly_when_nobody_was_there_for_the_grace_period(
    producers: tuple[tuple[Put, ...], ...],
    consumers: tuple[tuple[float, ...], ...],
    kind: str,
    schedule: Schedule,
) -> None:
    days = Days(producers, consumers, kind)

    run_drawn(days.graph, schedule, days.judged, starvation_s=GRACE_S)


@pytest.mark.parametrize("kind", KINDS)
def test_the_law_finds_a_rule_that_counts_producers_that_have_gone(
    monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    @planted(monkeypatch, Producers, "leave")
    def staying(leave: Any, self: Producers, resources: Any, error: BaseException | None = None) -> None:
        if error is not None or not next(iter(resources)).startswith("filled"):
            leave(self, resources, error)

    days = Days(((Put(0.0, 1.0), Put(0.0, 11.0)),), ((0.0, 0.0, 0.0),), kind)

    plan_of_the_fault(simulated(days.graph, days.judged, starvation_s=GRACE_S), errors.Deadlock)


def test_the_law_finds_a_grace_period_that_is_not_counted_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    def since_ever(self: Producers, resource: str, known: int) -> float:
        return STILL if self._counts.get(resource, 0) > known else NEVER

    monkeypatch.setattr(Producers, "_last_left_s", since_ever)

    days = Days(((Put(1.0, 2.0, cancelled=True),),), ((0.0,),))

    plan_of_the_fault(simulated(days.graph, days.judged, starvation_s=GRACE_S), most=2)


@pytest.mark.parametrize("kind", KINDS)
def test_the_law_finds_an_actor_that_does_not_say_who_waits(
    monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(StarvationDetector, "waits", lambda self, who: None)
    days = Days((), ((0.0,),), kind)

    plan_of_the_fault(simulated(days.graph, days.judged, starvation_s=GRACE_S), errors.Deadlock)
