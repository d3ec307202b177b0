from __future__ import annotations

import copy
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

import actorflow.ops as af
from actorflow.errors import GraphError
from actorflow.graph.graph import Graph
from actorflow.graph.node import Port
from actorflow.graph.resource import (
    PaddingQueueDef,
    PriorityQueueDef,
    QueueDef,
    ShuffleQueueDef,
    VariableDef,
)
from actorflow.graph.serial import from_data, to_data
from actorflow.ops.control.tensor_list import list_new
from actorflow.values.arrays import as_dtype
from actorflow.values.spec import ListSpec, Spec, spec
from tests.graph.programs import Program, programs
from tests.support.reference import evaluate
from tests.support.strategies import examples

FEW = settings(max_examples=examples(40), deadline=None)


def assert_same(read: Graph, graph: Graph) -> None:
    assert read.nodes == graph.nodes
    assert read.resources == graph.resources
    assert read.objects == graph.objects
    assert read.seed == graph.seed
    assert len(read.constants) == len(graph.constants)
    for mine, theirs in zip(read.constants, graph.constants, strict=True):
        assert mine.dtype == theirs.dtype
        np.testing.assert_array_equal(mine, theirs, strict=True)


@FEW
@given(program=programs())
def test_a_graph_read_back_is_the_graph(program: Program) -> None:
    data, arrays = to_data(program.graph)

    read = from_data(json.loads(json.dumps(data)), arrays)  # JSON: plain data, and tuples become lists

    assert_same(read, program.graph)
    assert all(read.node(n.name) is n for n in read.nodes)
    assert evaluate(read, program.loss, program.feeds) == evaluate(program.graph, program.loss, program.feeds)


def rich() -> Graph:
    """One graph with all that a graph may hold."""
    with Graph(seed=7) as graph:
        x = af.placeholder("bfloat16", (None, 3), "x")
        w = af.constant(np.ones((3, 2)), "bfloat16", "w")
        af.custom_gradient(lambda a: (af.sigmoid(a), lambda grad: grad))(x @ w)
        af.placeholder("float32", None, "any_rank")
        graph.add_resource(
            VariableDef(
                name="v",
                spec=spec("float32", (3,)),
                initial=Port(w.port.node),
                trainable=True,
                device="/cpu:0",
                defined_at="here.py:1",
            )
        )
        graph.add_resource(
            VariableDef(
                name="step", spec=spec("int64"), initial=None, trainable=False, defined_at="here.py:2"
            )
        )
        graph.add_resource(
            QueueDef(
                name="q",
                components=(spec("float32", (None,)), spec("bool")),
                capacity=8,
                container="c",
                shared_name="s",
                defined_at="here.py:3",
            )
        )
        graph.add_resource(
            QueueDef(name="unbounded", components=(), capacity=None, max_bytes=64, defined_at="here.py:4")
        )
        shuffled = ShuffleQueueDef(
            name="shuffled", components=(spec("bytes"),), capacity=8, min_after_dequeue=4, seed=2**62
        )
        graph.add_resource(shuffled)
        graph.add_resource(PriorityQueueDef(name="ranked", components=(spec("int64"),), capacity=8))
        graph.add_resource(PaddingQueueDef(name="padded", components=(spec("int8", (None,)),), capacity=8))
    return graph


def test_resources_objects_and_unknown_ranks_survive() -> None:
    graph = rich()
    data, arrays = to_data(graph)

    assert_same(from_data(json.loads(json.dumps(data)), arrays, graph.objects), graph)


def test_more_can_be_built_on_a_graph_that_was_read() -> None:
    graph = rich()
    read = from_data(*to_data(graph), graph.objects)

    with read:
        again = af.constant(1.0, name="w")

    assert again.node.name == "w_1"


def test_constants_are_copied_and_read_only() -> None:
    data, arrays = to_data(rich())
    mine = [a.copy() for a in arrays]
    read = from_data(data, mine, rich().objects)

    mine[0][:] = 9

    assert float(read.constants[0][0, 0]) == 1.0
    assert not read.constants[0].flags.writeable


def node_of(data: dict[str, Any], name: str) -> dict[str, Any]:
    return next(n for n in data["nodes"] if n["name"] == name)


def edit(name: str, field: str, value: Any) -> Any:
    def change(data: dict[str, Any]) -> None:
        node_of(data, name)[field] = value

    return change


def top(field: str, value: Any) -> Any:
    def change(data: dict[str, Any]) -> None:
        data[field] = value

    return change


def resource(field: str, value: Any) -> Any:
    def change(data: dict[str, Any]) -> None:
        data["resources"][0][field] = value

    return change


deep: Any = 1
for _ in range(40):
    deep = [deep]


def lists_of_lists(deep: int) -> list[Any]:
    return [None, lists_of_lists(deep - 1)] if deep else [[2], "int8"]


