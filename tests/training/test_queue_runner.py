"""Feeders: sources and runners that fill queues, how they end, and how others hear of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import numpy as np
import pytest

import actorflow as af
from actorflow import errors
from actorflow.runtime import event_loop
from tests.support import sessions


@pytest.fixture(params=["the fastest loop at hand", "asyncio's own", "the simulator's"])
def run(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Runs a body in a session, on every event loop."""
    if request.param == "asyncio's own":
        monkeypatch.setattr(event_loop, "loop_factory", lambda: asyncio.new_event_loop)

    return sessions.run_simulated if request.param == "the simulator's" else sessions.run


class Line:
    """raw -> double -> doubled, and the ops at both ends."""

    def __init__(self, capacity: int = 2) -> None:
        with af.Graph() as self.graph:
            self.raw = af.state.FIFOQueue(capacity, "int64", (), name="raw")
            self.doubled = af.state.FIFOQueue(capacity, "int64", (), name="doubled")
            taken = self.raw.dequeue()
            self.double = self.doubled.enqueue(taken * 2)
            self.look_up = self.doubled.enqueue(af.gather(np.full(4, 7, "int64"), taken))
            self.take_raw, self.take = self.raw.dequeue(), self.doubled.dequeue()
            self.size = self.raw.size()
            self.close_raw, self.close = self.raw.close(), self.doubled.close(cancel_pending_enqueues=True)


async def drained(session: af.Session, take: Any) -> tuple[list[Any], Any]:
    """Takes all there is, and returns it with what ended it."""
    got = []
    while True:
        try:
            got.append((await session.run(take)).tolist())
        except errors.ActorflowError as error:
            return got, error


async def numbers(count: int, bad: int | None = None) -> AsyncIterator[int]:
    for k in range(count):
        if k == bad:
            message = "rotten"
            raise ValueError(message)
        yield k
        await asyncio.sleep(0)


# -- sources -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize(
    "elements", [lambda: [0, 1, 2, 3], lambda: iter(range(4)), lambda: numbers(4), lambda: np.arange(4)]
)
def test_a_source_gives_its_elements_in_order_and_then_closes_the_queue(
    run: Any, elements: Callable[[], Any], batch: int
) -> None:
    line = Line()

    async def body(session: af.Session) -> Any:
        async with af.state.QueueRunner(session) as feeder:
            inflow = feeder.feed(line.raw, elements(), batch=batch)
            assert not inflow.ended
            got, error = await drained(session, line.take_raw)
            return got, type(error), inflow.elements, inflow.ended

    assert run(line.graph, body) == ([0, 1, 2, 3], errors.OutOfRange, 4, True)


@pytest.mark.parametrize("batch", [1, 2])
def test_elements_have_components_by_position_or_by_name(run: Any, batch: int) -> None:
    with af.Graph() as graph:
        pairs = af.state.FIFOQueue(9, ["int64", "bytes"], [(), (None,)], name="pairs")
        named = af.state.FIFOQueue(9, ["int64", "float32"], [(), (2,)], ["n", "v"], name="named")
        take, take_named = pairs.dequeue(), named.dequeue()

    async def body(session: af.Session) -> Any:
        async with af.state.QueueRunner(session) as feeder:
            feeder.feed(pairs, [(1, [b"a"]), [2, []]], batch=batch)
            feeder.feed(named, [{"n": 3, "v": [1, 2]}, {"v": np.zeros(2, "float32"), "n": 4}], batch=batch)
            return [await session.run(t) for t in (take, take, take_named, take_named)]

    (one, a), (two, none), first, second = run(graph, body)

    assert (one, a.tolist(), two, none.tolist()) == (1, [b"a"], 2, [])
    assert (first["n"], first["v"].tolist(), second["n"], second["v"].tolist()) == (3, [1, 2], 4, [0, 0])


