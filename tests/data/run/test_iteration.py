"""A plain loop over a pipeline."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest

from actorflow import errors
from actorflow.data.pipeline import Pipeline
from actorflow.data.run.iteration import Iteration
from tests.data.pipelines import numbers_from


def numbers(n: int = 10) -> Pipeline:
    return Pipeline(numbers_from(n))


def alone() -> bool:
    return asyncio.all_tasks() == {asyncio.current_task()}


def test_all_is_closed_when_the_loop_has_ended() -> None:
    async def main() -> None:
        assert [v async for v in numbers(3)] == [0, 1, 2]
        assert alone()

    asyncio.run(main())


def test_all_is_closed_before_an_error_is_raised() -> None:
    async def main() -> None:
        iteration = aiter(numbers().map(lambda v: 1 // v))
        with pytest.raises(errors.InputError, match="ZeroDivisionError"):
            await anext(iteration)
        assert alone()
        with pytest.raises(errors.InputError, match="ZeroDivisionError"):
            await anext(iteration)

    asyncio.run(main())


def test_an_iterator_that_nobody_began_opens_nothing() -> None:
    async def main() -> None:
        iteration = aiter(numbers())
        assert isinstance(iteration, Iteration)
        del iteration
        assert alone()

    asyncio.run(main())


def test_every_loop_is_a_run_of_its_own() -> None:
    async def main() -> None:
        pipeline = numbers(4)
        first, second = aiter(pipeline), aiter(pipeline)
        assert [await anext(first), await anext(second), await anext(first)] == [0, 0, 1]

    asyncio.run(main())


@dataclass
class Broken:
    """Stands for a stream that cannot be opened."""

    async def __aenter__(self) -> Any:
        raise errors.InputError("no such thing")

    async def __aexit__(self, *about: object) -> None:
        raise AssertionError


def test_a_stream_that_cannot_be_opened_says_so_every_time() -> None:
    async def main() -> None:
        iteration = Iteration(Broken())  # type: ignore[arg-type]
        for _ in range(2):
            with pytest.raises(errors.InputError, match="no such thing"):
                await anext(iteration)
        assert alone()

    asyncio.run(main())


def test_a_keeper_that_is_cancelled_ends_the_loop() -> None:
    async def main() -> None:
        iteration: Any = aiter(numbers().repeat())
        await anext(iteration)
        keeper = iteration._keeper
        keeper.cancel()
        await asyncio.wait([keeper])

        with pytest.raises(errors.StateError, match="the stream was left"):
            await anext(iteration)

    asyncio.run(main())
