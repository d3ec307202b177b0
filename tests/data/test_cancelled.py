"""Code of users that raises CancelledError has failed; nobody has cancelled the stream."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

import actorflow as af
from actorflow.data.pipeline import Pipeline
from actorflow.errors import InputError
from tests.data.pipelines import numbers_from
from tests.data.reading import run


async def cancelled() -> Any:
    """Waits for a task that was cancelled."""
    task = asyncio.ensure_future(asyncio.sleep(0))
    task.cancel()
    return await task


async def asynchronous() -> AsyncIterator[int]:
    yield 0
    yield 1
    await cancelled()


def plain() -> Iterator[int]:
    yield 0
    yield 1
    raise asyncio.CancelledError


def queued() -> Pipeline:
    left = [0, 1]

    async def get() -> int:
        return left.pop(0) if left else await cancelled()

    return af.data.queue(get)


class Source:
    """Integers of a user's own source, which fails at the third."""

    name, size, blocking, element_bytes = "mine", None, False, 8

    def __init__(self, *, awaits: bool) -> None:
        self.awaits = awaits

    def open(self, start: int, epoch: int) -> Any:
        self.at = start
        return self

    def read(self, n: int) -> Any:
        self.at += 1
        if self.at <= 2:
            return [self.at - 1]
        if self.awaits:
            return cancelled()
        raise asyncio.CancelledError

    def close(self) -> None:
        pass


def fails_at_two(value: int) -> Any:
    if value == 2:
        raise asyncio.CancelledError
    return value


def broken_call() -> Any:
    raise asyncio.CancelledError


CASES: dict[str, tuple[Callable[[], Pipeline], str]] = {
    "async": (lambda: af.data.generator(asynchronous), "element 2 raised"),
    "thread": (lambda: af.data.generator(plain), "element 2 raised"),
    "inline": (lambda: af.data.generator(plain, blocking=False), "element 2 raised"),
    "call": (lambda: af.data.generator(broken_call), "the call raised"),
    "queue": (queued, "queue function: element 2 raised"),
    "own, awaited": (lambda: Pipeline(Source(awaits=True)), "mine failed at element 2 of epoch 0"),
    "own, inline": (lambda: Pipeline(Source(awaits=False)), "mine failed at element 2 of epoch 0"),
    "filter": (
        lambda: Pipeline(numbers_from(5)).filter(lambda v: fails_at_two(v) >= 0),
        "filter '<lambda>' failed at element 2",
    ),
    "flat_map": (
        lambda: Pipeline(numbers_from(5)).flat_map(lambda v: [fails_at_two(v)]),
        "flat_map '<lambda>' failed at element 2",
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_cancelled_error_of_users_code_is_an_error_at_its_element(
    case: tuple[Callable[[], Pipeline], str],
) -> None:
    make, told = case
    seen: list[Any] = []

    async def main() -> None:
        async with make().open() as stream:
            async for element in stream:
                seen.append(element)  # noqa: PERF401  what came before an error is to stay

    with pytest.raises(InputError, match=f"{told}.*CancelledError"):
        run(main())
    assert seen == ([] if "call" in told else [0, 1])


def test_a_bucket_whose_length_is_cancelled_names_the_element() -> None:
    async def main() -> None:
        async for _ in Pipeline(numbers_from(5)).bucket(fails_at_two, [3], [9, 9]):
            pass

    with pytest.raises(InputError, match=r"bucket 'fails_at_two' failed at element 2 .*CancelledError"):
        run(main())