def test_a_source_is_never_further_ahead_than_the_queue_is_large(run: Any) -> None:
    line = Line(capacity=3)
    made = 0

    def counting() -> Iterator[int]:
        nonlocal made
        for made in range(1, 100):  # noqa: UP028  it counts
            yield made

    async def body(session: af.Session) -> Any:
        async with af.state.QueueRunner(session) as feeder:
            inflow = feeder.feed(line.raw, counting())
            await asyncio.sleep(0.05)
            ahead = made, inflow.elements
            await session.run(line.take_raw)
            await asyncio.sleep(0.05)
            return ahead, made, inflow.elements

    assert run(line.graph, body) == ((4, 3), 5, 4)


def test_an_array_is_copied_in_so_that_its_maker_may_use_it_again(run: Any) -> None:
    with af.Graph() as graph:
        queue = af.state.FIFOQueue(4, "int64", (2,), name="q")
        take = queue.dequeue_many(3)
    buffer = np.zeros(2, "int64")

    def reusing() -> Iterator[Any]:
        for k in range(3):
            buffer[:] = k
            yield buffer

    async def body(session: af.Session) -> Any:
        async with af.state.QueueRunner(session) as feeder:
            feeder.feed(queue, reusing())
            return (await session.run(take)).tolist()

    assert run(graph, body) == [[0, 0], [1, 1], [2, 2]]


def test_a_queue_is_closed_when_the_last_of_its_sources_has_ended(run: Any) -> None:
    line = Line()

    async def body(session: af.Session) -> Any:
        async with af.state.QueueRunner(session) as feeder:
            feeder.feed(line.raw, [1])
            feeder.feed(line.raw, numbers(3))
            feeder.feed(line.raw, [])
            got, error = await drained(session, line.take_raw)
            return sorted(got), type(error)

    assert run(line.graph, body) == ([0, 1, 1, 2], errors.OutOfRange)


def test_a_source_ends_well_when_the_queue_is_closed_by_others_and_its_generator_is_closed(run: Any) -> None:
    line = Line()
    ended = []

    async def endless() -> AsyncIterator[int]:
        try:
            while True:
                yield 1
        finally:
            ended.append("closed")

    async def body(session: af.Session) -> None:
        async with af.state.QueueRunner(session) as feeder:
            feeder.feed(line.doubled, endless())
            await session.run(line.take)
            await session.run(line.close)
            await feeder.join()
            assert ended == ["closed"]

    run(line.graph, body)


def test_a_source_that_takes_from_another_queue_ends_well_with_it(run: Any) -> None:
    line = Line()

    async def body(session: af.Session) -> Any:
        async def taken() -> AsyncIterator[Any]:
            while True:
                yield await session.run(line.take_raw)

        async with af.state.QueueRunner(session) as feeder:
            feeder.feed(line.raw, [1, 2, 3])
            feeder.feed(line.doubled, taken(), batch=2)
            got, error = await drained(session, line.take)
            return got, type(error)

    assert run(line.graph, body) == ([1, 2, 3], errors.OutOfRange)


# -- runners -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("copies", [1, 3])
def test_stages_end_one_after_the_other(run: Any, copies: int) -> None:
    line = Line()

    async def body(session: af.Session) -> Any:
        async with af.state.QueueRunner(session) as feeder:
            feeder.feed(line.raw, range(10))
            feeder.run(line.double, copies=copies)
            got, error = await drained(session, line.take)
            await feeder.join()
            return got if copies == 1 else sorted(got), type(error)

    assert run(line.graph, body) == ([2 * k for k in range(10)], errors.OutOfRange)


def test_a_runner_feeds_each_of_its_steps(run: Any) -> None:
    with af.Graph() as graph:
        queue = af.state.FIFOQueue(2, "int64", (), name="q")
        x = af.placeholder("int64", (), name="x")
        put, take = queue.enqueue(x), queue.dequeue()

    async def body(session: af.Session) -> Any:
        async with af.state.QueueRunner(session) as feeder:
            feeder.run([put], {"x": 7})
            return [int(await session.run(take)) for _ in range(5)]

    assert run(graph, body) == [7] * 5


