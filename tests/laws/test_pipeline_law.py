"""Pipelines give what their model gives: under every schedule, from every position, whatever fails."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import actorflow as af
from actorflow import errors, sim
from actorflow.data.pipeline import Pipeline
from actorflow.data.run.buffer import BufferActor
from actorflow.data.run.stream import Stream
from actorflow.sim.engine.schedulers import Schedule
from actorflow.sim.engine.simulate import Limits
from tests.data.pipelines import Drawn, drawn, numbers_from
from tests.support.faults import planted
from tests.support.strategies import LIMITS, examples, plan_of_the_fault


async def all_of(stream: Stream) -> list[Any]:
    return [element async for element in stream]


async def into(seen: list[Any], stream: Stream) -> None:
    async for element in stream:
        seen.append(element)  # noqa: PERF401  what came before an error is to stay


async def run(pipeline: Pipeline, position: Any = None) -> list[Any]:
    async with pipeline.open(position) as stream:
        return await all_of(stream)


def simulated(main: Callable[[], Any], schedule: Schedule, limits: Limits = LIMITS) -> Any:
    """Runs `main`, which must leave no task behind."""

    async def alone() -> Any:
        result = await main()
        assert asyncio.all_tasks() == {asyncio.current_task()}
        return result

    return sim.run(alone, schedule, limits=limits).result


@settings(max_examples=examples(150))
@given(case=drawn(), schedule=sim.schedules())
def test_a_pipeline_gives_what_its_model_gives_under_every_schedule(case: Drawn, schedule: Schedule) -> None:
    assert simulated(lambda: run(case.pipeline()), schedule) == case.elements()


@settings(max_examples=examples(60))
@given(case=drawn(shuffled=True), schedule=sim.schedules())
def test_the_order_of_a_seed_is_the_same_under_every_schedule(case: Drawn, schedule: Schedule) -> None:
    plainly = asyncio.run(run(case.pipeline()))

    assert simulated(lambda: run(case.pipeline()), schedule) == plainly


@settings(max_examples=examples(60))
@given(case=drawn(shuffled=True, most=7), schedule=sim.schedules())
def test_a_pipeline_goes_on_at_every_position(case: Drawn, schedule: Schedule) -> None:
    async def at_each() -> None:
        pipeline = case.pipeline()
        async with pipeline.open() as stream:
            positions, elements = [stream.position()], []
            async for element in stream:
                elements.append(element)
                positions.append(stream.position())
        for k, position in enumerate(positions):
            async with pipeline.open(position) as again:
                assert await all_of(again) == elements[k:], k
                assert again.position() == positions[-1]

    simulated(at_each, schedule, Limits(max_steps=500_000))  # one run for each position


@settings(max_examples=examples(100))
@given(
    size=st.integers(0, 20),
    buffer=st.integers(1, 25),
    threads=st.sampled_from([None, 1, 2]),
    epochs=st.integers(1, 3),
    seed=st.integers(0, 2**70),
    schedule=sim.schedules(),
)
def test_a_shuffle_gives_every_element_once_in_every_epoch(
    size: int, buffer: int, threads: int | None, epochs: int, seed: int, schedule: Schedule
) -> None:
    pipeline = (
        Pipeline(numbers_from(size)).map(int, threads=threads).shuffle(buffer, seed=seed).repeat(epochs)
    )

    elements = simulated(lambda: run(pipeline), schedule)

    for k in range(epochs):
        assert sorted(elements[k * size : (k + 1) * size]) == list(range(size))


@settings(max_examples=examples(100))
@given(case=drawn(), threads=st.sampled_from([1, 2, 3]), schedule=sim.schedules())
def test_an_unordered_map_gives_every_element_once(case: Drawn, threads: int, schedule: Schedule) -> None:
    pipeline = case.pipeline().map(int, threads=threads, ordered=False).prefetch(2)

    assert sorted(simulated(lambda: run(pipeline), schedule)) == sorted(case.elements())


@dataclass(frozen=True)
class Watched:
    """The integers below `size`; counts its open readers, and fails at an element of an epoch."""

    size: int
    open_: list[int]
    fails: tuple[int, int] | None = None
    blocking: bool = False
    name: str = "watched"
    element_bytes: int | None = 8

    def open(self, start: int, epoch: int) -> Any:
        self.open_.append(1)
        return WatchedReader(self, start, epoch)


class WatchedReader:
    def __init__(self, source: Watched, start: int, epoch: int) -> None:
        self.source, self.at, self.epoch = source, start, epoch

    def read(self, n: int) -> list[int]:
        stop = min(self.at + n, self.source.size)
        if self.source.fails is not None and self.source.fails[0] == self.epoch:
            stop = min(stop, self.source.fails[1])
            if self.at == self.source.fails[1]:
                raise OSError("the disk is gone")
        values = list(range(self.at, stop))
        self.at = stop
        return values

    def close(self) -> None:
        self.source.open_.pop()


@dataclass
class Failing:
    """Fails at the element with this value, the `epoch`-th time it sees it."""

    value: int
    epoch: int

    def __call__(self, value: int) -> int:
        if value == self.value:
            if self.epoch == 0:
                raise ZeroDivisionError("broken")
            self.epoch -= 1
        return value


STAGES: dict[str, Callable[[Pipeline, Callable[[int], int]], Pipeline]] = {
    "map": lambda p, f: p.map(f),
    "threads": lambda p, f: p.map(f, threads=2),
    "late map": lambda p, f: p.map(int, threads=2).prefetch(1).map(f),
    "filter": lambda p, f: p.filter(lambda v: f(v) >= 0),
    "flat_map": lambda p, f: p.flat_map(lambda v: [f(v)]),
}


@settings(max_examples=examples(150))
@given(
    stage=st.sampled_from([*STAGES, "source", "blocking source"]),
    size=st.integers(1, 12),
    at=st.tuples(st.integers(0, 1), st.integers(0, 11)),
    batch=st.sampled_from([None, 1, 3]),
    schedule=sim.schedules(),
)
def test_an_error_comes_after_all_that_was_before_it_and_stays(
    stage: str, size: int, at: tuple[int, int], batch: int | None, schedule: Schedule
) -> None:
    epoch, index = at[0], at[1] % size
    opened: list[int] = []

    async def main() -> list[int]:
        source = Watched(
            size, opened, (epoch, index) if "source" in stage else None, stage == "blocking source"
        )
        pipeline = Pipeline(source)
        if stage in STAGES:
            pipeline = STAGES[stage](pipeline, Failing(index, epoch))
        pipeline = pipeline.repeat(2)
        if batch is not None:
            pipeline = pipeline.batch(batch)
        seen: list[Any] = []
        async with pipeline.open() as stream:
            with pytest.raises(errors.InputError) as caught:
                await into(seen, stream)
            seen = [part for element in seen for part in (element.tolist() if batch else [element])]
            assert f"element {index} of epoch {epoch}" in str(caught.value)
            assert "test_pipeline_law.py" in str(caught.value)
            assert isinstance(caught.value.__cause__, OSError if "source" in stage else ZeroDivisionError)
            with pytest.raises(errors.InputError):
                await anext(stream)
        return seen

    seen = simulated(main, schedule)

    before = [*range(size), *range(size)][: epoch * size + index]
    assert seen == before[: len(before) - (len(before) % batch if batch else 0)]
    assert opened == []


@settings(max_examples=examples(150))
@given(
    case=drawn(),
    taken=st.integers(0, 40),
    how=st.sampled_from(["leave", "raise", "break", "cancel"]),
    schedule=sim.schedules(),
)
def test_leaving_at_any_point_leaves_nothing_behind(
    case: Drawn, taken: int, how: str, schedule: Schedule
) -> None:
    opened: list[int] = []
    pipeline = Drawn(
        case.size, lambda n: Watched(n, opened, blocking=n % 2 == 0), case.parts, case.repeats
    ).pipeline()

    async def some() -> list[Any]:
        seen: list[Any] = []
        async with pipeline.open() as stream:
            async for element in stream:
                if len(seen) == taken:
                    if how == "raise":
                        raise LookupError
                    if how == "break":
                        break
                    return seen
                seen.append(element)
        return seen

    async def main() -> None:
        task = asyncio.ensure_future(some())
        if how == "cancel":
            for _ in range(taken):
                await asyncio.sleep(0)
            task.cancel()
        ends: list[Any] = await asyncio.gather(task, return_exceptions=True)
        end = ends[0]
        if isinstance(end, BaseException):
            assert isinstance(end, LookupError | asyncio.CancelledError)
        else:
            assert end == case.elements()[: len(end)]

    simulated(main, schedule)

    assert opened == []


@settings(max_examples=examples(60))
@given(case=drawn(), taken=st.integers(0, 20), schedule=sim.schedules())
def test_a_plain_loop_closes_what_it_opened_however_it_ends(
    case: Drawn, taken: int, schedule: Schedule
) -> None:
    opened: list[int] = []
    pipeline = Drawn(case.size, lambda n: Watched(n, opened), case.parts, case.repeats).pipeline()

    async def main() -> list[Any]:
        seen: list[Any] = []
        async for element in pipeline:
            if len(seen) == taken:
                break
            seen.append(element)
        others = asyncio.all_tasks() - {asyncio.current_task()}
        while others:
            await asyncio.wait(others)
            others = asyncio.all_tasks() - {asyncio.current_task()}
        return seen

    assert simulated(main, schedule) == case.elements()[:taken]
    assert opened == []


def impatient(pipeline: Pipeline, waits: list[int]) -> Callable[[], Any]:
    """Takes all elements; the first waits are cancelled when the loop has come round so often."""

    async def main() -> list[Any]:
        seen: list[Any] = []
        moments = iter(waits)
        async with pipeline.open() as stream:
            while True:
                wait = asyncio.ensure_future(anext(stream, None))
                moment = next(moments, None)
                for _ in range(moment or 0):
                    await asyncio.sleep(0)
                if moment is not None:
                    wait.cancel()
                try:
                    element = await wait
                except asyncio.CancelledError:
                    continue
                if element is None:
                    return seen
                seen.append(element)

    return main


@settings(max_examples=examples(100))
@given(case=drawn(), waits=st.lists(st.integers(0, 30), max_size=30), schedule=sim.schedules())
def test_a_cancelled_wait_loses_nothing(case: Drawn, waits: list[int], schedule: Schedule) -> None:
    assert simulated(impatient(case.pipeline(), waits), schedule) == case.elements()


def test_the_law_finds_a_stream_that_drops_what_a_cancelled_wait_was_to_get(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    @planted(monkeypatch, Stream, "_came")
    def drops(came: Any, self: Any, pairs: list[Any], error: BaseException | None) -> Any:
        if pairs and all(waiter.done() for waiter in self._waiters):
            self._wish = False
            return True
        return came(self, pairs, error)

    pipeline = Pipeline(numbers_from(5)).map(int, threads=1).prefetch(1)

    async def main() -> None:
        assert await impatient(pipeline, [1, 2, 3, 4, 5, 6])() == [0, 1, 2, 3, 4]

    plan_of_the_fault(main)


def test_the_law_finds_a_buffer_that_answers_before_there_is_room(monkeypatch: pytest.MonkeyPatch) -> None:
    @planted(monkeypatch, BufferActor, "_put")
    def early(put: Any, self: Any, message: Any) -> None:
        if not message.reply.done():
            message.reply.set_result(True)
        put(self, message)

    pipeline = Pipeline(numbers_from(500)).prefetch(2)
    stated = pipeline.capacity.bytes
    assert stated is not None

    async def main() -> None:
        async with pipeline.open() as stream:
            async for _ in stream:
                assert stream.stats().peak_bytes <= stated

    plan_of_the_fault(main, tries=5)


def test_af_data_is_public() -> None:
    assert af.data.Pipeline is Pipeline
