from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import actorflow.kernels  # noqa: F401  fills the table
import actorflow.ops as af
from actorflow.errors import GradientError, GraphError, SpecError
from actorflow.graph import opdef
from actorflow.graph.builder import Tensor, control_dependencies, name_scope
from actorflow.graph.graph import Graph, current
from actorflow.graph.opdef import Effect
from actorflow.ops.state.variable import trainable_variables
from tests.support.reference import evaluate


def test_names_of_variables_are_unique() -> None:
    with Graph() as graph:
        unnamed = [af.Variable(0.0).name for _ in range(3)]
        af.Variable(0.0, name="w")
        nodes = len(graph)

        with pytest.raises(
            GraphError, match=r"'w' is taken by the one defined at \S*test_variable.py:"
        ) as caught:
            af.Variable(0.0, name="w")
        assert re.search(r"where: defined at \S*test_variable.py:", str(caught.value))

        assert unnamed == ["variable", "variable_1", "variable_2"]
        assert len(graph) == nodes


def test_one_read_serves_until_the_next_write() -> None:
    with Graph():
        v, other = af.Variable(1.0, name="v"), af.Variable(1.0, name="other")
        first = v.as_tensor()
        other.assign(2.0)

        assert v.as_tensor() == first
        for write in (v.assign, v.assign_add, v.assign_sub):
            before = v.as_tensor()
            write(3.0)
            assert v.as_tensor().port != before.port
        assert len(v.reads()) == 4

        table, counter = af.Variable([1.0]), af.Variable(0)
        for variable, act in (
            (table, lambda: table.scatter_add([0], 1.0)),
            (counter, lambda: counter.count_up_to(9)),
        ):
            seen = variable.as_tensor()
            act()
            assert variable.as_tensor().port != seen.port


def test_an_update_is_a_write() -> None:
    with Graph() as graph:
        v = af.Variable(1.0)
        key = graph.add_object("optimizer", object())
        before = v.as_tensor()
        af.apply_gradients([before], [v], key)

        assert v.as_tensor().port != before.port


def test_read_under_a_control_dependency_is_a_read_of_its_own() -> None:
    with Graph():
        v = af.Variable(1.0)
        before = v.as_tensor()
        with control_dependencies([af.placeholder("float32", name="x")]):
            after = v.as_tensor()
            assert v.as_tensor() == after

        assert after.port != before.port
        assert v.as_tensor() == before  # and nobody else waits for x


def test_operators_build_what_those_of_tensors_build() -> None:
    with Graph() as graph:
        v = af.Variable([[2.0, 4.0], [8.0, 1.0]])
        built = [
            v + 1, 1 + v, v - 1, 1 - v, v * 3, 3 * v, v / 2, 8 / v, v**2, 2**v, -v, abs(v), v[1],
            v < 3, v <= 2, v > 3, v >= 4, v @ v, np.ones(2, "float32") - v, np.eye(2, dtype="float32") @ v,
        ]  # fmt: skip
        a = np.array([[2, 4], [8, 1]], "float32")
        feeds = {v.as_tensor(): a}

    wanted = [
        a + 1, 1 + a, a - 1, 1 - a, a * 3, 3 * a, a / 2, 8 / a, a**2, 2**a, -a, abs(a), a[1],
        a < 3, a <= 2, a > 3, a >= 4, a @ a, 1 - a, a,
    ]  # fmt: skip
    for got, want in zip(evaluate(graph, built, feeds), wanted, strict=True):
        np.testing.assert_array_equal(got, want)
    assert len(v.reads()) == 1


def test_variable_has_no_truth_and_no_items_while_building() -> None:
    with Graph():
        v = af.Variable([1.0])

        with pytest.raises(GraphError, match="truth value"):
            bool(v)
        with pytest.raises(GraphError, match="iterated"):
            list(v)


def test_variable_is_found_again_by_its_name() -> None:
    with Graph() as graph:
        v = af.Variable(1.0, name="v")
        read = v.read()
        af.Variable(1, name="count")
        af.Variable(1.0, name="fixed", trainable=False)
        found = af.Variable.existing(graph, "v")

        assert found.definition is v.definition
        assert found.as_tensor() == read
        assert [t.name for t in trainable_variables()] == ["v"]
        with pytest.raises(GraphError, match="no variable 'w'"):
            af.Variable.existing(graph, "w")


