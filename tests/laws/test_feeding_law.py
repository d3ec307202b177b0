"""Source -> queue -> map step -> queue -> consumer: no element is lost or doubled, and everyone ends.

Under any schedule, with several sources, runners and consumers, a stage that fails at any element,
steps and whole tasks that are cancelled at any point, and a scope that is left early.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import actorflow as af
from actorflow import errors, sim
from actorflow.dataflow.engine.step import Step
from actorflow.sim.engine.schedulers import Schedule
from actorflow.training.iterable_source import IterableSource
from actorflow.training.queue_runner import QueueRunner
from tests.support.faults import planted
from tests.support.sessions import assert_no_step_left
from tests.support.strategies import examples, plan_of_the_fault, run_drawn, simulated

TABLE = 100
"""Elements are below it; the map step gives them back, and fails for the `bad` one."""

ENDS = (errors.OutOfRange, errors.QueueClosed, errors.StepAborted, errors.InputError, errors.KernelError)


@dataclass(frozen=True)
class Works:
    """A pipeline, and what is done to it.

    Attributes:
        sources: For each, how many elements it has; source `s` gives 10 s, 10 s + 1, …
        capacity: Of both queues.
        batch: How many elements a source puts in together.
        copies: How many runners map.
        movers: How many tasks of the program's own map beside them.
        broken: The source that fails behind its last element; None for none.
        bad: The element for which the map step fails; None for none.
        wanted: After how many elements the scope is left; None for when there are no more.
        cancelled: (turn, who): that consumer, mover or queue runner's task loses its step, or its life, then.
    """

    sources: tuple[int, ...]
    capacity: int = 2
    batch: int = 1
    copies: int = 1
    movers: int = 0
    broken: int | None = None
    bad: int | None = None
    wanted: int | None = None
    cancelled: frozenset[tuple[int, int]] = frozenset()
    graph: af.Graph = field(default_factory=af.Graph)

    def __post_init__(self) -> None:
        with self.graph:
            raw, mapped = (
                af.state.FIFOQueue(self.capacity, "int64", (), name=name) for name in ("raw", "mapped")
            )
            taken = raw.dequeue()
            places = np.arange(TABLE)
            if self.bad is not None:
                places[self.bad] = TABLE  # out of range
            self.__dict__.update(raw=raw, mapped=mapped)
            moved = af.gather(np.arange(TABLE), af.gather(places, taken))
            self.__dict__.update(move=mapped.enqueue(moved), take=mapped.dequeue(), take_raw=raw.dequeue())

    async def judged(self, session: af.Session) -> None:
        """Runs it to its end, and judges where every element is."""
        got: list[int] = []
        inflows: list[IterableSource] = []
        works: Any = self
        moving: list[asyncio.Task[None]] = []
        enough = asyncio.Event()

        async def consume() -> None:
            while True:
                value = await self._once(session, works.take, steps)
                if value is None:
                    break
                got.append(value)
                if self.wanted is not None and len(got) >= self.wanted:
                    break
            enough.set()

        async def move() -> None:
            while await self._once(session, works.move, steps) is not None:
                pass

        steps: list[asyncio.Task[Any]] = []
        disturbing = None
        raised: tuple[BaseException, ...] = ()
        try:
            async with af.state.QueueRunner(session) as feeder:
                for s, count in enumerate(self.sources):
                    elements = self._elements(s, count) if s % 2 else self._plain(s, count)
                    inflows.append(feeder.feed(works.raw, elements, batch=self.batch))
                feeder.run(works.move, copies=self.copies)
                moving = [asyncio.create_task(move()) for _ in range(self.movers)]
                disturbing = asyncio.create_task(self._disturb(feeder, steps))
                await consume()
        except BaseExceptionGroup as group:
            raised = group.exceptions
        assert disturbing is not None
        disturbing.cancel()
        await asyncio.wait([disturbing, *moving])
        mapped = await self._left(session, works.take)
        raw = await self._left(session, works.take_raw)

        self._judge(got, mapped, raw, inflows, raised)
        assert_no_step_left(session)
        lost = [t for t in asyncio.all_tasks() if t.get_name().startswith("fills")]
        assert not lost, lost

    def _judge(
        self,
        got: list[int],
        mapped: list[int],
        raw: list[int],
        inflows: list[IterableSource],
        raised: tuple[BaseException, ...],
    ) -> None:
        there = Counter([*got, *mapped, *raw])
        assert not [n for n, times in there.items() if times > 1], ("doubled", got, mapped, raw)
        for s, inflow in enumerate(inflows):
            mine = sorted(n - 10 * s for n in there if n // 10 == s)
            assert mine == list(range(len(mine))), ("lost", got, mapped, raw)
            assert inflow.ended
            assert inflow.elements <= len(mine) <= inflow.elements + self.batch
        assert all(isinstance(error, ENDS) for error in raised), raised
        if self.copies == 1 and not self.movers:
            for s in range(len(self.sources)):
                mine = [n for n in (*got, *mapped, *raw) if n // 10 == s]
                assert mine == sorted(mine), ("overtaken", got, mapped, raw)
        if self.broken is None and self.bad is None and self.wanted is None and not self.cancelled:
            assert len(there) == sum(self.sources)
            # A mover is none of the queue runner's, which closes `mapped` without it: what it had goes back.
            assert self.movers or len(got) == sum(self.sources)

    async def _once(self, session: af.Session, fetch: Any, steps: list[asyncio.Task[Any]]) -> int | None:
        """Runs one step as often as it is cancelled; None when there is no more."""
        while True:
            step = asyncio.create_task(session.run(fetch))
            steps.append(step)
            await asyncio.wait([step])
            steps.remove(step)
            if step.cancelled():
                continue
            error = step.exception()
            if error is None:
                return int(step.result())
            assert isinstance(error, ENDS), error
            return None

    async def _disturb(self, feeder: QueueRunner, steps: list[asyncio.Task[Any]]) -> None:
        for turn in range(30):
            for when, who in sorted(self.cancelled):
                tasks = [*steps, *feeder._tasks]
                if when == turn and who < len(tasks):
                    tasks[who].cancel()
            await asyncio.sleep(0)

    async def _left(self, session: af.Session, take: Any) -> list[int]:
        found = []
        while True:
            try:
                found.append(int(await session.run(take)))
            except ENDS:
                return found

    def _plain(self, s: int, count: int) -> Iterator[int]:
        for k in range(count):
            yield 10 * s + k
        if self.broken == s:
            message = "broken"
            raise ValueError(message)

    async def _elements(self, s: int, count: int) -> AsyncIterator[int]:
        for element in self._plain(s, count):
            yield element
            await asyncio.sleep(0)


@st.composite
def works(draw: st.DrawFn) -> Works:
    sources = tuple(draw(st.lists(st.integers(0, 5), min_size=1, max_size=3)))
    return Works(
        sources=sources,
        capacity=draw(st.integers(1, 3)),
        batch=draw(st.integers(1, 3)),
        copies=draw(st.integers(1, 2)),
        movers=draw(st.integers(0, 1)),
        broken=draw(st.none() | st.integers(0, 2)),
        bad=draw(st.none() | st.sampled_from([0, 1, 3, 11, 12, 20])),
        wanted=draw(st.none() | st.integers(1, 4)),
        cancelled=draw(st.frozensets(st.tuples(st.integers(0, 29), st.integers(0, 4)), max_size=3)),
    )


@settings(max_examples=examples(80), deadline=None)
@given(drawn=works(), schedule=sim.schedules())
def test_every_element_is_in_one_place_and_everyone_ends(drawn: Works, schedule: Schedule) -> None:
    run_drawn(drawn.graph, schedule, drawn.judged)


def test_the_law_finds_steps_that_give_nothing_back(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = Works((3,), bad=1)

    def keep(self: Step) -> None:
        self.taken = None

    monkeypatch.setattr(Step, "give_back", keep)

    plan_of_the_fault(simulated(drawn.graph, drawn.judged), most=2)


def test_the_law_finds_a_source_that_puts_a_batch_in_again_when_it_had_to_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    drawn = Works((4,), capacity=1, batch=2)

    @planted(monkeypatch, IterableSource, "_bodies")
    def twice(bodies: Any, self: IterableSource, rows: Any) -> Iterator[Any]:
        yield from bodies(self, rows)
        if self.elements >= 4:
            yield from bodies(self, rows[:1])

    plan_of_the_fault(simulated(drawn.graph, drawn.judged), most=2)


def test_the_law_finds_a_feeder_that_ends_no_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = Works((2,))
    monkeypatch.setattr(QueueRunner, "_end", lambda self, name, message: None)

    plan_of_the_fault(simulated(drawn.graph, drawn.judged), errors.QueueStarved, most=2)
