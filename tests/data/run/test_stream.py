"""A running pipeline on a real event loop: it ends, it stands still, it tells what it does."""

from __future__ import annotations

import asyncio
import gc
import itertools
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from actorflow import errors
from actorflow.data.pipeline import Pipeline
from actorflow.data.run.buffer import StreamLeft
from actorflow.data.run.stream import Stream
from actorflow.runtime import environment
from tests.data.pipelines import SOURCES, Awaited, Blocking, numbers_from


def numbers(n: int = 10) -> Pipeline:
    return Pipeline(numbers_from(n))


@asynccontextmanager
async def nothing_left() -> AsyncIterator[None]:
    """Checks that no task and no thread is left."""
    tasks, threads = asyncio.all_tasks(), threading.active_count()
    yield
    assert asyncio.all_tasks() == tasks
    assert threading.active_count() == threads


async def into(seen: list[Any], stream: Stream) -> None:
    async for element in stream:
        seen.append(element)  # noqa: PERF401  what came before an error is to stay


PIPELINES: dict[str, Callable[[int], Pipeline]] = {
    "inline": lambda n: numbers(n).map(int),
    "threads": lambda n: numbers(n).map(int, threads=2).filter(lambda v: True).map(int, threads=1),
    "blocking": lambda n: Pipeline(Blocking(n)).map(int, threads=1).prefetch(2),
    "awaited": lambda n: Pipeline(Awaited(n)).shuffle(3, seed=1).batch(2).unbatch().map(int),
}


async def gives_up(pipeline: Pipeline) -> None:
    async with pipeline.open() as stream:
        async for _ in stream:
            raise LookupError


@pytest.mark.parametrize("pipeline", PIPELINES.values(), ids=PIPELINES)
def test_every_end_leaves_no_task_and_no_thread(pipeline: Callable[[int], Pipeline]) -> None:
    async def main() -> None:
        async with nothing_left():
            assert sorted([v async for v in pipeline(300)]) == list(range(300))
        async with nothing_left(), pipeline(300).open() as stream:
            await anext(stream)
        async with nothing_left():
            with pytest.raises(LookupError):
                await gives_up(pipeline(300).repeat())

    asyncio.run(main())


@pytest.mark.usefixtures("only_new_garbage")
def test_a_break_out_of_a_plain_loop_closes_it() -> None:
    async def main() -> None:
        async with nothing_left():
            async for value in numbers(1000).map(int, threads=2):
                if value == 5:
                    break
            gc.collect()
            others = asyncio.all_tasks() - {asyncio.current_task()}
            while others:  # the event loop closes an abandoned generator in a task of its own
                await asyncio.wait(others)
                others = asyncio.all_tasks() - {asyncio.current_task()}

    asyncio.run(main())


def test_a_cancelled_consumer_ends_although_everything_waits() -> None:
    async def take(pipeline: Pipeline, started: asyncio.Event) -> None:
        async with pipeline.open() as stream:
            async for _ in stream:
                started.set()
                await asyncio.Event().wait()

    async def main() -> None:
        async with nothing_left():
            started = asyncio.Event()
            task = asyncio.ensure_future(take(numbers(10_000).map(int, threads=2).prefetch(1), started))
            await started.wait()
            task.cancel()
            await asyncio.wait([task])

    asyncio.run(main())


def test_a_wait_that_runs_into_a_timeout_loses_nothing() -> None:
    gate = threading.Event()

    def slow(value: int) -> int:
        gate.wait()
        return value

    async def main() -> list[int]:
        async with numbers(5).map(slow, threads=1).open() as stream:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0):
                    await anext(stream)
            gate.set()
            return [value async for value in stream]

    assert asyncio.run(main()) == [0, 1, 2, 3, 4]


def test_two_consumers_share_the_elements() -> None:
    async def main() -> list[int]:
        seen: list[int] = []

        async def consume(stream: Any) -> None:
            async for value in stream:
                seen.append(value)
                await asyncio.sleep(0)

        async with numbers(100).map(int, threads=1).open() as stream:
            await asyncio.gather(consume(stream), consume(stream), consume(stream))
        return seen

    assert sorted(asyncio.run(main())) == list(range(100))


def test_whoever_waits_when_the_stream_is_left_is_told() -> None:
    gate = threading.Event()

    async def main() -> None:
        async with numbers(5).map(lambda v: gate.wait(), threads=1).open() as stream:
            waits = asyncio.ensure_future(anext(stream))
            await asyncio.sleep(0)
            asyncio.get_running_loop().call_soon(gate.set)
        with pytest.raises(StreamLeft, match="the stream was left"):
            await waits
        with pytest.raises(StreamLeft):
            await anext(stream)

    asyncio.run(main())


def test_a_stream_is_entered_once_and_before_it_is_used() -> None:
    async def main() -> None:
        stream = numbers().open()
        with pytest.raises(StreamLeft, match="only inside `async with`"):
            await anext(stream)
        async with stream:
            pass
        with pytest.raises(StreamLeft, match="entered before"):
            await stream.__aenter__()

    asyncio.run(main())


