"""First values of variables: what they may be given as, where they are built, what is refused."""

from typing import Any, cast

import numpy as np
import pytest

import actorflow.kernels  # noqa: F401  fills the table
import actorflow.ops as af
from actorflow.errors import SpecError
from actorflow.graph.builder import Tensor, control_dependencies, device, name_scope
from actorflow.graph.graph import Graph
from actorflow.graph.resource import VariableDef
from actorflow.nn import init
from actorflow.values.spec import spec
from tests.support.reference import evaluate


def initial(graph: Graph, variable: af.Variable) -> np.ndarray:
    port = variable.definition.initial
    assert port is not None
    value: np.ndarray = evaluate(graph, Tensor(graph, port))
    return value


def test_variable_is_declared_with_its_first_value_in_a_scope_of_its_own() -> None:
    with Graph() as graph, name_scope("layer"), device("/cpu:0"):
        w = af.Variable(init.ones((2, 3)), name="w")

    definition = graph.resources["layer/w"]
    assert definition is w.definition
    assert isinstance(definition, VariableDef)
    assert (definition.spec, definition.device, definition.trainable) == (
        spec("float32", (2, 3)),
        "/cpu:0",
        True,
    )
    assert "test_initial_values.py:" in definition.defined_at
    assert {n.name.rsplit("/", 1)[0] for n in graph.nodes} == {"layer/w/initial"}
    np.testing.assert_array_equal(initial(graph, w), np.ones((2, 3)))


@pytest.mark.parametrize(
    ("make", "wanted", "value"),
    [
        (lambda: af.Variable(1.5), "() float32", 1.5),
        (lambda: af.Variable([1, 2]), "(2,) int32", [1, 2]),
        (lambda: af.Variable([1, 2], dtype="float64"), "(2,) float64", [1, 2]),
        (lambda: af.Variable(np.zeros(2), dtype="float32"), "(2,) float32", [0, 0]),
        (lambda: af.Variable(lambda: af.constant([3.0])), "(1,) float32", [3]),
        (lambda: af.Variable(af.constant([3.0])), "(1,) float32", [3]),
        (lambda: af.Variable(np.ones((2, 3)), shape=(None, 3)), "(None, 3) float64", np.ones((2, 3))),
    ],
)
def test_first_value_may_be_anything_that_makes_a_tensor(make: Any, wanted: str, value: Any) -> None:
    with Graph() as graph:
        variable = make()

    assert str(variable.spec) == wanted
    np.testing.assert_array_equal(initial(graph, variable), value)


def test_variable_without_a_first_value_has_none_until_assigned() -> None:
    with Graph():
        variable = af.Variable(dtype="float32", shape=(2, None), name="v")

    assert variable.definition.initial is None
    assert repr(variable) == "<Variable v (2, None) float32>"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: af.Variable(), "needs dtype and shape"),
        (lambda: af.Variable(dtype="float32"), "needs dtype and shape"),
        (lambda: af.Variable([1.5], dtype="int32"), "values do not fit"),
        (lambda: af.Variable(af.constant([1.0]), dtype="float64"), "of dtype float64 cannot begin as"),
        (lambda: af.Variable([1.0, 2.0], shape=(3,)), "cannot begin as"),
        (lambda: af.Variable(1.0, dtype="float99"), "no tensor has dtype"),
        (lambda: af.Variable(dtype="float32", shape=(-1,)), "cannot be negative"),
        (
            lambda: af.Variable(1.0, trainable=cast("Any", "no")),
            "trainable=True or trainable=False, got 'no'",
        ),
        (lambda: af.Variable(1.0, dtype="bytes"), "a variable holds numbers or bool, got .* bytes"),
        (lambda: af.Variable([b"a"]), "af.strings.to_number makes numbers of them"),
        (lambda: af.Variable([b"3"], dtype="float32"), "no float32 tensor can hold .*af.strings.to_number"),
        (
            lambda: af.Variable(cast("Any", init.he)),
            "calls a function of no arguments, got he_normal for 'variable'",
        ),
        (lambda: af.Variable(cast("Any", init.he)), r"as in af.init.he\(\(64, 10\)\)"),
        (lambda: af.Variable(cast("Any", int)), "calls a function of no arguments, got int"),
    ],
)
def test_variable_that_cannot_be_is_refused(make: Any, message: str) -> None:
    with Graph(), pytest.raises(SpecError, match=message) as caught:
        make()

    assert "test_initial_values.py:" in str(caught.value)


def test_first_value_waits_for_nothing() -> None:
    with Graph() as graph:
        with control_dependencies([af.placeholder("float32", name="x")]):
            variable = af.Variable(init.he((2, 2)))

        port = variable.definition.initial
        assert port is not None
        assert graph.nodes[port.node].controls == ()
