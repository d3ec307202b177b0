"""Readers of sources are closed where they were read, and what fails there is told once."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

import actorflow as af
from actorflow.errors import InputError
from tests.data.reading import run


async def some(pipeline: Any, n: int) -> list[Any]:
    """The first elements; then the stream is left."""
    async with pipeline.open() as stream:
        return [await anext(stream) for _ in range(n)]


@pytest.mark.parametrize("n", [0, 1, 30])
def test_a_generator_is_closed_on_the_thread_that_read_it(n: int) -> None:
    threads: list[threading.Thread] = []

    def watched() -> Iterator[int]:
        threads.append(threading.current_thread())
        try:
            yield from range(10**6)
        finally:
            threads.append(threading.current_thread())

    found = run(some(af.data.generator(watched).take(20).repeat(), n))

    assert found == [k % 20 for k in range(n)]
    assert len(threads) % 2 == 0
    assert len(threads) >= 2 * -(-n // 20)
    assert len(set(threads)) <= 1
    assert threading.main_thread() not in threads


def test_a_database_that_belongs_to_its_thread_can_be_closed_by_its_generator() -> None:
    closed = []

    def rows() -> Iterator[int]:
        base = sqlite3.connect(":memory:")
        try:
            for (n,) in base.execute(
                "with recursive c(n) as (select 1 union all select n + 1 from c) select n from c"
            ):
                yield n
        finally:
            base.close()
            closed.append(True)

    assert run(some(af.data.generator(rows), 3)) == [1, 2, 3]
    assert closed == [True]


def test_the_loop_goes_on_while_a_generator_ends() -> None:
    ends, goes_on = threading.Event(), threading.Event()
    went_on = []

    def slow() -> Iterator[int]:
        try:
            yield from range(10**6)
        finally:
            ends.set()
            went_on.append(goes_on.wait(5))

    async def main() -> None:
        async with af.data.generator(slow).take(3).repeat(2).open() as stream:
            for _ in range(3):
                await anext(stream)
            await asyncio.to_thread(ends.wait, 5)
            goes_on.set()
            await anext(stream)

    run(main())
    assert went_on == [True, True]


def failing() -> Iterator[int]:
    try:
        yield from range(10**6)
    finally:
        raise LookupError("no such thing")


async def async_failing() -> AsyncIterator[int]:
    try:
        for n in range(10**6):
            yield n
    finally:
        raise LookupError("no such thing")


@pytest.mark.parametrize("epochs", [1, 3])
@pytest.mark.parametrize(
    ("function", "blocking"), [(failing, True), (failing, False), (async_failing, False)]
)
def test_an_end_that_fails_is_told_once_when_the_stream_is_left(
    function: Callable[[], Any], blocking: bool, epochs: int, caplog: pytest.LogCaptureFixture
) -> None:
    pipeline = af.data.generator(function, blocking=blocking).take(2).repeat(epochs)

    with pytest.raises(
        InputError, match=f"generator '{function.__name__}': closing it raised LookupError: no such thing"
    ) as told:
        run(some(pipeline, 2 * epochs))

    assert isinstance(told.value.__cause__, LookupError)
    assert "test_closing.py" in str(told.value)
    assert not caplog.records


def test_an_end_that_fails_while_an_error_leaves_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with af.data.generator(failing).open() as stream:
            await anext(stream)
            raise ValueError("mine")

    with caplog.at_level(logging.ERROR), pytest.raises(ValueError, match="mine"):
        run(main())

    assert [record.name for record in caplog.records] == ["actorflow.data"]
    assert "generator 'failing': closing it raised LookupError" in caplog.text