def test_gradient_for_a_variable_comes_from_all_its_reads() -> None:
    with Graph() as graph:
        v = af.Variable(3.0)
        first, second = v.read(), v.read()
        (grad,) = af.gradients(first * first + second * second, v)

    assert evaluate(graph, grad, {first: 3, second: 5}) == 16


def _assigned(v: af.Variable, value: Tensor) -> None:
    v.assign(value)


def _updated(v: af.Variable, value: Tensor) -> None:
    grad = af.gradients(value, v)
    af.apply_gradients(grad, [v], current().add_object("sgd", object()))


@pytest.mark.parametrize(("write", "node"), [(_assigned, "'v/assign'"), (_updated, "'apply_gradients'")])
def test_a_gradient_over_reads_on_both_sides_of_a_write_is_refused(write: Any, node: str) -> None:
    with Graph():
        v = af.Variable(3.0, name="v")
        first = v.read()
        write(v, first * first)
        second = v.read()
        y = af.add(first * 10, second * second, name="y")

        with pytest.raises(GradientError) as caught:
            af.gradients(y, v)

    text = str(caught.value)
    assert "'y' must depend on one value of variable 'v' only, got 'v/read' (" in text
    assert text.index("'v/read'") < text.index(node) < text.index("'v/read_1'")
    assert text.count("test_variable.py:") == 4
    assert "stop_gradient" in text


def test_gradients_on_one_side_of_a_write_or_for_one_read_are_those_for_that_value() -> None:
    with Graph() as graph:
        v = af.Variable(3.0, name="v")
        first = v.read()
        v.assign(first * first)
        second = v.read()
        before, after = first * 10, second * second
        grads = [
            *af.gradients(before, v),
            *af.gradients(after, v),
            *af.gradients(before + after, [first, second]),
            *af.gradients(af.stop_gradient(before) * after, v),
        ]

    assert evaluate(graph, grads, {first: 3, second: 9}) == [10, 18, 10, 18, 540]


def test_state_ops_say_what_they_touch() -> None:
    with Graph():
        v = af.Variable([1.0, 2.0], name="v")
        uses = {
            v.read(): ("read_variable", Effect.READ, "(2,) float32"),
            v.version(): ("variable_version", Effect.READ, "() int64"),
            v.is_initialised(): ("is_initialised", Effect.READ, "() bool"),
            v.assign([3, 4]): ("assign", Effect.WRITE, "(2,) float32"),
            v.assign_add([3, 4]): ("assign_add", Effect.WRITE, "(2,) float32"),
            v.assign_sub([3, 4]): ("assign_sub", Effect.WRITE, "(2,) float32"),
            v.scatter_add([1], [4.0]): ("scatter_add_variable", Effect.WRITE, "(2,) float32"),
        }

    for tensor, (op, effect, wanted) in uses.items():
        node = tensor.node
        assert (node.op, opdef.lookup(op).effect, str(tensor.spec)) == (op, effect, wanted)
        assert node.attrs["resource"] == "v"
        assert node.name.startswith("v/")


def test_nodes_are_named_after_the_variable_and_the_open_scope() -> None:
    with Graph():
        with name_scope("layer"):
            w = af.Variable(0.0, name="w")
            inside = w.read()
        outside = w.read()
        with name_scope("loss"):
            elsewhere = w.read()

    assert [t.node.name for t in (inside, outside, elsewhere)] == [
        "layer/w/read",
        "layer/w/read_1",
        "loss/layer/w/read",
    ]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([1.0, 2.0, 3.0], "a value of variable 'v' must fit"),
        (1.0, "a value of variable 'v' must fit"),
        (np.zeros(2, "float64"), r"got \(2,\) float64"),
        ([1j, 2j], "values do not fit"),
        ("text", "no float32 tensor can hold"),
    ],
)
def test_value_that_does_not_fit_is_refused(value: Any, message: str) -> None:
    with Graph():
        v = af.Variable([1.0, 2.0], name="v")

        with pytest.raises(SpecError, match=message):
            v.assign(value)


def test_variable_of_another_graph_is_refused() -> None:
    with Graph():
        v = af.Variable(1.0, name="v")

    with Graph(), pytest.raises(GraphError, match=r"<Variable v .* belongs to another graph"):
        v + 1