def test_a_consumer_that_stands_still_makes_everything_stand_still() -> None:
    read: list[int] = []

    class Source:
        name, size, blocking, element_bytes = "endless", None, False, 8

        def open(self, start: int, epoch: int) -> Any:
            return self

        def read(self, n: int) -> list[int]:
            read.append(n)
            return [0] * n

        def close(self) -> None:
            pass

    async def main() -> None:
        async with Pipeline(Source()).map(int).prefetch(2).open() as stream:
            await anext(stream)
            for _ in range(100):
                await asyncio.sleep(0)
            before, turns = sum(read), stream._system.stats().turns  # type: ignore[union-attr]
            for _ in range(1000):
                await asyncio.sleep(0)
            assert sum(read) == before <= 5 * 64
            assert stream._system.stats().turns == turns  # type: ignore[union-attr]

    asyncio.run(main())


@pytest.mark.parametrize("source", SOURCES)
def test_what_is_held_stays_below_what_is_stated(source: Any) -> None:
    pipeline = Pipeline(source(5000)).shuffle(300, seed=1).batch(50).prefetch(3)
    stated = pipeline.capacity.bytes
    assert stated is not None

    async def main() -> tuple[int, int]:
        async with pipeline.open() as stream:
            async for _ in stream:
                for _ in range(5):
                    await asyncio.sleep(0)  # a slow consumer
                assert stream.stats().bytes <= stated
        return stream.stats().bytes, stream.stats().peak_bytes

    now, peak = asyncio.run(main())

    assert now == 0
    assert 300 * 8 < peak <= stated


def test_stats_count_elements_and_name_the_slowest(monkeypatch: pytest.MonkeyPatch) -> None:
    class Hands:
        time = 5.0

        def now(self) -> float:
            return self.time

    clock = Hands()
    monkeypatch.setattr(environment, "clock", lambda: clock)

    def slow(value: int) -> int:
        clock.time += 1.0
        return value

    async def main() -> None:
        async with numbers(100).map(int).map(slow).batch(10).open() as stream:
            assert stream.stats().elements == 0
            await into([], stream)
            stats = stream.stats()
            clock.time += 100.0
            assert stream.stats().bottleneck == replace(stats.stages[2], busy=0.5, rate=0.5)
        clock.time += 100.0
        assert stream.stats().seconds == 200.0
        assert [(s.label, s.elements) for s in stats.stages] == [
            ("numbers", 100),
            ("map 'int'", 100),
            ("map 'slow'", 100),
            ("batch(10)", 10),
        ]
        assert stats.stages[0].bytes == 800
        assert stats.elements == 10
        assert str(stats) == "input-bound: map 'slow' 100 %"

    asyncio.run(main())


def test_an_error_names_element_epoch_stage_and_line() -> None:
    def bad(value: np.int64) -> np.int64:
        if value == 3:
            raise ValueError("three")
        return value

    async def main() -> errors.InputError:
        async with numbers(5).shuffle(5, seed=3).map(bad, threads=2).open() as stream:
            with pytest.raises(errors.InputError) as caught:
                await into([], stream)
            return caught.value

    error = asyncio.run(main())

    assert error.what == "map 'bad' failed at element 3 of epoch 0: ValueError: three"
    assert error.where is not None
    assert str(error.where.defined_at).startswith("tests/data/run/test_stream.py:")
    assert isinstance(error.__cause__, ValueError)


def divides_by_seven_less(value: int) -> int:
    return 1 // (value - 7)


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("threads", [None, 1])
@pytest.mark.parametrize("source", SOURCES)
def test_an_error_behind_the_last_element_that_is_taken_is_none(
    source: Any, threads: int | None, times: int
) -> None:
    async def main() -> list[int]:
        pipeline = Pipeline(source(10)).map(divides_by_seven_less, threads=threads).take(5).repeat(times)
        return [v async for v in pipeline]

    assert asyncio.run(main()) == [-1] * 5 * times


def test_an_endless_iterable_ends_where_enough_is_taken() -> None:
    async def main() -> list[int]:
        return [v async for v in numbers(2).flat_map(lambda v: itertools.count()).take(100)]

    assert asyncio.run(main()) == list(range(100))


def test_elements_without_end_of_which_none_is_kept_leave_others_their_turns() -> None:
    made: list[int] = []

    def many(value: int) -> Any:
        for i in range(3_000_000):  # else a loop without turns would never end
            made.append(i)
            yield i

    async def main() -> None:
        async with numbers(1).flat_map(many).filter(lambda v: False).batch(5).open() as stream:
            waits = asyncio.ensure_future(anext(stream))
            for _ in range(20):
                await asyncio.sleep(0)
        assert 0 < len(made) < 3_000_000
        with pytest.raises(StreamLeft):
            await waits

    asyncio.run(main())
