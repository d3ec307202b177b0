"""Leaving a queue runner: what waits ends at once, however the scope is left; and what cannot be fed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import numpy as np
import pytest

import actorflow as af
from actorflow import errors, sim
from tests.training.test_queue_runner import Line, drained, numbers, run

__all__ = ["run"]  # the fixture


async def endless() -> AsyncIterator[int]:
    while True:
        yield 1


def test_leaving_ends_what_waits_and_closes_the_queues(run: Any) -> None:
    line = Line()
    with line.graph:
        quiet = af.FIFOQueue(2, "int64", (), name="quiet")
        take_quiet = quiet.dequeue()

    async def silent() -> AsyncIterator[int]:
        await asyncio.Event().wait()
        yield 1

    async def body(session: af.Session) -> Any:
        async with af.QueueRunner(session) as feeder:
            feeder.feed(line.raw, endless())
            feeder.run(line.double, copies=2)
            feeder.feed(quiet, silent())
            taking = asyncio.create_task(drained(session, take_quiet))
            await asyncio.sleep(0.01)
            assert session.stats().live == 3
        ended = await taking
        left = [t for t in asyncio.all_tasks() if t.get_name().startswith("fills")]
        return ended[0], type(ended[1]), left, (await drained(session, line.take))[0]

    assert run(line.graph, body) == ([], errors.OutOfRange, [], [2, 2])


def test_leaving_closes_a_queue_whose_close_waits_behind_enqueues_of_others(run: Any) -> None:
    with af.Graph() as graph:
        queue = af.FIFOQueue(1, "int64", (), name="queue")
        put, take = queue.enqueue(np.int64(2)), queue.dequeue()

    async def body(session: af.Session) -> Any:
        async with af.QueueRunner(session) as feeder:
            feeder.feed(queue, [1])
            putting = asyncio.create_task(session.run(put))
            await asyncio.sleep(0.01)
            assert not putting.done()
        with pytest.raises(errors.QueueClosed):
            await putting
        return (await drained(session, take))[0]

    assert run(graph, body) == [1]


@pytest.mark.parametrize("cancel", [False, True])
def test_an_end_before_its_time_is_no_clean_end_of_the_data(run: Any, cancel: bool) -> None:
    line = Line()

    async def scope(session: af.Session) -> None:
        async with af.QueueRunner(session) as feeder:
            feeder.feed(line.raw, endless())
            if cancel:
                await asyncio.Event().wait()
            await asyncio.sleep(0.01)
            raise KeyError("mine")

    async def body(session: af.Session) -> Any:
        scoped = asyncio.create_task(scope(session))
        await asyncio.sleep(0.02)
        scoped.cancel()
        await asyncio.wait([scoped])
        assert scoped.cancelled() is cancel
        return await drained(session, line.take_raw)

    got, error = run(line.graph, body)

    assert got == [1, 1]
    assert type(error) is errors.StepAborted
    why = "was cancelled" if cancel else "was left by KeyError: 'mine'"
    assert error.what == f"what filled queue 'raw' was stopped: the scope of its feeder {why}"


def test_a_cancellation_that_comes_while_it_leaves_is_not_lost(run: Any) -> None:
    line = Line()
    slow = asyncio.Event()

    async def closing_slowly() -> AsyncIterator[int]:
        try:
            while True:
                yield 1
        finally:
            slow.set()
            await asyncio.sleep(0.02)

    async def scope(session: af.Session) -> None:
        async with af.QueueRunner(session) as feeder:
            feeder.feed(line.raw, closing_slowly())
            await session.run(line.take_raw)

    async def body(session: af.Session) -> bool:
        scoped = asyncio.create_task(scope(session))
        await slow.wait()
        scoped.cancel()
        await asyncio.wait([scoped])
        return scoped.cancelled()

    assert run(line.graph, body)


def test_a_task_that_the_program_cancels_ends_its_queue(run: Any) -> None:
    line = Line()

    async def body(session: af.Session) -> Any:
        async with af.QueueRunner(session) as feeder:
            feeder.feed(line.raw, endless())
            await session.run(line.take_raw)
            (task,) = (t for t in asyncio.all_tasks() if t.get_name() == "fills queue 'raw'")
            task.cancel()
            return type((await drained(session, line.take_raw))[1])

    assert run(line.graph, body) is errors.OutOfRange


def test_joining_waits_for_all_or_for_the_first_error(run: Any) -> None:
    line = Line(capacity=9)

    async def body(session: af.Session) -> Any:
        async with af.QueueRunner(session) as feeder:
            feeder.feed(line.raw, numbers(3))
            await feeder.join()
            size = int(await session.run(line.size))
        with pytest.raises(ExceptionGroup):  # noqa: PT012  leaving raises
            async with af.QueueRunner(session) as feeder:
                feeder.feed(line.doubled, numbers(3, bad=1))
                feeder.run(line.double)
                await feeder.join()
        return size

    assert run(line.graph, body) == 3


def test_what_fills_a_queue_now_and_then_starves_nobody() -> None:
    line = Line()

    async def seldom() -> AsyncIterator[int]:
        for k in range(3):
            await asyncio.sleep(1000)
            yield k

    async def main() -> Any:
        async with af.Session(line.graph, starvation_s=5) as session, af.QueueRunner(session) as feeder:
            feeder.feed(line.raw, seldom())
            feeder.run(line.double)
            return (await drained(session, line.take))[0]

    assert sim.run(main).result == [0, 2, 4]


def test_a_chain_that_nobody_feeds_tells_its_first_queue() -> None:
    line = Line()

    async def main() -> Any:
        async with af.Session(line.graph, starvation_s=5) as session, af.QueueRunner(session) as feeder:
            feeder.run(line.double)
            _, error = await drained(session, line.take)
            raise error

    with pytest.raises(ExceptionGroup) as caught:
        sim.run(main)

    (starved,) = caught.value.exceptions
    assert type(starved) is errors.QueueStarved
    assert starved.what.startswith("queue 'raw' has been empty for 5 s")


# -- misuse --------------------------------------------------------------------------------------------


def used_up() -> Any:
    generator = (k for k in range(2))
    list(generator)
    return generator


@pytest.mark.parametrize(
    ("misuse", "kind", "what"),
    [
        (lambda f, a, b: f.run(a.take), errors.GraphError, "a runner runs an op that fills a queue"),
        (lambda f, a, b: f.run(b.double), errors.FetchError, "belongs to another graph"),
        (lambda f, a, b: f.run(a.double, {"nobody": 1}), errors.FeedError, "names no tensor"),
        (lambda f, a, b: f.run(a.double, copies=0), errors.ConfigError, "copies is a whole number"),
        (lambda f, a, b: f.feed(b.raw, [1]), errors.GraphError, "'raw' belongs to another graph"),
        (lambda f, a, b: f.feed("raw", [1]), errors.GraphError, "what is filled is a queue, got 'raw'"),
        (lambda f, a, b: f.feed(a.raw, 3), errors.ConfigError, "from an iterable of elements, got 3"),
        (lambda f, a, b: f.feed(a.raw, b"ab"), errors.ConfigError, "from an iterable of elements"),
        (lambda f, a, b: f.feed(a.raw, {"n": 1}), errors.ConfigError, "from an iterable of elements"),
        (lambda f, a, b: f.feed(a.raw, used_up()), errors.ConfigError, "has no element left"),
        (lambda f, a, b: f.feed(a.raw, [1], batch=True), errors.ConfigError, "batch is a whole number"),
    ],
)
def test_what_cannot_fill_a_queue_is_refused_at_once(
    run: Any, misuse: Callable[..., Any], kind: type[Exception], what: str
) -> None:
    line, other = Line(), Line()

    async def body(session: af.Session) -> None:
        async with af.QueueRunner(session) as feeder:
            with pytest.raises(kind, match=what):
                misuse(feeder, line, other)

    run(line.graph, body)


def test_an_iterator_of_which_nothing_is_left_is_an_error_and_an_empty_list_is_none(run: Any) -> None:
    line = Line()

    async def body(session: af.Session) -> Any:
        async with af.QueueRunner(session) as feeder:
            feeder.feed(line.raw, [])
            _, end = await drained(session, line.take_raw)
        with pytest.raises(ExceptionGroup) as caught:  # noqa: PT012  leaving raises
            async with af.QueueRunner(session) as feeder:
                feeder.feed(line.doubled, zip([]))
                await session.run(line.take)
        error: Any = caught.value.exceptions[0]
        return type(end), type(error), error.what

    assert run(line.graph, body) == (
        errors.OutOfRange,
        errors.InputError,
        "what feeds queue 'doubled' had no element left",
    )


def test_a_queue_that_has_been_ended_is_fed_no_more(run: Any) -> None:
    line = Line()

    async def body(session: af.Session) -> None:
        async with af.QueueRunner(session) as feeder:
            feeder.feed(line.raw, [])
            await feeder.join()
            with pytest.raises(errors.QueueClosed, match="queue 'raw' is closed: what filled it has ended"):
                feeder.feed(line.raw, [1])

    run(line.graph, body)


def test_a_feeder_opens_once_inside_an_open_session(run: Any) -> None:
    line = Line()

    async def body(session: af.Session) -> af.Session:
        feeder = af.QueueRunner(session)
        with pytest.raises(errors.SessionClosed, match="the feeder is not open"):
            feeder.feed(line.raw, [1])
        async with feeder:
            feeder.feed(line.raw, [np.int64(1)])
        with pytest.raises(errors.SessionClosed, match="a feeder opens once"):
            await feeder.__aenter__()
        with pytest.raises(errors.SessionClosed, match="the feeder is not open"):
            feeder.run(line.double)
        return session

    async def again(session: af.Session) -> None:
        with pytest.raises(errors.SessionClosed, match="the session is not open"):
            await af.QueueRunner(closed).__aenter__()

    closed = run(line.graph, body)
    run(line.graph, again)
