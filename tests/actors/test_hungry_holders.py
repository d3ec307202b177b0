"""Takes from barriers and accumulators that nobody would serve fail, in virtual time, as dequeues do."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np
import pytest

import actorflow as af
from actorflow import errors
from tests.support.sessions import run_simulated


def run(graph: af.Graph, body: Callable[[af.Session], Awaitable[Any]], **options: Any) -> Any:
    return run_simulated(graph, body, **{"starvation_s": 5, **options})


class Tuples:
    """A barrier of two components."""

    kind = "barrier"

    def __init__(self, **options: Any) -> None:
        with af.Graph() as self.graph:
            self.filled = barrier = af.state.Barrier(["int64", "int64"], [(), ()], name="filled", **options)
            self.put = [
                barrier.insert_many(0, [b"a", b"b"], np.arange(2)),
                barrier.insert_many(1, [b"a"], np.arange(1)),
                barrier.insert_many(1, [b"b"], np.arange(1)),
            ]
            self.take = {n: barrier.take_many(n).keys for n in (1, 2)}
            self.close = barrier.close()
            self.put_and_take = [self.put[0], self.take[2]]


class Dense:
    """An accumulator."""

    kind = "accumulator"

    def __init__(self, **options: Any) -> None:
        with af.Graph() as self.graph:
            self.filled = grads = af.state.ConditionalAccumulator(
                "int64", (), "sum", name="filled", **options
            )
            self.put = [grads.apply_grad(np.int64(n), np.int64(9)) for n in (1, 2)]
            self.take = {n: grads.take_grad(n) for n in (1, 2, 3)}


class Sparse:
    """A sparse accumulator."""

    kind = "sparse accumulator"

    def __init__(self, **options: Any) -> None:
        with af.Graph() as self.graph:
            self.filled = grads = af.state.SparseConditionalAccumulator(
                "int64", (9,), "sum", name="filled", **options
            )
            rows = [af.IndexedSlices(np.array([n]), np.array([n]), (9,)) for n in (1, 2)]
            self.put = [grads.apply_grad(each, np.int64(9)) for each in rows]
            self.take = {n: grads.take_grad(n).values for n in (1, 2, 3)}


KINDS: list[Callable[..., Any]] = [Tuples, Dense, Sparse]
each_kind = pytest.mark.parametrize("made", KINDS)


async def starved(session: af.Session, fetch: Any) -> tuple[errors.QueueStarved, float]:
    now = asyncio.get_running_loop().time
    since = now()
    with pytest.raises(errors.QueueStarved) as caught:
        await session.run(fetch)
    return caught.value, now() - since


@each_kind
def test_a_take_that_nobody_would_serve_fails_and_says_what_would(made: Callable[..., Any]) -> None:
    m = made()

    error, seconds = run(m.graph, lambda session: starved(session, m.take[1]))

    by = ", ".join(f"{put.node.name!r} ({put.node.where.defined_at})" for put in m.put)
    assert error.what == (
        f"{m.kind} 'filled' has been empty for 5 s and no step that runs would fill it; it is filled by {by}"
    )
    assert error.where is not None and error.where.node == m.take[1].node.name
    variable = m.kind.split()[-1]
    assert error.hint is not None and error.hint.endswith(f"with af.state.producing(session, {variable})")
    assert seconds == pytest.approx(5, abs=0.02)


@pytest.mark.parametrize(
    ("made", "first", "said"),
    [
        (Tuples, 1, "complete tuples (0, and 2 incomplete)"),
        (Tuples, 2, "complete tuples (1, and 1 incomplete)"),
        (Dense, 1, "gradients (1)"),
        (Sparse, 1, "gradients (1)"),
    ],
)
def test_one_that_has_too_few_says_how_many(made: Callable[..., Any], first: int, said: str) -> None:
    m = made()

    async def body(session: af.Session) -> Any:
        await session.run(m.put[:first])
        return await starved(session, m.take[2])

    error, _ = run(m.graph, body)

    assert f"'filled' has had too few {said} for 5 s" in error.what


@each_kind
def test_when_the_first_of_the_line_starves_the_next_goes_on(made: Callable[..., Any]) -> None:
    m = made()

    async def body(session: af.Session) -> Any:
        await session.run(m.put[:2])
        starving = asyncio.create_task(starved(session, m.take[max(m.take)]))
        await asyncio.sleep(1)
        behind = asyncio.create_task(session.run(m.take[1]))
        await asyncio.sleep(1)
        assert not behind.done()
        _, seconds = await starving
        await behind
        return seconds

    assert run(m.graph, body) == pytest.approx(5, abs=0.02)


@each_kind
def test_nobody_starves_while_code_says_that_it_fills(made: Callable[..., Any]) -> None:
    m = made()

    async def body(session: af.Session) -> Any:
        taking = asyncio.create_task(session.run(m.take[1]))
        with af.state.producing(session, m.filled):
            await asyncio.sleep(3600)
            await session.run(m.put[:2])
        await taking

    run(m.graph, body)


@each_kind
def test_a_step_that_would_put_something_in_counts_while_it_runs(made: Callable[..., Any]) -> None:
    m = made()
    with m.graph:
        gate = af.state.FIFOQueue(1, "int64", (), name="gate")
        slow = [*m.put[:2], gate.dequeue()]
        opened = gate.enqueue(np.int64(1))

    async def body(session: af.Session) -> Any:
        putting = asyncio.create_task(session.run(slow))
        with af.state.producing(session, gate):
            await asyncio.sleep(1)
            await session.run(m.take[1])
            taking = asyncio.create_task(starved(session, m.take[max(m.take)]))
            await asyncio.sleep(20)
            await session.run(opened)
            await putting
        return (await taking)[1]

    assert run(m.graph, body) == pytest.approx(25, abs=0.05)


@each_kind
def test_a_take_that_is_served_cancelled_or_in_time_starves_nobody_later(made: Callable[..., Any]) -> None:
    m = made()

    async def body(session: af.Session) -> Any:
        cancelled = asyncio.create_task(session.run(m.take[1]))
        await asyncio.sleep(2)
        cancelled.cancel()
        await asyncio.wait([cancelled])
        taking = asyncio.create_task(session.run(m.take[1]))
        await asyncio.sleep(4)
        await session.run(m.put[:2])
        await taking
        await asyncio.sleep(50)

    run(m.graph, body)


@each_kind
def test_without_a_limit_a_take_waits_for_ever(made: Callable[..., Any]) -> None:
    m = made()

    async def body(session: af.Session) -> Any:
        taking = asyncio.create_task(session.run(m.take[1]))
        await asyncio.sleep(80_000)
        await session.run(m.put[:2])
        await taking

    run(m.graph, body, starvation_s=None)


@each_kind
def test_what_is_shared_with_other_sessions_does_not_starve(made: Callable[..., Any]) -> None:
    m = made(shared_name="everybody's")

    async def body(session: af.Session) -> Any:
        taking = asyncio.create_task(session.run(m.take[1]))
        await asyncio.sleep(1000)
        assert not taking.done()
        taking.cancel()
        await asyncio.wait([taking])

    run(m.graph, body)


def test_what_a_failed_step_gives_back_feeds_who_waits() -> None:
    m = Tuples()
    with m.graph:
        broken = af.gather(m.filled.take_many(1).components[0], [99])

    async def body(session: af.Session) -> Any:
        failing = asyncio.create_task(session.run(broken))
        taking = asyncio.create_task(session.run(m.take[1]))
        await asyncio.sleep(4)
        await session.run(m.put[:2])
        with pytest.raises(errors.KernelError):
            await failing
        await taking
        await asyncio.sleep(50)

    run(m.graph, body)


def test_a_feeder_that_runs_what_fills_a_queue_and_a_barrier_ends_the_queue_alone() -> None:
    m = Tuples()
    with m.graph:
        numbers = af.state.FIFOQueue(4, "int64", (), name="numbers")
        done = af.state.FIFOQueue(4, "int64", (), name="done")
        n = numbers.dequeue()
        put = m.filled.insert_many(0, [b"k"], af.reshape(n, (1,)))
        with af.control_dependencies([put]):
            both = done.enqueue(n)
        more = m.filled.insert_many(1, [b"k"], np.arange(1))
        take_done = done.dequeue()

    async def body(session: af.Session) -> Any:
        async with af.state.QueueRunner(session) as feeder:
            feeder.feed(numbers, [7])
            feeder.run(both)
            assert int(await session.run(take_done)) == 7
            with pytest.raises(errors.OutOfRange):
                await session.run(take_done)
        await session.run(more)
        return (await session.run(m.take[1])).tolist()

    assert run(m.graph, body) == [b"k"]


def test_a_feeder_does_not_run_what_fills_no_queue() -> None:
    m = Dense()

    async def body(session: af.Session) -> None:
        async with af.state.QueueRunner(session) as feeder:
            with pytest.raises(errors.GraphError, match="a runner runs an op that fills a queue"):
                feeder.run(m.put[0])

    run(m.graph, body)
