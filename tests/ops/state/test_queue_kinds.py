"""The kinds of queue as they are built: what each takes, says and refuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import actorflow.ops as af
from actorflow.errors import GraphError, SpecError
from actorflow.graph.graph import Graph
from actorflow.graph.resource import PaddingQueueDef, PriorityQueueDef, QueueDef, ShuffleQueueDef
from actorflow.graph.serial import from_data, to_data
from actorflow.ops.state.queue import Queue
from actorflow.values.spec import spec

KINDS: list[tuple[Callable[..., Queue], type[QueueDef]]] = [
    (lambda **options: af.FIFOQueue(8, ["int64", "float32"], [(), (2,)], **options), QueueDef),
    (
        lambda **options: af.RandomShuffleQueue(8, 2, ["int64", "float32"], [(), (2,)], **options),
        ShuffleQueueDef,
    ),
    (lambda **options: af.PriorityQueue(8, ["int64", "float32"], [(), (2,)], **options), PriorityQueueDef),
    (lambda **options: af.PaddingFIFOQueue(8, ["int64", "float32"], [(), (2,)], **options), PaddingQueueDef),
]


@pytest.mark.parametrize(("make", "kind"), KINDS)
def test_every_kind_has_the_same_verbs_names_and_specs(make: Any, kind: type[QueueDef]) -> None:
    with Graph() as graph:
        queue = make(names=["n", "v"], max_bytes=100)
        put = queue.enqueue({"n": 1, "v": np.zeros(2, "float32")})
        taken = queue.dequeue_many(3)

    definition = graph.resources["queue"]
    assert type(definition) is kind
    assert (queue.capacity, queue.max_bytes, queue.name) == (8, 100, "queue")
    assert put.node.name == "queue/enqueue"
    assert {name: str(t.spec) for name, t in taken.items()} == {"n": "(3,) int64", "v": "(3, 2) float32"}


@pytest.mark.parametrize(("make", "kind"), KINDS)
def test_every_kind_can_be_written_and_read(make: Any, kind: type[QueueDef]) -> None:
    with Graph() as graph:
        make().dequeue_many(2)

    assert from_data(*to_data(graph)).resources == graph.resources


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: af.FIFOQueue(8, "int64", ()), "queue of [() int64], at most 8"),
        (lambda: af.FIFOQueue(None, "int64", (), max_bytes=64), "queue of [() int64], at most 64 bytes"),
        (lambda: af.RandomShuffleQueue(8, 2, "int64", ()), "shuffle queue of [() int64], at most 8, 2 stay"),
        (lambda: af.PriorityQueue(8, "int64"), "priority queue of [() int64], at most 8"),
        (lambda: af.PaddingFIFOQueue(8, "int64", (None,)), "padding queue of [(None,) int64], at most 8"),
    ],
)
def test_a_definition_tells_the_kind_and_the_limits(make: Callable[[], Queue], told: str) -> None:
    with Graph():
        assert make().definition.description == told


def test_a_queue_shows_its_limits() -> None:
    with Graph():
        assert repr(af.FIFOQueue(8, "int64", (), max_bytes=64)) == (
            "<FIFOQueue queue of () int64, capacity 8, max_bytes 64>"
        )
        assert repr(af.RandomShuffleQueue(8, 2, "int64", ())) == (
            "<RandomShuffleQueue queue_1 of () int64, capacity 8, min_after_dequeue 2>"
        )


def test_a_seed_comes_from_the_graph_or_from_the_user() -> None:
    def seeds(graph_seed: int, *given: int | None) -> list[int]:
        with Graph(seed=graph_seed) as graph:
            for seed in given:
                af.RandomShuffleQueue(8, 2, "int64", (), seed=seed)
        return [r.seed for r in graph.resources.values() if isinstance(r, ShuffleQueueDef)]

    first, second = seeds(1, None, None)

    assert first != second, "two queues draw independently"
    assert seeds(1, None, None) == [first, second], "and the same when the graph is built again"
    assert first not in seeds(2, None, None)
    assert len(set(seeds(1, 7, 7))) == 1
    assert seeds(1, 7) != seeds(1, 8)


def test_a_priority_is_a_scalar_even_where_no_shapes_are_given() -> None:
    with Graph():
        queue = af.PriorityQueue(8, ["int64", "bytes"])

    assert [str(c) for c in queue.components] == ["() int64", "(...) bytes"]


def test_padded_batches_have_sizes_that_are_not_known() -> None:
    with Graph():
        queue = af.PaddingFIFOQueue(8, ["int32", "bytes"], [(None, 3), ()])

        assert [str(t.spec) for t in queue.dequeue_many(4)] == ["(4, None, 3) int32", "(4,) bytes"]
        assert [str(t.spec) for t in queue.dequeue_up_to(4)] == ["(None, None, 3) int32", "(None,) bytes"]
        assert [str(t.spec) for t in queue.dequeue()] == ["(None, 3) int32", "() bytes"]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: af.FIFOQueue(8, "float32", (), max_bytes=0),
            "whole number of bytes, at least 1, got max_bytes 0",
        ),
        (lambda: af.FIFOQueue(8, "float32", (), max_bytes=True), "got max_bytes True"),
        (lambda: af.FIFOQueue(8, "float32", (), max_bytes=1.5), "got max_bytes 1.5"),  # type: ignore[arg-type]
        (lambda: af.FIFOQueue(8, "float32", (2,), max_bytes=7), "each has 8 bytes or more, got max_bytes 7"),
        (
            lambda: af.FIFOQueue(8, ["float32", "float32"], [(2,), (None,)], max_bytes=7),
            "each has 8 bytes or more",
        ),
        (lambda: af.FIFOQueue(-1, "float32"), "at least one element, got capacity -1"),
        (lambda: af.RandomShuffleQueue(8, 8, "float32"), "below the capacity, got 8 of 8: a full queue"),
        (lambda: af.RandomShuffleQueue(8, -1, "float32"), "0 or more, got -1"),
        (lambda: af.RandomShuffleQueue(8, True, "float32"), "0 or more, got True"),
        (lambda: af.RandomShuffleQueue(8, "float32", ()), "0 or more, got 'float32'"),  # type: ignore[arg-type]
        (lambda: af.RandomShuffleQueue(8, 2, "float32", seed=True), "a seed is an integer, got True"),
        (lambda: af.RandomShuffleQueue(8, 2, "float32", seed="1"), "got '1'"),  # type: ignore[arg-type]
        (lambda: af.RandomShuffleQueue(0, 0, "float32"), "at least one element, got capacity 0"),
        (lambda: af.PriorityQueue(8, "float32", ()), r"the priority, \(\) int64, got \(\) float32"),
        (lambda: af.PriorityQueue(8, ["int64"], [(2,)]), r"the priority, \(\) int64, got \(2,\) int64"),
        (lambda: af.PriorityQueue(8, ["float32", "int64"], [(), ()]), "component 0 of a priority queue"),
        (lambda: af.PriorityQueue(8, []), "the priority, .* got no component"),
        (lambda: af.PaddingFIFOQueue(8, "float32", None), "a shape for each component, got \\(...\\)"),
        (
            lambda: af.PaddingFIFOQueue(8, ["float32", "int8"], [(None,), None]),
            r"a shape for each component, got \(None,\), \(...\)",
        ),
    ],
)
def test_a_queue_that_cannot_be_is_refused_at_the_user_s_line(make: Any, message: str) -> None:
    with Graph(), pytest.raises(SpecError, match=message) as caught:
        make()

    assert "test_queue_kinds.py:" in str(caught.value)


@pytest.mark.parametrize("name", ["FIFOQueue", "RandomShuffleQueue", "PriorityQueue", "PaddingFIFOQueue"])
def test_minus_one_is_no_way_to_say_no_limit(name: str) -> None:
    """It is TensorFlow's."""
    arguments: Any = (0, "int64", ()) if name == "RandomShuffleQueue" else ("int64", ())
    with Graph():
        assert getattr(af, name)(None, *arguments).capacity is None
        for given in ((-1, {}), (None, {"max_bytes": -1})):
            with pytest.raises(SpecError, match="got (capacity|max_bytes) -1") as caught:
                getattr(af, name)(given[0], *arguments, **given[1])
            assert caught.value.hint == "None is no limit"


