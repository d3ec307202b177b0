"""Elements on their way into queues of every kind, and into those that refuse them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import actorflow as af
from actorflow import errors
from tests.support.sessions import run
from tests.training.test_queue_runner import drained


def test_a_priority_queue_gives_what_came_in_by_its_priority() -> None:
    with af.Graph() as graph:
        queue = af.state.PriorityQueue(8, ["int64", "float32"], [(), ()])
        take = queue.dequeue()

    async def body(session: af.Session) -> Any:
        async with af.state.QueueRunner(session) as feeder:
            feeder.feed(queue, [(3, 1.0), (1, 2.0), (2, 3.0)], batch=3)
            await feeder.join()
            return [[float(v) for v in await session.run(take)] for _ in range(3)]

    assert run(graph, body) == [[1, 2], [2, 3], [3, 1]]


def test_elements_of_different_sizes_are_padded_by_their_queue() -> None:
    with af.Graph() as graph:
        queue = af.state.PaddingFIFOQueue(8, ["float32"], [(None,)])
        take = queue.dequeue_many(2)

    async def body(session: af.Session) -> Any:
        async with af.state.QueueRunner(session) as feeder:
            feeder.feed(queue, [[1], np.ones(3, "float32")], batch=2)
            return (await session.run(take)).tolist()

    assert run(graph, body) == [[1, 0, 0], [1, 1, 1]]


def test_a_shuffled_queue_gives_all_once_it_has_been_fed() -> None:
    with af.Graph() as graph:
        queue = af.state.RandomShuffleQueue(8, 4, "int64", ())
        take = queue.dequeue()

    async def body(session: af.Session) -> Any:
        async with af.state.QueueRunner(session) as feeder:
            feeder.feed(queue, np.arange(20), batch=3)
            return await drained(session, take)

    got, error = run(graph, body)

    assert sorted(got) == list(range(20))
    assert type(error) is errors.OutOfRange


@pytest.mark.parametrize(
    ("batch", "which"),
    [(1, "element 1 of"), (3, "one of the elements 0 to 2 of")],
    ids=["one by one", "many"],
)
def test_an_element_that_the_queue_refuses_is_named(batch: int, which: str) -> None:
    with af.Graph() as graph:
        queue = af.state.FIFOQueue(8, "bytes", (), name="texts", max_bytes=10)
        take = queue.dequeue()
    seen = []

    async def body(session: af.Session) -> None:
        async with af.state.QueueRunner(session) as feeder:
            feeder.feed(queue, [b"short", b"far too long", b"last"], batch=batch)
            seen.append(await drained(session, take))

    with pytest.raises(ExceptionGroup) as caught:
        run(graph, body)

    (raised,) = caught.value.exceptions
    ((got, error),) = seen
    assert got == ([b"short"] if batch == 1 else [])
    assert error.what.startswith(f"{which} what feeds queue 'texts': ")
    assert type(error) is type(raised) is errors.StateError
    assert "test_iterable_source.py" in str(error.where)


def test_a_pipeline_feeds_a_queue_and_its_error_names_the_element() -> None:
    with af.Graph() as graph:
        queue = af.state.FIFOQueue(4, ["float32", "int64"], [(2,), ()], names=["x", "y"])
        take = queue.dequeue()["y"]

    def refusing(element: Any) -> Any:
        if element["y"] == 5:
            message = "no"
            raise ValueError(message)
        return element

    pairs = {"x": np.zeros((8, 2), "float32"), "y": np.arange(8)}
    pipeline = af.data.arrays(pairs).map(refusing).prefetch(2)
    seen = []

    async def body(session: af.Session) -> None:
        async with af.state.QueueRunner(session) as feeder:
            feeder.feed(queue, pipeline, batch=2)
            seen.append(await drained(session, take))

    with pytest.raises(ExceptionGroup) as caught:
        run(graph, body)

    ((got, error),) = seen
    (raised,) = caught.value.exceptions
    assert got == [0, 1, 2, 3, 4]
    assert type(error) is type(raised) is errors.InputError
    assert error.what == "map 'refusing' failed at element 5 of epoch 0: ValueError: no"
