"""Going on at a position: what is read, what is computed, and what is refused."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import actorflow as af
from actorflow import errors
from actorflow.data.pipeline import Pipeline
from tests.data.chunks import noting
from tests.data.pipelines import numbers_from


@dataclass(frozen=True)
class Counted:
    """The integers below `size`; notes which were read."""

    size: int
    read: list[int] = field(default_factory=list)
    name: str = "counted"
    blocking: bool = False
    element_bytes: int | None = 8

    def open(self, start: int, epoch: int) -> Any:
        reader = numbers_from(self.size).open(start, epoch)
        source = self

        class Reader:
            def read(self, n: int) -> list[int]:
                values = reader.read(n)
                source.read.extend(values)
                return values

            def close(self) -> None:
                pass

        return Reader()


async def some(pipeline: Pipeline, count: int, position: Any = None) -> tuple[list[Any], Any]:
    """The next elements from a position on, and the position behind them."""
    async with pipeline.open(position) as stream:
        found: list[Any] = []
        for _ in range(count):
            element = await anext(stream, None)
            if element is None:
                break
            found.append(element)
        return found, stream.position()


def test_a_position_is_plain_data() -> None:
    async def main() -> None:
        pipeline = Pipeline(numbers_from(20)).shuffle(5)
        first, position = await some(pipeline, 7)

        again = json.loads(json.dumps(position))

        rest, _ = await some(pipeline, 20, again)
        assert sorted([*first, *rest]) == list(range(20))

    asyncio.run(main())


def test_only_what_is_still_needed_is_read_and_computed() -> None:
    async def main() -> None:
        source, called = Counted(100_000), list[int]()
        pipeline = Pipeline(source).map(noting(called)).batch(10).map(lambda batch: batch.tolist())

        start = (await some(pipeline, 0))[1]
        source.read.clear()
        called.clear()

        [batch], _ = await some(pipeline, 1, {**start, "taken": 9000})

        assert batch == list(range(90_000, 90_010))
        assert min(called) >= 90_000
        assert min(source.read) >= 90_000

    asyncio.run(main())


def test_of_a_shuffle_only_what_it_holds_is_computed() -> None:
    async def main() -> None:
        called = list[int]()
        pipeline = Pipeline(numbers_from(5000)).map(noting(called)).shuffle(50, seed=4)
        whole, _ = await some(pipeline, 5000)
        position = (await some(pipeline, 0))[1]
        called.clear()

        rest, _ = await some(pipeline, 10, {**position, "taken": 4000})

        assert rest == whole[4000:4010]
        assert len(called) <= 50 + 3 * 64

    asyncio.run(main())


@given(
    n=st.integers(1, 9),
    before=st.sampled_from(["", "shuffle", "take", "batch"]),
    times=st.sampled_from([3, 5, None]),
    width=st.sampled_from([None, 1, 2, 4, 7, 30]),
    taken=st.integers(0, 40),
)
def test_whole_epochs_are_left_out_without_a_trace(
    n: int, before: str, times: int | None, width: int | None, taken: int
) -> None:
    pipeline = Pipeline(numbers_from(n))
    if before == "shuffle":
        pipeline = pipeline.shuffle(3, seed=1)
    elif before == "take":
        pipeline = pipeline.take(2)
    elif before == "batch":
        pipeline = pipeline.batch(4).map(lambda batch: int(batch.sum()))
    pipeline = pipeline.repeat(times).map(lambda value, g: (value, int(g.integers(99))), random=True, seed=2)
    if width is not None:
        pipeline = pipeline.batch(width).map(lambda pair: (pair[0].tolist(), pair[1].tolist()))

    async def main() -> None:
        whole, _ = await some(pipeline, taken + 6)
        start = (await some(pipeline, 0))[1]

        again, _ = await some(pipeline, 6, {**start, "taken": min(taken, len(whole))})

        assert again == whole[taken : taken + 6]

    asyncio.run(main())


def test_a_position_at_the_end_gives_nothing_and_one_behind_it_is_refused() -> None:
    async def main() -> None:
        pipeline = Pipeline(numbers_from(4)).repeat(2)
        found, end = await some(pipeline, 99)
        assert len(found) == 8

        assert (await some(pipeline, 9, end))[0] == []
        with pytest.raises(errors.InputError, match="ended after 8 of the 50 before the position"):
            await some(pipeline, 9, {**end, "taken": 50})

    asyncio.run(main())


def test_a_generator_that_goes_on_with_what_another_pass_has_begun_is_found() -> None:
    """Twice over: the iterator itself, and one that hides behind a generator function."""
    left = iter(range(6))

    def hidden() -> Iterator[int]:
        yield from left

    async def main() -> None:
        given = iter(range(6))
        once = af.data.generator(lambda: given)
        _, position = await some(once, 2)
        with pytest.raises(errors.InputError, match="got the iterator of the last one again"):
            await some(once, 2, position)

        pipeline = af.data.generator(hidden, blocking=False)
        _, position = await some(pipeline, 5)
        with pytest.raises(errors.InputError, match="ended after . of the 5 before the position"):
            await some(pipeline, 2, position)

    asyncio.run(main())


def test_the_position_of_another_pipeline_is_refused() -> None:
    async def main() -> None:
        _, position = await some(Pipeline(numbers_from(4)).batch(2), 1)

        with pytest.raises(errors.InputError, match="this position is of another pipeline") as caught:
            Pipeline(numbers_from(4)).batch(3).open(position)
        assert "tests/data/run/test_seek.py:" in str(caught.value)

    asyncio.run(main())


@pytest.mark.parametrize(
    "position",
    [{}, {"version": 1}, 3, "x", {"version": 2, "pipeline": "x", "taken": 0, "seed": 0}],
)
def test_what_is_no_position_is_refused(position: Any) -> None:
    with pytest.raises(errors.InputError, match=r"a position is what Stream.position\(\) gave"):
        Pipeline(numbers_from(4)).open(position)


@pytest.mark.parametrize("taken", [-1, 1.5, True, None])
def test_a_position_that_was_tampered_with_is_refused(taken: Any) -> None:
    pipeline = Pipeline(numbers_from(4))
    position = {**asyncio.run(some(pipeline, 0))[1], "taken": taken}

    with pytest.raises(errors.InputError, match="a position is what"):
        pipeline.open(position)


def test_without_an_order_there_is_no_position() -> None:
    async def main() -> None:
        async with Pipeline(numbers_from(4)).map(int, threads=2, ordered=False).open() as stream:
            with pytest.raises(errors.InputError, match="no position is fixed behind map 'int'"):
                stream.position()

    asyncio.run(main())


def test_an_error_behind_a_position_comes_after_what_is_before_it() -> None:
    def bad(value: int) -> int:
        if value == 7:
            raise ValueError("seven")
        return value

    async def main() -> None:
        pipeline = Pipeline(numbers_from(10)).map(bad)
        _, position = await some(pipeline, 3)
        async with pipeline.open(position) as stream:
            assert [await anext(stream) for _ in range(4)] == [3, 4, 5, 6]
            with pytest.raises(errors.InputError, match="element 7 of epoch 0"):
                await anext(stream)
            assert stream.position()["taken"] == 7

    asyncio.run(main())


def test_a_position_is_known_before_the_stream_is_entered() -> None:
    async def main() -> None:
        pipeline = Pipeline(numbers_from(200)).shuffle(50)
        stream = pipeline.open()
        before = stream.position()
        async with stream:
            found = [v async for v in stream]

        again, _ = await some(pipeline, 200, before)

        assert found == again != sorted(found)

    asyncio.run(main())
