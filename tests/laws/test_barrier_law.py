"""A barrier under inserters, takers, closers and cancelled steps: every tuple comes out once, in order."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import actorflow as af
from actorflow import errors, sim
from actorflow.dataflow.state import barrier_rule
from actorflow.dataflow.state.barrier_rule import BarrierRule
from actorflow.sim.checkers import Call, Refusal
from actorflow.sim.engine.schedulers import Schedule
from actorflow.sim.history import Recorder
from tests.support.sessions import assert_no_step_left
from tests.support.strategies import examples, plan_of_the_fault, run_drawn, simulated


@dataclass(frozen=True)
class Ordered:
    """The model: `put (component, keys)` and `take n`, which needs n ready keys and gets the first seen."""

    def key(self, call: Call) -> None:
        return None

    def initial(self, key: Any) -> Any:
        return ()

    def observes(self, call: Call) -> bool:
        return False

    def step(self, state: Any, call: Call) -> Any:
        there = dict(state)
        if call.op == "put":
            component, keys = call.args
            assert isinstance(keys, tuple)
            for key in keys:
                there[key] = there.get(key, frozenset()) | {component}
            return tuple(there.items())
        ready = [key for key, found in there.items() if len(found) == 2]
        (n,) = call.args
        assert isinstance(n, int)
        if len(ready) < n:
            return Refusal("{} were ready", len(ready))
        if call.known and call.result != tuple(ready[:n]):
            return Refusal("take gave {}, the first were {}", call.result, ready[:n])
        return tuple((key, found) for key, found in there.items() if key not in ready[:n])


class Meeting:
    """A barrier of two components, those who bring one of them, and those who take.

    Args:
        batches: (component, keys) for each task that brings; what is left out comes at the end, so that
            every key is completed.
        takes: How many each taker wants.
        cancelled: (task, turn): that taker is cancelled when the loop has come round so often.
        failing: Takers whose step fails after it took.
        twice: Takers whose step takes one tuple more, by itself.
    """

    def __init__(
        self,
        batches: list[tuple[int, bytes]],
        takes: list[int],
        cancelled: frozenset[tuple[int, int]] = frozenset(),
        failing: frozenset[int] = frozenset(),
        twice: frozenset[int] = frozenset(),
    ) -> None:
        self.batches = batches
        self.takes = takes
        self.cancelled = cancelled
        self.failing = failing
        self.twice = twice
        with af.Graph() as self.graph:
            barrier = af.state.Barrier(["int64", "int64"], [(), ()], name="b")
            self.keys = af.placeholder("bytes", (None,), name="keys")
            self.values = af.placeholder("int64", (None,), name="values")
            self.put = [barrier.insert_many(k, self.keys, self.values) for k in range(2)]
            self.take = {n: barrier.take_many(n) for n in (1, 2, 3)}
            self.fail = {n: af.gather(t.components[0], [99]) for n, t in self.take.items()}
            self.more = barrier.take_many(1)
            self.rest = barrier.take_many(64, allow_small_batch=True)
            self.close = barrier.close()

    def __repr__(self) -> str:
        return f"Meeting({self.batches}, {self.takes}, {self.cancelled}, {self.failing}, {self.twice})"

    async def judged(self, session: af.Session) -> None:
        """Lets all of them go on until everything was taken, and judges what they saw."""
        recorder = sim.history.Recorder(session.system.clock)
        out: list[bytes] = []
        bringing = [
            asyncio.create_task(self._bring(session, recorder, f"bringer {i}", *batch))
            for i, batch in enumerate(self.batches)
        ]
        taking = [
            asyncio.create_task(self._take(session, recorder, i, n, out)) for i, n in enumerate(self.takes)
        ]
        for turn in range(8):
            for i, when in sorted(self.cancelled):
                if when == turn and i < len(taking):
                    taking[i].cancel()
            await asyncio.sleep(0)
        await asyncio.gather(*bringing)
        brought = [{k for c, keys in self.batches if c == component for k in keys} for component in range(2)]
        for component in range(2):
            missing = bytes(sorted(brought[1 - component] - brought[component]))
            await self._bring(session, recorder, "last", component, missing)
        await session.run(self.close)
        ends = (errors.OutOfRange, asyncio.CancelledError)
        for result in await asyncio.gather(*taking, return_exceptions=True):
            assert result is None or isinstance(result, ends), result
        while True:
            try:
                self._kept(await session.run(self.rest), out)
            except errors.OutOfRange:
                break

        assert Counter(out) == Counter({bytes([k]): 1 for k in brought[0] | brought[1]})
        if not (self.cancelled or self.failing or self.twice):
            verdict = sim.checkers.linearizable(recorder.history(), Ordered())
            assert verdict.ok, verdict.explain()
        assert_no_step_left(session)

    async def _bring(
        self, session: af.Session, recorder: Recorder, task: str, component: int, keys: bytes
    ) -> None:
        async def put(*_: Any) -> None:
            values = np.array(list(keys), "int64") * (1 - 2 * component)
            await session.run(
                self.put[component], {self.keys: [bytes([k]) for k in keys], self.values: values}
            )

        if keys:
            await recorder.record(task, "put", put, component, tuple(keys))

    async def _take(self, session: af.Session, recorder: Recorder, i: int, n: int, out: list[bytes]) -> None:
        more = [self.more] if i in self.twice else []
        if i in self.failing:
            with pytest.raises((errors.KernelError, errors.OutOfRange)):
                await session.run([self.fail[n], *more])
            return
        if more:
            for taken in await session.run([self.take[n], *more]):
                self._kept(taken, out)
            return

        async def take(_: int) -> Any:
            return await session.run(self.take[n])

        await recorder.record(f"taker {i}", "take", take, n, keep=lambda taken: self._kept(taken, out))

    @staticmethod
    def _kept(taken: Any, out: list[bytes]) -> tuple[int, ...]:
        """What came out, checked: whole tuples, in the order of their batches."""
        first, second = taken.components
        assert [k[0] for k in taken.keys] == first.tolist() == (-second).tolist()
        assert taken.indices.tolist() == sorted(taken.indices.tolist())
        out.extend(taken.keys)
        return tuple(first.tolist())


@st.composite
def meetings(draw: Any) -> Meeting:
    """Each component of up to six keys in batches of any cut, in any order."""
    batches = []
    for component in range(2):
        letters = draw(st.permutations(b"abcdef"))[: draw(st.integers(1 - component, 6))]
        cut = draw(st.integers(0, len(letters)))
        batches += [(component, bytes(letters[:cut])), (component, bytes(letters[cut:]))]
    takes = draw(st.lists(st.integers(1, 3), max_size=4))
    turns = st.tuples(st.integers(0, 3), st.integers(0, 7))
    cancelled = draw(st.frozensets(turns, max_size=2))
    failing, twice = (draw(st.frozensets(st.integers(0, 3), max_size=1)) for _ in range(2))
    return Meeting(batches, takes, cancelled, failing, twice)


@settings(max_examples=examples(60), deadline=None)
@given(meeting=meetings(), schedule=sim.schedules())
def test_every_tuple_comes_out_once_whole_and_in_order(meeting: Meeting, schedule: Schedule) -> None:
    run_drawn(meeting.graph, schedule, meeting.judged)


BATCHES = [(0, b"ab"), (1, b"b"), (1, b"a"), (0, b"c"), (1, b"c")]


def test_the_law_finds_a_barrier_that_loses_what_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    meeting = Meeting(BATCHES, [2], failing=frozenset({0}))
    monkeypatch.setattr(BarrierRule, "give_back", lambda self, tuples: [])

    plan_of_the_fault(simulated(meeting.graph, meeting.judged), most=2)


def test_the_law_finds_a_barrier_that_gives_what_was_complete_first(monkeypatch: pytest.MonkeyPatch) -> None:
    meeting = Meeting([(0, b"ab"), (1, b"b"), (1, b"a")], [1])
    monkeypatch.setattr(barrier_rule, "heappush", lambda ready, each: ready.insert(0, each))
    monkeypatch.setattr(barrier_rule, "heappop", lambda ready: ready.pop())

    plan_of_the_fault(simulated(meeting.graph, meeting.judged), most=2)


def test_the_law_finds_a_barrier_whose_cancelled_takers_stay_in_the_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What they would have got is answered to nobody, and lost if it is not given back."""
    meeting = Meeting(BATCHES, [2, 1], cancelled=frozenset({(0, 1)}))
    monkeypatch.setattr(BarrierRule, "cancel", lambda self, who: [])
    monkeypatch.setattr(BarrierRule, "give_back", lambda self, tuples: [])

    plan_of_the_fault(simulated(meeting.graph, meeting.judged), most=2)
