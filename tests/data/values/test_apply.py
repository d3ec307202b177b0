"""Exceptions that mean something to Python's own loops are failures like any other, wherever a map runs."""

from __future__ import annotations

import asyncio
from asyncio import CancelledError
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

import actorflow as af
from actorflow.data.values.apply import apply_to_each
from actorflow.errors import InputError
from tests.data import functions


@pytest.mark.parametrize("at", range(4))
@pytest.mark.parametrize("chance", [None, [10, 20, 30]])
def test_what_was_made_before_a_stop_stays_and_the_stop_comes_out(at: int, chance: list[int] | None) -> None:
    def function(value: int, more: int = 0) -> int:
        if value == at:
            raise StopIteration
        return value + more

    results: list[int] = []
    if at < 3:
        with pytest.raises(StopIteration):
            apply_to_each(function, results, [0, 1, 2], chance)
    else:
        apply_to_each(function, results, [0, 1, 2], chance)

    assert results == [v + (0 if chance is None else chance[v]) for v in range(at)]


def until_it_fails(pipeline: af.data.Pipeline, position: Any = None) -> tuple[list[Any], str]:
    """What a stream gives, and the error that ends it."""
    seen: list[Any] = []

    async def main() -> None:
        async with pipeline.open(position) as stream:
            async for element in stream:
                seen.append(element)  # noqa: PERF401  what came before an error is to stay

    with pytest.raises(InputError) as caught:
        asyncio.run(main())
    return seen, caught.value.what


WAYS: dict[str, dict[str, Any]] = {
    "inline": {},
    "inline, random": {"random": True, "seed": 1},
    "inline, bits": {"random": "bits", "seed": 1},
    "threads": {"threads": 2},
    "threads, random": {"threads": 2, "random": True, "seed": 1},
    "threads, bits": {"threads": 2, "random": "bits", "seed": 1},
    "threads, as they are done": {"threads": 1, "ordered": False},
    "processes": {"processes": 1},
    "processes, random": {"processes": 1, "random": True, "seed": 1},
    "processes, bits": {"processes": 1, "random": "bits", "seed": 1},
    "processes, as they are done": {"processes": 1, "ordered": False},
}


@pytest.mark.parametrize("function", [functions.stopped_at_70, functions.cancelled_at_70])
@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_a_function_that_raises_what_loops_understand_fails_at_its_element(
    function: Callable[..., Any], way: dict[str, Any]
) -> None:
    seen, error = until_it_fails(af.data.numbers(200).map(function, **way))

    assert seen == list(range(70))
    raised = "StopIteration" if function is functions.stopped_at_70 else "CancelledError"
    assert error.startswith(f"map '{function.__name__}' failed at element 70 of epoch 0: ")
    assert raised in error


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_a_function_that_gives_a_coroutine_fails_at_its_element(way: dict[str, Any]) -> None:
    seen, error = until_it_fails(af.data.numbers(200).map(functions.promised_at_70, **way))

    assert seen == list(range(70))
    assert error.startswith("map 'promised_at_70' failed at element 70 of epoch 0: ")
    assert "expected a value, got the coroutine 'later'" in error


@pytest.mark.parametrize(
    "pipeline",
    [
        af.data.numbers(3).filter(lambda n: functions.later(n)),
        af.data.numbers(3).flat_map(lambda n: functions.later(n)),
        af.data.numbers(3).map(lambda n: functions.later(n)).shuffle(2, seed=1),
        af.data.numbers(3).shuffle(2, seed=1).map(lambda n: functions.later(n)),
    ],
)
def test_no_stage_takes_a_coroutine_for_a_value(pipeline: af.data.Pipeline) -> None:
    seen, error = until_it_fails(pipeline)

    assert seen == []
    assert "expected a value, got the coroutine 'later'" in error


def test_a_stop_on_the_way_to_a_position_is_told() -> None:
    def late(value: int) -> int:
        if value == 6 and stops:
            raise StopIteration
        return value

    async def begun() -> Any:
        async with pipeline.open() as stream:
            await anext(stream)
            await anext(stream)
            return stream.position()

    stops: list[int] = []
    pipeline = af.data.numbers(20).map(late).batch(3).map(lambda batch: batch).shuffle(3, seed=0)
    position = asyncio.run(begun())
    stops.append(1)

    assert "map 'late' failed at element 6 of epoch 0: StopIteration" in until_it_fails(pipeline, position)[1]


def raising(error: BaseException) -> Callable[..., Any]:
    def function(*_: Any) -> Any:
        raise error

    return function


@pytest.mark.parametrize("error", [StopIteration(), CancelledError()])
@pytest.mark.parametrize(
    ("label", "stage"),
    [
        ("filter", lambda p, f: p.filter(f)),
        ("flat_map", lambda p, f: p.flat_map(f)),
        ("bucket", lambda p, f: p.bucket(f, [3], [2, 2])),
    ],
)
def test_so_do_the_functions_of_other_stages(error: BaseException, label: str, stage: Any) -> None:
    seen, told = until_it_fails(stage(af.data.numbers(3), raising(error)))

    assert seen == []
    assert told == f"{label} 'function' failed at element 0 of epoch 0: {type(error).__name__}"


@pytest.mark.parametrize("blocking", [True, False])
def test_a_generator_that_is_cancelled_inside_fails_at_its_element(blocking: bool) -> None:
    def two() -> Iterator[int]:
        yield 0
        yield 1
        raise CancelledError

    seen, told = until_it_fails(af.data.generator(two, blocking=blocking))

    assert seen == [0, 1]
    assert "element 2 raised CancelledError" in told


def test_an_async_generator_that_waits_for_what_is_cancelled_fails_at_its_element() -> None:
    async def two() -> AsyncIterator[int]:
        yield 0
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        future.cancel()
        yield await future

    seen, told = until_it_fails(af.data.generator(two))

    assert seen == [0]
    assert "element 1 raised CancelledError" in told


def test_so_does_a_queue() -> None:
    async def get() -> int:
        numbers.append(len(numbers))
        if numbers[-1] == 2:
            raise CancelledError
        return numbers[-1]

    numbers: list[int] = []
    seen, told = until_it_fails(af.data.queue(get))

    assert seen == [0, 1]
    assert "element 2 raised CancelledError" in told
