"""Queues as sources: nothing is lost, and every way to end is an end."""

from __future__ import annotations

import asyncio
import multiprocessing
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from queue import Queue, SimpleQueue
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import actorflow as af
from actorflow.data.run.buffer import StreamLeft
from actorflow.data.sources.queued import queue
from actorflow.errors import ConfigError, GraphError, InputError, OutOfRange
from tests.data.reading import SIZES, read_async, run
from tests.support.strategies import examples

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
        line = af.state.FIFOQueue(8, [("int32", ())])
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


@pytest.mark.parametrize(
    ("made", "kind"),
    [
        (Queue, "queue.Queue"),
        (SimpleQueue, "_queue.SimpleQueue"),
        (multiprocessing.Queue, "multiprocessing.queues.Queue"),
    ],
)
def test_a_queue_of_threads_or_processes_is_refused_since_it_blocks_the_loop(made, kind):
    line = made()
    for source in (line, line.get):
        with pytest.raises(ConfigError, match=f"got a {kind}, whose get\\(\\) would block") as refused:
            queue(source)
        assert "af.data.generator(" in str(refused.value)


# ------------------------------------------------------------------------ queues of a session


@asynccontextmanager
async def filled(*values: Any, names: list[str] | None = None) -> AsyncIterator[tuple[af.Session, Any]]:
    """A session, and a queue of it with these pairs inside, which is closed behind them."""
    with af.Graph() as graph:
        line = af.state.FIFOQueue(64, ["int32", "float32"], [(), (2,)], names=names, name="line")
    async with af.Session(graph) as session, af.state.QueueRunner(session) as feeder:
        feeder.feed(line, values)
        yield session, line


def pair(k: int) -> tuple[Any, ...]:
    return np.int32(k), np.full(2, k, "float32")


def test_a_queue_of_a_session_is_read_without_a_step() -> None:
    async def main() -> None:
        async with filled(*map(pair, range(7))) as (session, line):
            found = [value async for value in af.data.queue(session, line).batch(3)]
            steps = session.stats().steps

        assert [batch[0].tolist() for batch in found] == [[0, 1, 2], [3, 4, 5], [6]]
        assert found[1][1].tolist() == [[3, 3], [4, 4], [5, 5]]
        assert steps == 0

    run(main())


def test_elements_of_a_queue_with_names_are_dicts_and_one_component_is_bare() -> None:
    async def main() -> None:
        async with filled({"k": pair(4)[0], "x": pair(4)[1]}, names=["k", "x"]) as (session, line):
            [found] = [value async for value in af.data.queue(session, line)]
        assert list(found) == ["k", "x"]
        assert (int(found["k"]), found["x"].tolist()) == (4, [4, 4])

        with af.Graph() as graph:
            single = af.state.FIFOQueue(4, "int64", ())
        async with af.Session(graph) as session, af.state.QueueRunner(session) as feeder:
            feeder.feed(single, range(3))
            assert [int(value) async for value in af.data.queue(session, single)] == [0, 1, 2]

    run(main())


def test_an_error_of_what_fills_the_queue_comes_out_behind_the_good_elements() -> None:
    def pairs() -> Iterator[Any]:
        yield pair(1)
        raise LookupError("no more")

    seen: list[Any] = []

    async def main() -> None:
        with af.Graph() as graph:
            line = af.state.FIFOQueue(64, ["int32", "float32"], [(), (2,)], name="line")
        async with af.Session(graph) as session, af.state.QueueRunner(session) as feeder:
            feeder.feed(line, pairs())
            seen.extend([int(value[0]) async for value in af.data.queue(session, line).take(1)])
            with pytest.raises(
                InputError, match="element 1 of what feeds queue 'line' .*LookupError: no more"
            ):
                async for _ in af.data.queue(session, line):
                    pass

    with pytest.raises(ExceptionGroup):
        run(main())
    assert seen == [1]


def test_a_session_that_closes_while_its_queue_is_read_is_no_clean_end() -> None:
    async def main() -> None:
        with af.Graph() as graph:
            line = af.state.FIFOQueue(4, "int64", (), name="line")
        session = af.Session(graph)
        await session.__aenter__()
        async with af.data.queue(session, line).open() as stream:
            waiting = asyncio.ensure_future(anext(stream))
            for _ in range(20):
                await asyncio.sleep(0)

            await session.close()

            with pytest.raises(
                InputError, match="SessionClosed: the session was closed while its queue 'line'"
            ):
                await waiting
        with pytest.raises(InputError, match="SessionClosed: the session is not open"):
            async for _ in af.data.queue(session, line):
                pass

    run(main())


def test_a_stream_that_is_left_while_it_waits_takes_nothing_from_the_queue() -> None:
    async def main() -> None:
        with af.Graph() as graph:
            line = af.state.FIFOQueue(4, "int64", ())
            put, size = line.enqueue(7), line.size()
        async with af.Session(graph) as session:
            async with af.data.queue(session, line).open() as stream:
                waiting = asyncio.ensure_future(anext(stream))
                for _ in range(20):
                    await asyncio.sleep(0)
            with pytest.raises(StreamLeft):
                await waiting
            await session.run(put)
            assert await session.run(size) == 1

    run(main())


def test_what_is_no_queue_of_the_session_is_refused() -> None:
    with af.Graph() as graph:
        line = af.state.FIFOQueue(4, "int64", (), name="line")
    with af.Graph() as other:
        pass

    with pytest.raises(GraphError, match="queue 'line' belongs to another graph than this session's"):
        af.data.queue(af.Session(other), line)
    with pytest.raises(ConfigError, match="a session and a queue of its graph, got 'line'"):
        af.data.queue(af.Session(graph), "line")
    with pytest.raises(ConfigError, match="an open session before its queue, got 3"):
        af.data.queue(3, line)
    with pytest.raises(ConfigError, match=r"try:   queue\(session, queue\) reads a queue of a session"):
        af.data.queue(line)


# ----------------------------------------------------------------------------------- positions


def test_a_stream_of_a_queue_has_no_position_and_none_can_be_gone_on_at() -> None:
    async def main() -> None:
        async with af.data.queue(closed_after([1, 2, 3])).open() as stream:
            assert await anext(stream) == 1
            with pytest.raises(
                InputError, match="a stream of queue function has no position: a queue keeps"
            ) as found:
                stream.position()
            assert "test_queued.py" in str(found.value)

    run(main())
    with pytest.raises(InputError, match="has no position: a queue keeps nothing that it gave"):
        af.data.queue(closed_after([])).open({"version": 1, "pipeline": "x", "taken": 1, "seed": 0})


@pytest.mark.parametrize("taken", [0, 2])
def test_a_position_of_a_queue_is_refused_before_anything_is_taken_from_it(taken: int) -> None:
    async def main() -> None:
        line: asyncio.Queue[int] = asyncio.Queue()
        for i in range(5):
            line.put_nowait(i)
        pipeline = af.data.queue(line).shuffle(3, seed=1)
        with pytest.raises(InputError, match="has no position: a queue keeps nothing"):
            pipeline.open({"version": 1, "pipeline": pipeline.fingerprint, "taken": taken, "seed": 0})
        with pytest.raises(InputError, match="has no position: a queue keeps nothing"):
            pipeline.open().position()
        await asyncio.sleep(0)
        assert line.qsize() == 5

    run(main())
