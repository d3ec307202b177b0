"""Queues in steps: elements as tensors, waiting steps, closing, and backpressure."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

import actorflow as af
from actorflow import errors
from tests.support.sessions import run


class Pairs:
    """A queue of (number, vector of two), and its ops."""

    def __init__(self, capacity: int | None = 3) -> None:
        with af.Graph() as self.graph:
            self.queue = af.state.FIFOQueue(capacity, ["int32", "float32"], [(), (2,)], name="pairs")
            self.n = af.placeholder("int32", (), name="n")
            self.v = af.placeholder("float32", (2,), name="v")
            self.ns = af.placeholder("int32", (None,), name="ns")
            self.vs = af.placeholder("float32", (None, 2), name="vs")
            self.put = self.queue.enqueue([self.n, self.v])
            self.put_many = self.queue.enqueue_many([self.ns, self.vs])
            self.take = self.queue.dequeue()
            self.take_two = self.queue.dequeue_many(2)
            self.take_up_to = self.queue.dequeue_up_to(5)
            self.size = self.queue.size()
            self.close = self.queue.close()
            self.cancel = self.queue.close(cancel_pending_enqueues=True)

    def one(self, k: int) -> Any:
        return {self.n: np.int32(k), self.v: np.full(2, k, "float32")}

    def many(self, n: int) -> Any:
        return {self.ns: np.arange(n, dtype="int32"), self.vs: np.zeros((n, 2), "float32")}


def test_components_come_out_together_and_in_order() -> None:
    q = Pairs()

    async def body(session: af.Session) -> Any:
        assert await session.run(q.put, q.one(1)) == True  # noqa: E712  a numpy bool
        await session.run(q.put, q.one(2))
        size = await session.run(q.size)
        first = await session.run(q.take)
        return size, first, await session.run(q.size)

    size, (n, v), left = run(q.graph, body)

    assert (size, n, v.tolist(), left) == (2, 1, [1, 1], 1)


def test_many_elements_are_stacked() -> None:
    q = Pairs(None)

    async def body(session: af.Session) -> Any:
        await session.run(q.put_many, q.many(4))
        two = await session.run(q.take_two)
        await session.run(q.close)
        rest = await session.run(q.take_up_to)
        return two, rest

    (ns, vs), (rest, _) = run(q.graph, body)

    assert ns.tolist() == [0, 1]
    assert vs.shape == (2, 2)
    assert rest.tolist() == [2, 3]


def test_an_enqueue_waits_for_room_and_a_dequeue_for_an_element() -> None:
    q = Pairs(1)

    async def body(session: af.Session) -> Any:
        taking = asyncio.create_task(session.run(q.take))
        await asyncio.sleep(0.005)
        assert not taking.done()
        await session.run(q.put, q.one(1))
        await taking
        await session.run(q.put, q.one(2))
        waiting = asyncio.create_task(session.run(q.put, q.one(3)))
        await asyncio.sleep(0.005)
        assert not waiting.done()
        taken = [int((await session.run(q.take))[0]) for _ in range(2)]
        await waiting
        return taken

    assert run(q.graph, body) == [2, 3]


def test_a_closed_queue_refuses_enqueues_and_runs_dry_with_its_name() -> None:
    q = Pairs()

    async def body(session: af.Session) -> Any:
        await session.run(q.close)
        with pytest.raises(errors.QueueClosed) as put:
            await session.run(q.put, q.one(1))
        with pytest.raises(errors.OutOfRange) as take:
            await session.run(q.take)
        return put.value, take.value

    put, take = run(q.graph, body)

    line = q.put.node.defined_at
    assert str(put) == (
        "queue 'pairs' is closed\n"
        f"  where: node pairs/enqueue, op queue_enqueue, step 2, device /cpu:0, defined at {line}\n"
        "  try:   enqueue before closing it"
    )
    assert take.what == "queue 'pairs' is closed and has insufficient elements (requested 1, current size 0)"


def test_closing_with_cancel_fails_the_enqueues_that_wait() -> None:
    q = Pairs(1)

    async def body(session: af.Session) -> Any:
        await session.run(q.put, q.one(1))
        waiting = asyncio.create_task(session.run(q.put, q.one(2)))
        await asyncio.sleep(0.005)
        await session.run(q.cancel)
        with pytest.raises(errors.QueueClosed, match="the enqueue was cancelled: queue 'pairs' was closed"):
            await waiting
        return int((await session.run(q.take))[0])

    assert run(q.graph, body) == 1


def test_an_element_that_does_not_fit_is_refused_and_nothing_is_lost() -> None:
    with af.Graph() as graph:
        queue = af.state.FIFOQueue(3, "float32", [(None,)], name="q")
        x = af.placeholder("float32", name="x", shape=None)
        put, size = queue.enqueue(x), queue.size()

    async def body(session: af.Session) -> Any:
        await session.run(put, {x: np.zeros(3, "float32")})
        with pytest.raises(
            errors.SpecError, match=r"component 0 of queue 'q' must be \(None,\) float32, got \(\)"
        ):
            await session.run(put, {x: np.float32(1)})
        return await session.run(size)

    assert run(graph, body) == 1


def test_elements_are_the_queue_s_own_copies() -> None:
    with af.Graph() as graph:
        queue = af.state.FIFOQueue(4, "float32", (2,), name="q")
        x = af.placeholder("float32", (2,), name="x")
        xs = af.placeholder("float32", (None, 2), name="xs")
        y = x * 2.0
        put, put_many = queue.enqueue(x), queue.enqueue_many(xs)
        both, take = [y, queue.enqueue(y)], queue.dequeue()

    async def body(session: af.Session) -> Any:
        buffer = np.ones(2, "float32")
        await session.run(put, {x: buffer})
        buffer[:] = 9
        batch = np.full((1, 2), 3, "float32")
        await session.run(put_many, {xs: batch})
        batch[:] = 9
        fetched, _ = await session.run(both, {x: np.ones(2, "float32")})
        fetched *= 50
        return [(await session.run(take)).tolist() for _ in range(3)]

    assert run(graph, body) == [[1, 1], [3, 3], [2, 2]]


def test_a_batch_without_a_first_axis_is_refused() -> None:
    with af.Graph() as graph:
        queue = af.state.FIFOQueue(4, "float32", (), name="q")
        x = af.placeholder("float32", None, name="x")
        put = queue.enqueue_many(x)

    with pytest.raises(errors.SpecError, match="enqueue_many of queue 'q' takes batches, got a scalar"):
        run(graph, lambda s: s.run(put, {x: np.float32(1)}))


def test_backpressure_holds_a_fast_producer() -> None:
    q = Pairs(2)

    async def body(session: af.Session) -> Any:
        async def produce() -> None:
            for k in range(50):
                await session.run(q.put, q.one(k))

        producing = asyncio.create_task(produce())
        seen = []
        for _ in range(50):
            seen.append(int(await session.run(q.size)))
            await session.run(q.take)
        await producing
        return max(seen)

    assert run(q.graph, body) <= 2


def owned(value: Any) -> int:
    """The bytes that an array keeps alive."""
    while value.base is not None:
        value = value.base
    return int(value.nbytes)


@pytest.mark.parametrize("dtype", ["float32", "bytes"])
def test_an_element_of_a_batch_keeps_nothing_of_the_others_alive(dtype: str) -> None:
    with af.Graph() as graph:
        queue = af.state.FIFOQueue(None, dtype, (3,))
        batch = af.placeholder(dtype, (None, 3))
        put, take = queue.enqueue_many(batch), queue.dequeue()
    given = np.zeros((100, 3), "float32") if dtype == "float32" else np.full((100, 3), b"text", object)

    async def body(session: af.Session) -> Any:
        await session.run(put, {batch: given})
        return await session.run(take)

    row = run(graph, body)

    assert owned(row) == row.nbytes
    assert row.tolist() == given[0].tolist()


def test_who_waits_for_an_element_when_the_queue_is_stopped_hears_that_and_no_end_of_the_data() -> None:
    q = Pairs(1)

    async def body(session: af.Session) -> None:
        taking = [asyncio.create_task(session.run(op)) for op in (q.take, q.take_two, q.take_up_to)]
        await asyncio.sleep(0.005)
        (ref,) = session.resources.refs.values()
        ref.stop()
        for waiting in taking:
            with pytest.raises(errors.ActorDied, match="queue 'pairs' was stopped before it could answer"):
                await waiting

    run(q.graph, body)


def test_who_waits_for_room_when_the_queue_is_stopped_hears_that() -> None:
    q = Pairs(1)

    async def body(session: af.Session) -> None:
        await session.run(q.put, q.one(1))
        putting = [asyncio.create_task(session.run(q.put, q.one(2))) for _ in range(2)]
        closing = asyncio.create_task(session.run(q.close))
        await asyncio.sleep(0.005)
        (ref,) = session.resources.refs.values()
        ref.stop()
        for waiting in (*putting, closing):
            with pytest.raises(errors.ActorDied, match="queue 'pairs' was stopped before it could answer"):
                await waiting

    run(q.graph, body)
