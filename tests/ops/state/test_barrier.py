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
from actorflow.graph.resource import BarrierDef
from actorflow.graph.serial import from_data, to_data
from actorflow.values.spec import spec


def pair(**options: Any) -> af.Barrier:
    return af.Barrier(["float32", "int32"], [(2, 3), ()], name="b", **options)


def test_barrier_is_declared_under_its_scope_and_survives_being_written() -> None:
    with Graph() as graph, name_scope("input"):
        barrier = pair(capacity=4)

    definition = graph.resources["input/b"]
    assert isinstance(definition, BarrierDef)
    assert definition.components == (spec("float32", (2, 3)), spec("int32"))
    assert repr(barrier) == "<Barrier input/b: barrier of [(2, 3) float32, () int32], at most 4>"
    assert from_data(*to_data(graph)).resources == graph.resources


def test_every_op_names_the_barrier_and_knows_its_order() -> None:
    with Graph():
        barrier = pair()
        built = {
            "barrier_insert_many": barrier.insert_many(1, [b"a", b"b"], [1, 2]),
            "barrier_take_many": barrier.take_many(3).keys,
            "barrier_close": barrier.close(),
            "barrier_ready_size": barrier.ready_size(),
            "barrier_incomplete_size": barrier.incomplete_size(),
        }

    effects = [Effect.WRITE, Effect.WAIT, Effect.WRITE, Effect.READ, Effect.READ]
    for (op, tensor), effect in zip(built.items(), effects, strict=True):
        assert tensor.node.op == op
        assert opdef.lookup(op).effect is effect
        assert tensor.node.attrs["resource"] == "b"
        assert tensor.node.name == f"b/{op.removeprefix('barrier_')}"


def test_takes_know_what_they_give() -> None:
    with Graph():
        barrier = pair()

        all_of_them, some = barrier.take_many(3), barrier.take_many(3, allow_small_batch=True)

    assert (str(all_of_them.indices.spec), str(all_of_them.keys.spec)) == ("(3,) int64", "(3,) bytes")
    assert [str(c.spec) for c in all_of_them.components] == ["(3, 2, 3) float32", "(3,) int32"]
    assert [str(c.spec) for c in some.components] == ["(None, 2, 3) float32", "(None,) int32"]


def test_components_go_by_name_where_they_have_names() -> None:
    with Graph():
        barrier = pair(names=["image", "label"])

        assert barrier.insert_many("label", [b"a"], [1]).node.attrs["component"] == 1
        assert list(barrier.take_many(1).components) == ["image", "label"]


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda b: b.insert_many(2, [b"a"], [1]), "barrier 'b' has components 0 to 1, got 2"),
        (lambda b: b.insert_many(True, [b"a"], [1]), "a component of barrier 'b' is an integer, got True"),
        (lambda b: b.insert_many("label", [b"a"], [1]), "no component 'label'; its components have no names"),
        (
            lambda b: b.insert_many(1, [b"a"], [1, 2]),
            r"a value for each key, got \(1,\) keys and values \(2,\)",
        ),
        (
            lambda b: b.insert_many(1, b"a", [1]),
            r"the keys of barrier 'b' are a vector of bytes, got \(\) bytes",
        ),
        (lambda b: b.insert_many(1, [1], [1]), "no bytes tensor can hold"),
        (lambda b: b.insert_many(1, ["a"], [1]), "text is given as bytes"),
        (lambda b: b.insert_many(1, [b"a"], [1.5]), "no int32 tensor can hold"),
        (lambda b: b.insert_many(0, [b"a"], np.zeros((1, 2), "float32")), r"must fit \(None, 2, 3\) float32"),
        (lambda b: b.take_many(-1), "the number of tuples to take is an integer of at least 0, got -1"),
        (lambda b: b.take_many(1.5), "of at least 0, got 1.5"),
        (lambda b: b.take_many(b.ready_size()), "it must be known while the graph is built"),
        (lambda b: b.take_many(1, "yes"), "allow_small_batch is True or False, got 'yes'"),
        (lambda b: b.close(1), "cancel_pending_enqueues is True or False, got 1"),
    ],
)
def test_use_that_does_not_fit_is_refused(use: Any, message: str) -> None:
    with Graph():
        barrier = pair()

        with pytest.raises(SpecError, match=message) as caught:
            use(barrier)
        assert "test_barrier.py:" in str(caught.value)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: af.Barrier([], []), "one shape for each dtype, got 0 shapes for 0 dtypes"),
        (lambda: af.Barrier(["float32", "int32"], [()]), "got 1 shapes for 2 dtypes"),
        (lambda: af.Barrier("float32", None), "a shape for each dtype, got None"),
        (lambda: af.Barrier("float32", (None,)), r"as many for every key, got \(None,\) float32"),
        (lambda: af.Barrier("float32", [None]), r"as many for every key, got \(...\) float32"),
        (lambda: af.Barrier("float32", (2, 0)), r"has elements, and as many for every key, got \(2, 0\)"),
        (lambda: af.Barrier("float8", ()), "no tensor has dtype 'float8'"),
        (lambda: af.Barrier(None, ()), "a barrier takes a dtype, got None"),
        (lambda: af.Barrier("float32", (), names="a"), "a list of texts, got 'a'"),
        (lambda: af.Barrier("float32", (), names=["a", "b"]), "a distinct name for each of 1 components"),
        (
            lambda: af.Barrier("float32", (), capacity=0),
            "the capacity of a barrier is an integer of at least 1",
        ),
        (lambda: af.Barrier("float32", (), capacity=True), "at least 1, got True"),
    ],
)
def test_barrier_that_cannot_be_is_refused(make: Any, message: str) -> None:
    with Graph(), pytest.raises(SpecError, match=message) as caught:
        make()
    assert "test_barrier.py:" in str(caught.value)


def test_names_are_unique_and_barriers_belong_to_their_graph() -> None:
    with Graph():
        barrier = pair()
        with pytest.raises(GraphError, match="'b' is taken"):
            pair()

    with Graph(), pytest.raises(GraphError, match="belongs to another graph"):
        barrier.ready_size()
