"""The batches of an epoch are opened, timed and closed, whatever they come from."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from typing import Any

import pytest

from actorflow.data.pipeline import Pipeline
from actorflow.data.stages.stats import StageMeter, Stats, stats_of
from actorflow.errors import InputError, ProgramError
from actorflow.training.batches import Batches, InputStats, describe_source
from actorflow.training.position import TrainingPosition
from tests.data.pipelines import Unsized, numbers_from


class Hands:
    """A clock that a test moves."""

    time = 0.0

    def now(self) -> float:
        return self.time


def fed(value: int) -> dict[str, int]:
    return {"x": int(value)}


def numbers(n: int = 5) -> Pipeline:
    return Pipeline(numbers_from(n)).map(fed)


def plain(n: int = 5) -> list[dict[str, int]]:
    return [fed(value) for value in range(n)]


def generated(n: int = 5) -> Iterator[dict[str, int]]:
    yield from plain(n)


async def awaited(n: int = 5) -> AsyncIterator[dict[str, int]]:
    for feeds in plain(n):
        yield feeds


KINDS: dict[str, Callable[[], Any]] = {
    "pipeline": numbers,
    "stream": lambda: numbers().open(),
    "list": plain,
    "generator": generated,
    "async generator": awaited,
}


def batches(source: Any, at: TrainingPosition | None = None, clock: Any = None) -> Batches:
    return Batches(source, "batches(0)", clock or Hands(), at or TrainingPosition())


async def rest(found: Batches) -> list[Any]:
    feeds = []
    while (each := await found.take()) is not None:
        feeds.append(each["x"])
    return feeds


async def all_of(source: Any, at: TrainingPosition | None = None) -> list[Any]:
    async with batches(source, at) as found:
        return await rest(found)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_gives_its_batches_and_leaves_nothing(kind: str) -> None:
    async def main() -> list[Any]:
        feeds = await all_of(KINDS[kind]())
        assert asyncio.all_tasks() == {asyncio.current_task()}
        return feeds

    assert asyncio.run(main()) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("kind", ["pipeline", "list", "generator", "async generator"])
def test_every_kind_goes_on_after_each_of_its_batches(kind: str) -> None:
    async def main() -> None:
        for k in range(6):
            async with batches(KINDS[kind]()) as found:
                for _ in range(k):
                    await found.take()
                stream, unfixed = found.position()
            assert unfixed is None
            at = TrainingPosition(taken=k, stream=stream)
            async with batches(KINDS[kind](), at) as again:
                assert again.taken == k
                assert await rest(again) == list(range(k, 5))
                assert again.taken == 5

    asyncio.run(main())


@pytest.mark.parametrize(
    ("source", "size"),
    [
        (numbers(), 5),
        (plain(), 5),
        (generated(), None),
        (Pipeline(Unsized(5)), None),
        (numbers().repeat(), None),
        (numbers().open(), None),
    ],
)
def test_the_size_is_known_where_there_is_a_length(source: Any, size: int | None) -> None:
    assert batches(source).size == size


def test_a_stream_that_somebody_else_opened_stays_open() -> None:
    async def main() -> list[int]:
        async with numbers().open() as stream:
            async with batches(stream) as found:
                await found.take()
            return [feeds["x"] async for feeds in stream]

    assert asyncio.run(main()) == [1, 2, 3, 4]


def test_a_stream_that_stands_at_the_position_goes_on() -> None:
    async def main() -> list[int]:
        async with numbers().open() as stream:
            await anext(stream)
            position = stream.position()
        at = TrainingPosition(taken=1, stream=position)
        with pytest.raises(ProgramError, match=r"cannot go on: the position is of another place"):
            await all_of(numbers().open(), at)
        return await all_of(numbers().open(position), at)

    assert asyncio.run(main()) == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("source", "at", "said"),
    [
        (numbers(), TrainingPosition(taken=1), "the position is of batches that were no pipeline"),
        (plain(), TrainingPosition(taken=1, stream={}), "the position is of a pipeline, got "),
        (plain(2), TrainingPosition(taken=3), "cannot go on after 3 batches: it gave only 2"),
    ],
)
def test_batches_of_another_kind_do_not_go_on(source: Any, at: TrainingPosition, said: str) -> None:
    with pytest.raises(ProgramError, match=said):
        asyncio.run(all_of(source, at))


def test_a_pipeline_without_an_order_has_no_position_but_gives_its_batches() -> None:
    pipeline = Pipeline(numbers_from(5)).map(fed, threads=2, ordered=False)

    async def main() -> None:
        async with batches(pipeline) as found:
            assert sorted(await rest(found)) == [0, 1, 2, 3, 4]
            stream, unfixed = found.position()
        assert stream is None
        assert isinstance(unfixed, InputError)

    asyncio.run(main())


@pytest.mark.parametrize("kind", ["generator", "async generator"])
@pytest.mark.parametrize("steps", [1, 3])
def test_a_generator_that_is_left_early_ends_at_once(kind: str, steps: int) -> None:
    closed: list[str] = []

    def one() -> Iterator[Any]:
        try:
            yield from plain()
        finally:
            closed.append(kind)

    async def other() -> AsyncIterator[Any]:
        try:
            for feeds in plain():
                yield feeds
        finally:
            await asyncio.sleep(0)
            closed.append(kind)

    async def main() -> None:
        source: Any = one() if kind == "generator" else other()  # held here: nobody else would close it
        async with batches(source) as found:
            for _ in range(steps):
                await found.take()
        assert closed == [kind]

    asyncio.run(main())


def test_a_generator_that_cannot_go_on_ends_at_once() -> None:
    closed: list[bool] = []

    def short() -> Iterator[Any]:
        try:
            yield fed(0)
            raise KeyError("second")
        finally:
            closed.append(True)

    async def main() -> None:
        source = short()
        with pytest.raises(ProgramError, match=r"batches\(0\) must not fail"):
            await all_of(source, TrainingPosition(taken=2))
        assert closed == [True]

    asyncio.run(main())


def test_what_is_no_batch_is_said_with_what_to_do() -> None:
    pairs = Pipeline(numbers_from(3)).map(lambda value: (value, value))

    with pytest.raises(ProgramError, match=r"must give feeds, placeholder → array, got tuple\n  try:   map"):
        asyncio.run(all_of(pairs))
    with pytest.raises(ProgramError, match="got int$"):
        asyncio.run(all_of([3]))


def test_an_error_of_the_pipeline_comes_as_it_is() -> None:
    def bad(value: int) -> int:
        return 1 // (value - 2)

    with pytest.raises(InputError, match="map 'bad' failed at element 2 of epoch 0: ZeroDivisionError"):
        asyncio.run(all_of(Pipeline(numbers_from(5)).map(bad).map(fed)))


def test_waiting_is_the_time_until_a_batch_is_there() -> None:
    clock = Hands()

    def slow() -> Iterator[Any]:
        for feeds in plain(2):
            clock.time += 3.0
            yield feeds
        clock.time += 1.0

    async def main() -> None:
        async with batches(slow(), clock=clock) as found:
            clock.time += 100.0
            await found.take()
            assert found.waited_s == 3.0
            clock.time += 100.0
            assert await rest(found) == [1]
        assert found.waited_s == 7.0
        assert found.stats() is None

    asyncio.run(main())


def stats(busy_s: float, seconds: float = 10.0, label: str = "map 'augment'") -> Stats:
    meter = StageMeter(label)
    meter.busy_s = busy_s
    meter.passed(10, 4)
    return Stats((stats_of(StageMeter("arrays"), seconds), stats_of(meter, seconds)), seconds, 10, 0.5, 0, 0)


def test_input_that_keeps_up_is_not_spoken_of() -> None:
    assert str(InputStats(2.0, 10.0, lambda: stats(9.3))) == ""
    assert not InputStats(0.0, 0.0).bound
    assert InputStats(0.0, 0.0).waiting == 0.0


def test_input_that_does_not_names_the_busiest_stage() -> None:
    told = InputStats(2.5, 10.0, lambda: stats(9.3))

    assert (told.bound, told.waiting, told.bottleneck) == (True, 0.25, "map 'augment' 93 %")
    assert [stage.label for stage in told.stages] == ["arrays", "map 'augment'"]
    assert str(told) == "input-bound: map 'augment' 93 %"


def test_stages_that_did_next_to_nothing_are_not_to_blame() -> None:
    assert str(InputStats(8.0, 10.0, lambda: stats(3.9))) == "input-bound: batches 80 %"
    assert str(InputStats(8.0, 10.0, lambda: stats(4.1))) == "input-bound: map 'augment' 41 %"


def test_without_a_pipeline_the_share_of_waiting_is_all_that_is_known() -> None:
    told = InputStats(4.5, 10.0)

    assert (told.bottleneck, told.stages) == (None, ())
    assert str(told) == "input-bound: batches 45 %"


def test_epochs_add_up_to_a_run() -> None:
    whole = (
        InputStats(1.0, 10.0, lambda: stats(9.0))
        + InputStats(3.0, 30.0)
        + InputStats(6.0, 40.0, lambda: stats(3.0, 30.0))
    )

    assert (whole.waited_s, whole.seconds) == (10.0, 80.0)
    assert whole.bottleneck == "map 'augment' 30 %"


def test_what_batches_come_from_is_named_with_its_line() -> None:
    pipeline = Pipeline(numbers_from(3)).map(fed)
    running, over = generated(), generated(0)
    first = next(running)
    assert list(over) == []

    def asks(epoch: int) -> Any:
        return plain(epoch)

    own = generated.__code__.co_firstlineno
    here = asks.__code__.co_firstlineno
    assert first is not None
    assert re.fullmatch(r"pipeline .* → map 'fed' at .*test_batches\.py:\d+", describe_source(asks, pipeline))
    assert re.fullmatch(
        rf"generator 'generated' at .*test_batches\.py:{own + 1}.*", describe_source(asks, running)
    )
    assert describe_source(asks, over).endswith(f"test_batches.py:{own}")
    assert describe_source(asks).startswith(f"function '{asks.__qualname__}' at ")
    assert describe_source(asks).endswith(f"test_batches.py:{here}")
    assert describe_source(asks, plain()).startswith("the list of function ")
    assert describe_source(partial(asks)) == describe_source(asks)