WRONG = [
    (top("format", 2), "format 1, got 2"),
    (top("seed", 1.5), "field 'seed' of the graph must be int"),
    (top("nodes", None), "field 'nodes' of the graph must be list"),
    (top("nodes", [3]), "node 0 must be a dict, got int"),
    (top("objects", ["nowhere"]), "needs the object 'nowhere'"),
    (top("objects", []), "has no object 'custom_gradient/<lambda>'"),
    (edit("matmul", "op", "matmull"), "there is no op 'matmull'"),
    (edit("matmul", "name", "x"), "fresh names, got 'x'"),
    (edit("matmul", "name", None), "field 'name' of node 2 must be str"),
    (edit("matmul", "inputs", [[0, 0], [9, 0]]), "come before it, else there is a cycle; got 9"),
    (edit("matmul", "inputs", [[0, 0], [2, 0]]), "come before it, else there is a cycle; got 2"),
    (edit("matmul", "inputs", [[0, 0], [-1, 0]]), "come before it, else there is a cycle; got -1"),
    (edit("matmul", "inputs", [[0, 0], [1, 1]]), "names output 1 of 'w', which has 1"),
    (edit("matmul", "inputs", [[0, 0], [True, 0]]), "got True"),
    (edit("matmul", "inputs", [0]), "must hold pairs"),
    (edit("matmul", "inputs", [[0, 0]]), "cannot have the attributes"),
    (edit("matmul", "inputs", [[1, 0], [1, 0]]), "matmul needs equal inner dimensions"),
    (edit("matmul", "controls", [2]), "come before it"),
    (edit("matmul", "attrs", {}), "cannot have the attributes"),
    (edit("matmul", "attrs", {"transpose_a": {}}), "must hold plain values"),
    (edit("matmul", "attrs", {"transpose_a": deep}), "nested less than 16 deep"),
    (edit("matmul", "attrs", {1: 2}), "must have strings as keys"),
    (edit("matmul", "outputs", [[[None, 3], "bfloat16"]]), "gives ['(None, 2) bfloat16'] here, got"),
    (edit("matmul", "outputs", [[[None, -2], "bfloat16"]]), "sizes cannot be negative"),
    (edit("matmul", "outputs", [[[None, 2], "float8"]]), "no tensor has dtype 'float8'"),
    (edit("matmul", "outputs", [["abc", "bfloat16"]]), "must have lists as shapes"),
    (edit("matmul", "outputs", ["abc"]), "must hold pairs (shape, dtype)"),
    (edit("matmul", "colocate", 3), "field 'colocate' of node 2 must be str or None, got 3"),
    (
        edit("w", "attrs", {"constant": 5, "dtype": "bfloat16", "shape": [3, 2]}),
        "1 constants, got the index 5",
    ),
    (
        edit("w", "attrs", {"constant": "0", "dtype": "bfloat16", "shape": [3, 2]}),
        "1 constants, got the index '0'",
    ),
    (resource("kind", "mutex"), "got 'mutex'"),
    (resource("trainable", 1), "must be bool, got 1"),
    (resource("initial", [70, 0]), "come before it"),
    (resource("spec", None), "must hold pairs (shape, dtype)"),
    (resource("spec", [3, [[], "int8"]]), "holds tensors, got a list of 3 × () int8"),
    (edit("matmul", "outputs", [[None, [[2], "int8"]]]), "here, got ['list of (2,) int8']"),
    (
        edit("matmul", "outputs", [[True, [[2], "int8"]]]),
        "the size of a list is an integer or None, got True",
    ),
    (edit("matmul", "outputs", [[-1, [[2], "int8"]]]), "sizes cannot be negative"),
    (edit("matmul", "outputs", [lists_of_lists(20)]), "nested less than 16 deep"),
    (resource("name", "q"), "resource names are unique, 'q' is taken"),
]


@pytest.mark.parametrize(("change", "said"), WRONG, ids=[said for _, said in WRONG])
def test_malformed_data_is_refused_by_a_typed_error(change: Any, said: str) -> None:
    graph = rich()
    data, arrays = to_data(graph)
    changed = copy.deepcopy(data)
    change(changed)

    with pytest.raises(GraphError) as caught:
        from_data(changed, arrays, graph.objects)

    assert said in str(caught.value)


def test_a_constant_that_does_not_fit_is_refused() -> None:
    graph = rich()
    data, _ = to_data(graph)

    with pytest.raises(GraphError, match=r"the constant must fit \(3, 2\) bfloat16, got \(3, 2\) float64"):
        from_data(data, [np.ones((3, 2))], graph.objects)


@pytest.mark.parametrize("data", [None, [], "graph", {}])
def test_what_is_no_graph_is_refused(data: Any) -> None:
    with pytest.raises(GraphError):
        from_data(data, [])


def test_specs_of_lists_survive() -> None:
    with Graph() as graph:
        x = af.placeholder("float32", (None, 2))
        af.TensorArray("float32", 3, element_shape=(2,)).write(0, x[0]).stack()
        list_new(ListSpec(ListSpec(Spec(None, as_dtype("bytes")), 2)))
    data, arrays = to_data(graph)

    assert_same(from_data(json.loads(json.dumps(data)), arrays), graph)
