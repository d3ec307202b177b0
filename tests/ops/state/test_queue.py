from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import actorflow.ops as af
from actorflow.errors import GraphError, SpecError
from actorflow.graph import opdef
from actorflow.graph.builder import name_scope
from actorflow.graph.graph import Graph
from actorflow.graph.opdef import Effect
from actorflow.graph.resource import QueueDef
from actorflow.values.spec import spec


def pair(**options: Any) -> af.FIFOQueue:
    return af.FIFOQueue(4, ["float32", "int32"], [(2, 3), ()], name="q", **options)


def test_queue_is_declared_under_its_scope() -> None:
    with Graph() as graph, name_scope("input"):
        queue = pair()

    definition = graph.resources["input/q"]
    assert isinstance(definition, QueueDef)
    assert definition.components == (spec("float32", (2, 3)), spec("int32"))
    assert (definition.capacity, queue.name) == (4, "input/q")
    assert repr(queue) == "<FIFOQueue input/q of (2, 3) float32, () int32, capacity 4>"


@pytest.mark.parametrize(
    ("dtypes", "shapes", "wanted"),
    [
        ("float32", None, ["(...) float32"]),
        ("float32", (), ["() float32"]),
        ("float32", (2, None), ["(2, None) float32"]),
        ("float32", [(2,)], ["(2,) float32"]),
        (["float32", "bool"], [(2,), None], ["(2,) float32", "(...) bool"]),
    ],
)
def test_components_come_from_dtypes_and_shapes(dtypes: Any, shapes: Any, wanted: list[str]) -> None:
    with Graph():
        assert [str(c) for c in af.FIFOQueue(None, dtypes, shapes).components] == wanted


def test_every_op_names_the_queue_and_what_it_holds() -> None:
    with Graph() as graph:
        queue = pair()
        start = len(graph)
        built = {
            "queue_enqueue": queue.enqueue((af.placeholder("float32", (2, None)), 1)),
            "queue_enqueue_many": queue.enqueue_many((af.placeholder("float32", (5, 2, 3)), [1] * 5)),
            "queue_dequeue": queue.dequeue()[0],
            "queue_dequeue_many": queue.dequeue_many(3)[0],
            "queue_dequeue_up_to": queue.dequeue_up_to(3)[0],
            "queue_size": queue.size(),
            "queue_close": queue.close(),
        }

    assert len(graph) > start
    for op, tensor in built.items():
        assert tensor.node.op == op
        assert opdef.lookup(op).effect is Effect.WAIT
        assert tensor.node.attrs["resource"] == "q"
        assert tensor.node.attrs["dtypes"] == ("float32", "int32")
        assert tensor.node.attrs["shapes"] == ((2, 3), ())
        assert tensor.node.name == f"q/{op.removeprefix('queue_')}"
    assert built["queue_close"].node.attrs["cancel_pending_enqueues"] is False
    assert [str(built[op].spec) for op in ("queue_enqueue", "queue_size", "queue_close")] == [
        "() bool",
        "() int64",
        "() bool",
    ]


def test_dequeues_know_what_they_give() -> None:
    with Graph():
        queue = pair()

        assert [str(t.spec) for t in queue.dequeue()] == ["(2, 3) float32", "() int32"]
        assert [str(t.spec) for t in queue.dequeue_many(5)] == ["(5, 2, 3) float32", "(5,) int32"]
        assert [str(t.spec) for t in queue.dequeue_up_to(5)] == ["(None, 2, 3) float32", "(None,) int32"]
        assert [str(t.spec) for t in queue.dequeue_many(0)] == ["(0, 2, 3) float32", "(0,) int32"]


def test_queue_of_one_component_takes_and_gives_tensors() -> None:
    with Graph():
        queue = af.FIFOQueue(4, "float32", (2,))
        queue.enqueue([1.0, 2.0])
        queue.enqueue(([1.0, 2.0],))

        assert str(queue.dequeue().spec) == "(2,) float32"