# -- errors --------------------------------------------------------------------------------------------


def group(run: Any, line: Line, body: Callable[[af.Session], Awaitable[Any]], **options: Any) -> Any:
    """Runs a body, and returns the errors of the group that it raises."""
    with pytest.raises(BaseExceptionGroup) as caught:
        run(line.graph, body, **options)
    return caught.value.exceptions


@pytest.mark.parametrize("batch", [1, 4])
def test_an_error_of_a_source_reaches_the_consumer_behind_what_is_inside(run: Any, batch: int) -> None:
    line = Line()
    seen = []

    async def body(session: af.Session) -> None:
        async with af.state.QueueRunner(session) as feeder:
            feeder.feed(line.raw, numbers(9, bad=5), batch=batch)
            feeder.run(line.double)
            seen.append(await drained(session, line.take))

    (raised,) = group(run, line, body)

    ((got, error),) = seen
    assert got == [0, 2, 4, 6, 8]
    assert type(error) is errors.InputError
    assert error.what == "element 5 of what feeds queue 'raw' could not be made: ValueError: rotten"
    assert error.where is not None
    assert error.where.defined_at is not None
    assert "test_queue_runner.py" in error.where.defined_at
    assert raised.what == error.what
    assert isinstance(raised.__cause__, ValueError)


def test_an_input_error_of_a_pipeline_stays_as_it_is(run: Any) -> None:
    line = Line()
    seen = []

    def reading() -> Iterator[int]:
        yield 1
        message = "element 7 of csv 'a.csv': no number"
        raise errors.InputError(message)

    async def body(session: af.Session) -> None:
        async with af.state.QueueRunner(session) as feeder:
            feeder.feed(line.raw, reading())
            seen.append(await drained(session, line.take_raw))

    (raised,) = group(run, line, body)

    ((got, error),) = seen
    assert got == [1]
    assert error.what == raised.what == "element 7 of csv 'a.csv': no number"


@pytest.mark.parametrize(
    ("element", "said"),
    [
        ((1, 2), "an element of queue 'raw' has 1 components, got 2"),
        ([1, 2], "component 0 must fit () int64, got (2,) int64"),
        (1.5, "component 0 must fit () int64, got float: float64 values do not fit int64"),
        ("a", "component 0 must fit () int64, got str: elements must be numbers, got str 'a'"),
    ],
)
def test_an_element_that_does_not_fit_is_named(run: Any, element: Any, said: str) -> None:
    line = Line()
    seen = []

    async def body(session: af.Session) -> None:
        async with af.state.QueueRunner(session) as feeder:
            feeder.feed(line.raw, [1, element, 3], batch=3)
            seen.append(await drained(session, line.take_raw))

    (raised,) = group(run, line, body)

    ((got, error),) = seen
    assert got == [1]
    assert type(error) is type(raised) is errors.SpecError
    assert error.what == f"element 1 of what feeds queue 'raw' does not fit: {said}"


def test_an_error_of_a_runner_reaches_the_consumer_with_its_place(run: Any) -> None:
    line = Line()
    seen = []

    async def body(session: af.Session) -> None:
        async with af.state.QueueRunner(session) as feeder:
            feeder.feed(line.raw, [1, 2, 3, 4, 5, 6])
            feeder.run(line.look_up)
            seen.append(await drained(session, line.take))

    (raised,) = group(run, line, body)

    ((got, error),) = seen
    assert got == [7, 7, 7]
    assert type(error) is type(raised) is errors.KernelError
    places: list[Any] = [error.where, raised.where]
    assert [place.node for place in places] == ["gather", "gather"]
    assert places[0].step == places[1].step