def test_a_limit_that_the_smallest_element_meets_is_taken() -> None:
    with Graph():
        assert af.FIFOQueue(8, "float32", (2,), max_bytes=8).max_bytes == 8
        assert af.FIFOQueue(8, "bytes", (2,), max_bytes=1).components == (spec("bytes", (2,)),)


@pytest.mark.parametrize(
    ("make", "field", "value", "message"),
    [
        (
            lambda: af.RandomShuffleQueue(8, 2, "int64", ()),
            "min_after_dequeue",
            8,
            "keeps 8 elements of at most 8",
        ),
        (lambda: af.RandomShuffleQueue(8, 2, "int64", ()), "min_after_dequeue", -1, "keeps -1 elements"),
        (lambda: af.PriorityQueue(8, "int64", ()), "components", [[[2], "int64"]], "must be \\(\\) int64"),
        (lambda: af.PriorityQueue(8, "int64", ()), "components", [], "must be \\(\\) int64"),
    ],
)
def test_a_definition_that_was_tampered_with_is_refused(
    make: Any, field: str, value: Any, message: str
) -> None:
    with Graph() as graph:
        make()
    data, constants = to_data(graph)
    data["resources"][0][field] = value

    with pytest.raises(GraphError, match=message):
        from_data(data, constants)


def test_limits_may_be_numbers_of_numpy() -> None:
    with Graph():
        given: list[Any] = [np.int64(8), np.int32(2), np.int8(3), np.uint8(64)]
        capacity, least, seed, max_bytes = given
        queue = af.RandomShuffleQueue(capacity, least, "int64", (), seed=seed, max_bytes=max_bytes)
        same = af.RandomShuffleQueue(8, 2, "int64", (), seed=3)

    found = (queue.capacity, queue.min_after_dequeue, queue.max_bytes)
    assert found == (8, 2, 64)
    assert all(type(each) is int for each in found)
    seeds = [each.definition for each in (queue, same)]
    assert isinstance(seeds[0], ShuffleQueueDef)
    assert isinstance(seeds[1], ShuffleQueueDef)
    assert seeds[0].seed == seeds[1].seed
