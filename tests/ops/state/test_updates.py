"""The update of many variables at once, as it is built: what it names, and what is refused."""

from typing import Any

import pytest

import actorflow.kernels  # noqa: F401  fills the table
import actorflow.ops as af
from actorflow.errors import GraphError, SpecError
from actorflow.graph import opdef
from actorflow.graph.graph import Graph
from actorflow.graph.opdef import Effect
from actorflow.values.spec import spec


def test_update_names_its_variables_and_optimizer() -> None:
    with Graph() as graph:
        a, b = af.Variable([1.0], name="a"), af.Variable(2.0, name="b")
        key = graph.add_object("optimizer", object())
        done = af.apply_gradients([[0.5], 0.25], [a, b], key)

    assert done.spec == spec("int64")
    assert done.node.attrs == {"resources": ("a", "b"), "optimizer": key, "sparse": (False, False)}
    assert opdef.lookup("apply_gradients").effect is Effect.COMMIT


def test_update_that_makes_no_sense_is_refused() -> None:
    with Graph():
        foreign = af.Variable(1.0, name="foreign")
    with Graph() as graph:
        a, n = af.Variable([1.0], name="a"), af.Variable(1, name="n")
        key = graph.add_object("optimizer", object())
        cases: list[tuple[list[Any], list[af.Variable], str, type[Exception], str]] = [
            ([], [], key, GraphError, "distinct variables"),
            ([[1.0], [1.0]], [a, a], key, GraphError, "distinct variables"),
            ([[1.0], [1.0]], [a], key, GraphError, "got 2 for"),
            ([[1.0]], [a], "missing", GraphError, "or the key of one in the graph, got 'missing'"),
            ([1], [n], key, GraphError, "floating variables"),
            ([1.0], [foreign], key, GraphError, "of the current graph"),
            ([[1.0, 2.0]], [a], key, SpecError, "the gradient of variable 'a' must fit"),
        ]
        for grads, variables, optimizer, error, message in cases:
            with pytest.raises(error, match=message):
                af.apply_gradients(grads, variables, optimizer)
