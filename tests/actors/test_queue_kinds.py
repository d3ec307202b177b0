"""Each kind of queue in steps: what comes out next, batches, limits in bytes, and ends by an error."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import actorflow as af
from actorflow import errors
from actorflow.dataflow.state import queue as actor
from actorflow.plan.program import Holder, Holding
from tests.support.sessions import run


class Fed:
    """A queue of one or more components, and its ops; elements are fed."""

    def __init__(self, make: Callable[[], Any], graph_seed: int = 0) -> None:
        with af.Graph(seed=graph_seed) as self.graph:
            self.queue = make()
            self.one = [af.placeholder(c.dtype, c.shape) for c in self.queue.components]
            self.batch = [
                af.placeholder(c.dtype, None if c.shape is None else (None, *c.shape))
                for c in self.queue.components
            ]
            self.put, self.put_many = (
                self.queue.enqueue(tuple(self.one)),
                self.queue.enqueue_many(tuple(self.batch)),
            )
            self.take, self.size, self.close = self.queue.dequeue(), self.queue.size(), self.queue.close()

    async def give(self, session: af.Session, *values: Any) -> None:
        await session.run(self.put, dict(zip(self.one, values, strict=True)))

    async def give_many(self, session: af.Session, *values: Any) -> None:
        await session.run(self.put_many, dict(zip(self.batch, values, strict=True)))


async def fail(session: af.Session, error: BaseException) -> None:
    """What tells a queue that no more elements will come."""
    await session.resources.find(Holder(Holding.RESOURCE, "q")).tell(actor.Fail(error))


# -- at random -------------------------------------------------------------------------------------


def shuffled(seed: int | None = None, graph_seed: int = 0) -> list[int]:
    q = Fed(lambda: af.state.RandomShuffleQueue(None, 0, "int64", (), seed=seed, name="q"), graph_seed)

    async def body(session: af.Session) -> Any:
        await q.give_many(session, np.arange(40))
        return [int(await session.run(q.take)) for _ in range(40)]

    order: list[int] = run(q.graph, body)
    return order


def test_a_shuffle_queue_gives_every_element_once_in_an_order_of_its_seed() -> None:
    order = shuffled()

    assert sorted(order) == list(range(40)) != order
    assert shuffled() == order, "the same in every session"
    assert order not in (shuffled(graph_seed=1), shuffled(seed=1))
    assert shuffled(seed=1) == shuffled(seed=1)


def test_a_shuffle_queue_keeps_some_until_it_is_closed() -> None:
    q = Fed(lambda: af.state.RandomShuffleQueue(8, 2, "int64", (), name="q"))

    async def body(session: af.Session) -> Any:
        await q.give_many(session, np.arange(3))
        first = int(await session.run(q.take))
        waiting = asyncio.create_task(session.run(q.take))
        await asyncio.sleep(0.01)
        assert not waiting.done()
        await session.run(q.close)
        return [first, int(await waiting), int(await session.run(q.take))]

    assert sorted(run(q.graph, body)) == [0, 1, 2]


# -- by priority -----------------------------------------------------------------------------------


def test_a_priority_queue_gives_the_smallest_first_with_its_priority() -> None:
    q = Fed(lambda: af.state.PriorityQueue(None, ["int64", "bytes"], [(), ()], name="q"))
    with q.graph:
        three = q.queue.dequeue_many(3)

    async def body(session: af.Session) -> Any:
        for priority, text in ((3, b"c"), (-(2**62), b"first"), (3, b"d"), (1, b"b")):
            await q.give(session, np.int64(priority), text)
        first = await session.run(q.take)
        return first, await session.run(three)

    (priority, text), (priorities, texts) = run(q.graph, body)

    assert (priority, text) == (-(2**62), b"first")
    assert priorities.tolist() == [1, 3, 3]
    assert texts.tolist() == [b"b", b"c", b"d"]


# -- padded ----------------------------------------------------------------------------------------


def padded() -> Fed:
    return Fed(
        lambda: af.state.PaddingFIFOQueue(
            None, ["int32", "bytes", "bool"], [(None, 2), (None,), ()], name="q"
        )
    )


def test_a_padded_batch_is_filled_up_to_its_longest_elements() -> None:
    q = padded()
    with q.graph:
        two, rest = q.queue.dequeue_many(2), q.queue.dequeue_up_to(9)

    async def body(session: af.Session) -> Any:
        for n in (1, 2, 3):
            text = np.array([b"x"] * (3 - n), object)
            await q.give(session, np.full((n, 2), n, "int32"), text, np.bool_(True))
        first = await session.run(two)
        await session.run(q.close)
        return first, await session.run(rest)

    (numbers, texts, flags), (last, _, _) = run(q.graph, body)

    assert numbers.tolist() == [[[1, 1], [0, 0]], [[2, 2], [2, 2]]]
    assert texts.tolist() == [[b"x", b"x"], [b"x", b""]]
    assert flags.tolist() == [True, True]
    assert last.shape == (1, 3, 2)


def test_a_padded_batch_of_nothing_is_empty() -> None:
    q = padded()
    with q.graph:
        none = q.queue.dequeue_many(0)

    numbers, texts, flags = run(q.graph, lambda session: session.run(none))

    assert (numbers.shape, texts.shape, flags.shape) == ((0, 0, 2), (0, 0), (0,))


@pytest.mark.parametrize("closed", [False, True])
@pytest.mark.parametrize("verb", ["dequeue_many", "dequeue_up_to"])
def test_nothing_is_taken_at_once_from_an_empty_queue_too(verb: str, closed: bool) -> None:
    with af.Graph() as graph:
        queue = af.state.RandomShuffleQueue(3, 1, "int32", (2,))
        none, close = getattr(queue, verb)(0), queue.close()

    async def body(session: af.Session) -> Any:
        if closed:
            await session.run(close)
        return await session.run(none)

    assert run(graph, body).shape == (0, 2)


def test_a_padded_batch_too_large_for_memory_fails_its_step_and_loses_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    q = padded()
    with q.graph:
        two = q.queue.dequeue_many(2)

    def too_large(self: Any, elements: Any) -> Any:
        raise MemoryError("8 TiB")

    async def body(session: af.Session) -> Any:
        for n in (1, 2):
            await q.give(session, np.zeros((n, 2), "int32"), np.array([b""], object), np.bool_(True))
        with monkeypatch.context() as broken:
            broken.setattr(actor.QueueActor, "_stack_element", too_large)
            with pytest.raises(errors.KernelError, match="MemoryError: 8 TiB"):
                await session.run(two)
        return [len((await session.run(q.take))[0]) for _ in range(2)]

    assert run(q.graph, body) == [1, 2]


# -- limits in bytes -------------------------------------------------------------------------------


def test_an_enqueue_waits_until_its_bytes_fit() -> None:
    q = Fed(lambda: af.state.FIFOQueue(None, ["bytes", "float32"], [(), (2,)], max_bytes=20, name="q"))
    v = np.zeros(2, "float32")

    async def body(session: af.Session) -> Any:
        await q.give(session, b"12", v)
        await q.give(session, b"", v)
        waiting = asyncio.create_task(q.give(session, b"345", v))
        await asyncio.sleep(0.01)
        assert not waiting.done()
        assert int(await session.run(q.size)) == 2
        await session.run(q.take)
        await waiting
        return int(await session.run(q.size))

    assert run(q.graph, body) == 2


def test_an_element_larger_than_the_limit_says_both_sizes_and_where() -> None:
    q = Fed(lambda: af.state.FIFOQueue(None, "bytes", (), max_bytes=20, name="q"))

    async def body(session: af.Session) -> Any:
        with pytest.raises(errors.StateError) as one:
            await q.give(session, b"x" * 21)
        with pytest.raises(errors.StateError) as many:
            await q.give_many(session, np.array([b"1", b"x" * 21], object))
        return one.value, many.value, int(await session.run(q.size))

    one, many, size = run(q.graph, body)

    assert str(one) == (
        "an element for queue 'q' has 21 bytes, more than its limit 20\n"
        f"  where: node q/enqueue, op queue_enqueue, step 1, device /cpu:0, defined at {q.put.node.defined_at}\n"
        "  try:   raise max_bytes, or put in smaller elements"
    )
    assert many.what.startswith("row 1 of 2 for queue 'q' has 21 bytes")
    assert size == 0


def test_the_bytes_inside_never_exceed_the_limit() -> None:
    """A source of 200 elements of 64 KiB into a queue of four, by bytes, with a slow sink."""
    q = Fed(lambda: af.state.FIFOQueue(None, "uint8", (65536,), max_bytes=4 * 65536, name="q"))
    value = np.zeros(65536, "uint8")

    async def body(session: af.Session) -> Any:
        async def produce() -> None:
            for _ in range(200):
                await q.give(session, value)

        producing = asyncio.create_task(produce())
        for _ in range(200):
            await asyncio.sleep(0)
            await session.run(q.take)
        await producing
        ref: Any = session.resources.find(Holder(Holding.RESOURCE, "q"))
        lines = ref.receive.__self__.rule_state
        return lines.peak_bytes, lines.bytes

    peak, left = run(q.graph, body)

    assert 65536 <= peak <= 4 * 65536
    assert left == 0


# -- ends by an error ------------------------------------------------------------------------------


def test_consumers_drain_a_queue_that_failed_then_get_the_error_at_their_line() -> None:
    q = Fed(lambda: af.state.FIFOQueue(4, "int64", (), name="q"))
    cause = LookupError("gone")
    error = errors.StateError("element 7 of 'a.txt' cannot be read", hint="look at it")
    error.__cause__ = cause

    async def body(session: af.Session) -> Any:
        await q.give(session, np.int64(1))
        await fail(session, error)
        first = int(await session.run(q.take))
        caught = []
        for _ in range(2):
            with pytest.raises(errors.StateError) as taking:
                await session.run(q.take)
            caught.append(taking.value)
        with pytest.raises(errors.QueueClosed) as putting:
            await q.give(session, np.int64(2))
        return first, caught, putting.value

    first, (one, two), putting = run(q.graph, body)

    assert first == 1
    assert str(one) == (
        "element 7 of 'a.txt' cannot be read\n"
        f"  where: node q/dequeue, op queue_dequeue, step 3, device /cpu:0, defined at {q.take.node.defined_at}\n"
        "  try:   look at it"
    )
    assert one is not two
    assert one.__cause__ is cause
    assert putting.__cause__ is error


def test_those_who_wait_when_a_queue_fails_get_the_error() -> None:
    q = Fed(lambda: af.state.FIFOQueue(1, "int64", (), name="q"))

    async def body(session: af.Session) -> Any:
        taking = [asyncio.create_task(session.run(q.take)) for _ in range(2)]
        await asyncio.sleep(0.01)
        await fail(session, ZeroDivisionError("seven"))
        return await asyncio.gather(*taking, return_exceptions=True)

    for error in run(q.graph, body):
        assert isinstance(error, errors.StateError)
        assert error.what == "no more elements come into queue 'q': ZeroDivisionError: seven"
        assert isinstance(error.__cause__, ZeroDivisionError)
