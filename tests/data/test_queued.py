"""Queues as sources: nothing is lost, and every way to end is an end."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import actorflow as af
from actorflow.data.queued import queue
from actorflow.errors import ConfigError, InputError, OutOfRange
from tests.data.reading import SIZES, read_async, run
from tests.strategies import examples

END = object()


def closed_after(values: list[Any]) -> Any:
    """An async function as a session's dequeue is: it ends by OutOfRange."""
    left = list(values)

    async def dequeue() -> Any:
        await asyncio.sleep(0)
        if not left:
            raise OutOfRange("queue 'q' is closed and has 0 elements, 1 was asked for")
        return left.pop(0)

    return dequeue


@settings(max_examples=examples(60), deadline=None)
@given(n=st.integers(0, 30), sizes=SIZES, capacity=st.integers(0, 5))
def test_what_is_put_comes_out_once_and_in_order(n, sizes, capacity):
    async def reads() -> list[Any]:
        line = asyncio.Queue(capacity)

        async def fills() -> None:
            for i in [*range(n), END]:
                await line.put(i)

        async with asyncio.TaskGroup() as group:
            group.create_task(fills())
            return await read_async(queue(line, end=END), 0, sizes)

    assert run(reads()) == list(range(n))
    assert run(read_async(queue(closed_after(list(range(n)))), 0, sizes)) == list(range(n))


def test_a_read_gives_what_is_there_and_waits_for_the_first_only():
    async def reads() -> None:
        line = asyncio.Queue()
        for i in range(3):
            line.put_nowait(i)
        reader = queue(line).open(0, 0)

        assert await reader.read(2) == [0, 1]
        assert await reader.read(9) == [2]
        waiting = asyncio.ensure_future(reader.read(9))
        await asyncio.sleep(0)
        assert not waiting.done()
        line.put_nowait(3)
        assert await waiting == [3]

    run(reads())


def test_a_cancelled_read_loses_nothing():
    async def reads() -> None:
        line = asyncio.Queue()
        reader = queue(line).open(0, 0)
        waiting = asyncio.ensure_future(reader.read(9))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])

        line.put_nowait(1)

        assert await reader.read(9) == [1]

    run(reads())


def test_a_value_ends_an_epoch_and_the_next_goes_on_behind_it():
    async def reads() -> None:
        line = asyncio.Queue()
        for value in (1, None, 2, 3, None):
            line.put_nowait(value)
        source = queue(line, end=None)

        assert await read_async(source) == [1]
        assert await read_async(source, epoch=1) == [2, 3]

    run(reads())


def test_a_value_that_only_equals_the_end_is_an_element():
    async def reads() -> None:
        line = asyncio.Queue()
        end = [1]
        for value in ([1], end):
            line.put_nowait(value)
        assert await read_async(queue(line, end=end)) == [[1]]

    run(reads())


def test_a_queue_that_has_ended_has_no_second_epoch():
    source = queue(closed_after([1]))

    assert run(read_async(source)) == [1]
    with pytest.raises(InputError, match="another epoch, got a queue that has ended\n  try:   leave repeat"):
        run(read_async(source, epoch=1))


@pytest.mark.skipif(
    not hasattr(asyncio, "QueueShutDown"), reason="asyncio.Queue.shutdown is new in Python 3.13"
)
def test_a_queue_that_is_shut_down_ends():
    async def reads() -> None:
        line = asyncio.Queue()
        line.put_nowait(1)
        line.shutdown()  # type: ignore[attr-defined]  # new in Python 3.13
        assert await read_async(queue(line)) == [1]

    run(reads())


def test_a_queue_of_a_session_ends_when_it_is_closed():
    with af.Graph() as graph:
        line = af.FIFOQueue(8, [("int32", ())])
        value = af.placeholder("int32", ())
        put, take, close = line.enqueue(value), line.dequeue(), line.close()

    async def reads() -> list[Any]:
        async with af.Session(graph) as session:
            for i in range(5):
                await session.run(put, {value: i})
            await session.run(close)
            return await read_async(queue(lambda: session.run(take)))

    assert run(reads()) == [0, 1, 2, 3, 4]


def test_another_error_is_told_with_its_element_and_stays():
    async def fails() -> None:
        raise LookupError("no such thing")

    async def reads() -> None:
        reader = queue(fails).open(0, 0)
        for _ in range(2):
            with pytest.raises(
                InputError, match="queue function: element 0 raised LookupError: no such thing"
            ):
                await reader.read(1)

    run(reads())


def test_a_queue_cannot_start_later():
    with pytest.raises(InputError, match="expected to begin at element 0, got 3: a queue keeps nothing"):
        queue(closed_after([])).open(3, 0)


@pytest.mark.parametrize("source", [3, {"get": 1}, [1]])
def test_what_is_no_queue_is_refused(source):
    with pytest.raises(ConfigError, match="what has an async get"):
        queue(source)