def test_the_body_hears_of_an_error_at_the_last_queue_and_the_group_tells_it_once(run: Any) -> None:
    line = Line()

    async def body(session: af.Session) -> None:
        async with af.state.QueueRunner(session) as feeder:
            feeder.feed(line.raw, numbers(3, bad=0))
            feeder.run(line.double, copies=2)
            await session.run(line.take)

    (raised,) = group(run, line, body)

    assert type(raised) is errors.InputError


class Unready:
    """An iterable of which no iterator can be had; or it ends before its first element."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def __iter__(self) -> Any:
        raise self.error


class AsyncUnready(Unready):
    def __aiter__(self) -> Any:
        raise self.error


@pytest.mark.parametrize("kind", [Unready, AsyncUnready])
def test_an_iterable_that_cannot_be_begun_is_an_error_of_the_input(run: Any, kind: type[Unready]) -> None:
    line = Line()

    async def body(session: af.Session) -> None:
        async with af.state.QueueRunner(session) as feeder:
            feeder.feed(line.raw, kind(LookupError("no file")))
            await feeder.join()

    (raised,) = group(run, line, body)

    assert type(raised) is errors.InputError
    assert "what feeds queue 'raw' could not be begun: LookupError: no file" in raised.what
    assert isinstance(raised.__cause__, LookupError)


def test_an_error_of_the_body_comes_first_in_the_group(run: Any) -> None:
    line = Line()

    async def body(session: af.Session) -> None:
        async with af.state.QueueRunner(session) as feeder:
            feeder.feed(line.raw, numbers(3, bad=0))
            await feeder.join()
            raise KeyError("mine")

    mine, raised = group(run, line, body)

    assert isinstance(mine, KeyError)
    assert type(raised) is errors.InputError


def test_an_error_of_the_body_alone_comes_as_itself(run: Any) -> None:
    line = Line()

    async def body(session: af.Session) -> None:
        async with af.state.QueueRunner(session) as feeder:
            feeder.feed(line.raw, numbers(3))
            raise KeyError("mine")

    with pytest.raises(KeyError):
        run(line.graph, body)


def test_an_error_of_a_generator_that_is_closed_is_raised(run: Any) -> None:
    line = Line()

    async def ill() -> AsyncIterator[int]:
        try:
            while True:
                yield 1
        finally:
            raise KeyError("while closing")

    async def body(session: af.Session) -> None:
        async with af.state.QueueRunner(session) as feeder:
            feeder.feed(line.raw, ill())
            await session.run(line.take_raw)

    (raised,) = group(run, line, body)

    assert type(raised) is errors.InputError
    assert "could not be closed: KeyError: 'while closing'" in raised.what
    assert isinstance(raised.__cause__, KeyError)


class Unbegun:
    def __iter__(self) -> Any:
        raise asyncio.CancelledError


async def awaits_what_is_cancelled() -> AsyncIterator[int]:
    yield 7
    task = asyncio.ensure_future(asyncio.sleep(0))
    task.cancel()
    await task


def raises_cancelled() -> Iterator[int]:
    yield 7
    raise asyncio.CancelledError


@pytest.mark.parametrize(
    ("make", "got", "told"),
    [
        (
            awaits_what_is_cancelled,
            [7],
            "element 1 of what feeds queue 'raw' could not be made: CancelledError",
        ),
        (raises_cancelled, [7], "element 1 of what feeds queue 'raw' could not be made: CancelledError"),
        (Unbegun, [], "what feeds queue 'raw' could not be begun: CancelledError"),
    ],
)
def test_a_source_that_raises_cancelled_has_failed(run: Any, make: Any, got: list[int], told: str) -> None:
    line = Line()
    seen: list[Any] = []

    async def body(session: af.Session) -> None:
        async with af.state.QueueRunner(session) as feeder:
            feeder.feed(line.raw, make())
            seen.extend(await drained(session, line.take_raw))

    with pytest.raises(ExceptionGroup) as caught:
        run(line.graph, body)

    assert seen[0] == got
    assert told in str(seen[1])
    assert told in str(caught.value.exceptions[0])