def test_names_make_dicts() -> None:
    with Graph():
        queue = pair(names=["image", "label"])
        put = queue.enqueue({"label": 1, "image": af.placeholder("float32", (2, 3), "image")})
        taken = queue.dequeue()

    assert put.node.inputs[0].node == 0
    assert {k: str(t.spec) for k, t in taken.items()} == {"image": "(2, 3) float32", "label": "() int32"}


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda q: q.enqueue((1.0,)), "has 2 components, got 1"),
        (lambda q: q.enqueue(1.0), "has 2 components, got float"),
        (
            lambda q: q.enqueue({"a": 1, "b": 2}),
            r"queue 'q' has no names, got an element by names: \['a', 'b'\]",
        ),
        (lambda q: q.enqueue(([1.0], 1)), r"component 0 of queue 'q' must fit \(2, 3\) float32"),
        (lambda q: q.enqueue_many((af.placeholder("float32", (4, 2, 3)), [1, 2])), "equal first sizes"),
        (lambda q: q.enqueue_many((af.placeholder("float32", (4, 2, 3)), 1)), "axis 0 to slice along"),
        (lambda q: q.enqueue_many((af.placeholder("float32", (4, 2)), [1] * 4)), "component 0 of a batch"),
        (lambda q: q.dequeue_many(-1), "an integer of at least 0, got -1"),
        (lambda q: q.dequeue_many(True), "from queue 'q' is an integer of at least 0, got True"),
        (lambda q: q.dequeue_up_to(2.5), "an integer of at least 0, got 2.5"),
        (
            lambda q: q.dequeue_many(af.constant(2)),
            "got <Tensor(.|\n)*it must be known while the graph is built",
        ),
        (lambda q: q.close("no"), "cancel_pending_enqueues is True or False, got 'no'"),
        (
            lambda q: q.enqueue((np.zeros((2, 3), "float32"), b"1")),
            "no int32 tensor can hold b'1'.*af.strings.to_number",
        ),
    ],
)
def test_use_that_does_not_fit_is_refused(use: Any, message: str) -> None:
    with Graph():
        queue = pair()

        with pytest.raises(SpecError, match=message) as caught:
            use(queue)
        assert "test_queue.py:" in str(caught.value)


def test_a_number_of_elements_may_be_one_of_numpy() -> None:
    with Graph():
        queue = pair()
        two: list[Any] = [np.int64(2), np.int32(2)]

        many, up_to = queue.dequeue_many(two[0]), queue.dequeue_up_to(two[1])

    assert [t.node.attrs["n"] for t in (many[0], up_to[0])] == [2, 2]
    assert many[0].spec.shape == (2, 2, 3)


@pytest.mark.parametrize("shape", [None, (2, None)])
def test_only_known_shapes_can_be_stacked(shape: Any) -> None:
    with Graph():
        queue = af.FIFOQueue(4, "float32", shape)
        queue.dequeue()

        with pytest.raises(SpecError, match="only components of known shape"):
            queue.dequeue_many(2)
        with pytest.raises(SpecError, match="only components of known shape"):
            queue.dequeue_up_to(2)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: af.FIFOQueue(0, "float32"), "at least one element, got capacity 0"),
        (lambda: af.FIFOQueue(1, []), "at least one component"),
        (lambda: af.FIFOQueue(1, ["float32", "int32"], [()]), "1 shapes for 2 dtypes"),
        (lambda: af.FIFOQueue(1, ["float32", "int32"], names=["a", "a"]), "a distinct name"),
        (lambda: af.FIFOQueue(True, "float32"), "got capacity True"),
        (lambda: af.FIFOQueue(1.5, "float32"), "got capacity 1.5"),  # type: ignore[arg-type]
        (lambda: af.FIFOQueue(3, [spec("bytes")]), "a dtype for each component, got Spec"),
        (lambda: af.FIFOQueue(3, [spec("bytes")]), "are two lists: FIFOQueue"),
        (lambda: af.FIFOQueue(3, None), "a dtype for each component, got None"),
        (lambda: af.FIFOQueue(3, "float32", 3), "a shape for each dtype, got 3"),  # type: ignore[arg-type]
        (lambda: af.FIFOQueue(3, ["float32", "int32"], names="ab"), "a list of texts, got 'ab'"),
        (lambda: af.FIFOQueue(3, "float32", names=[[]]), "a list of texts"),  # type: ignore[list-item]
        (lambda: af.FIFOQueue(3, "string"), "text is given as bytes"),
    ],
)
def test_queue_that_cannot_be_is_refused(make: Any, message: str) -> None:
    with Graph(), pytest.raises(SpecError, match=message):
        make()


def test_names_are_shared_with_variables() -> None:
    with Graph():
        af.Variable(1.0, name="q")

        with pytest.raises(GraphError, match="'q' is taken"):
            pair()


def test_queue_of_another_graph_is_refused() -> None:
    with Graph():
        queue = pair()

    with Graph(), pytest.raises(GraphError, match="belongs to another graph"):
        queue.size()


def test_elements_by_name_must_have_all_names() -> None:
    with Graph():
        queue = pair(names=["image", "label"])

        with pytest.raises(SpecError, match=r"the keys \['image', 'label'\], got \['image'\]"):
            queue.enqueue({"image": 1})


def test_a_queue_of_bytes_says_what_is_none() -> None:
    with Graph():
        queue = af.FIFOQueue(4, "bytes", ())

        with pytest.raises(SpecError) as caught:
            queue.enqueue(3)

    assert caught.value.what == (
        "no bytes tensor can hold 3: elements must be bytes, got int 3; "
        "af.strings.as_bytes makes bytes of a tensor of numbers"
    )


@pytest.mark.parametrize(
    "make", [lambda name: af.FIFOQueue(1, "float32", name=name), lambda name: af.Variable(1.0, name=name)]
)
@pytest.mark.parametrize("name", [3, "", b"q", True])
def test_the_name_of_a_resource_is_a_text(make: Any, name: Any) -> None:
    with Graph(), pytest.raises(GraphError, match=f"is a text and not empty, got {name!r}"):
        make(name)
