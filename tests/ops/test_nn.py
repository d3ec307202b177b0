from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import actorflow.kernels  # noqa: F401  fills the table
import actorflow.ops as af
from actorflow.errors import SpecError
from actorflow.graph.graph import Graph
from tests.reference import evaluate


def images(*shape: int | None, dtype: str = "float32") -> Any:
    return af.placeholder(dtype, shape)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: af.softmax(images(2, 3), axis=2), "axis must lie in"),
        (lambda: af.softmax(images(2, 0)), "needs an element along axis -1"),
        (lambda: af.softmax_cross_entropy(images(4, 10), images(4, dtype="float32")), "labels must be integers"),
        (lambda: af.softmax_cross_entropy(images(4, 10), images(4, 10, dtype="int32")), "one label for each row"),
        (lambda: af.softmax_cross_entropy(images(), images(dtype="int32")), "a last axis with an element for every class"),
        (lambda: af.dropout(images(3), 1.0), r"rate lies in \[0, 1\), got 1.0"),
        (lambda: af.dropout(images(3), -0.1, training=False), r"rate lies in \[0, 1\), got -0.1"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_at_the_users_line(build: Any, message: str) -> None:
    with Graph(), pytest.raises(SpecError, match=message) as caught:
        build()

    assert caught.value.where is not None
    assert "test_nn.py:" in (caught.value.where.defined_at or "")


def test_dropout_is_the_identity_when_it_does_not_train() -> None:
    with Graph() as graph:
        x = images(3)

        assert af.dropout(x, 0.5, training=False) is x
        assert af.dropout(x, 0.0) is x
        assert len(graph) == 1


def test_gradient_of_dropout_flows_where_values_did() -> None:
    with Graph() as graph:
        x = af.constant(np.full((4, 50), 2, "float32"))
        y = af.dropout(x, 0.5, seed=3)
        (grad,) = af.gradients(y, x)

    value, slope = evaluate(graph, [y, grad])

    np.testing.assert_array_equal(value, 2 * slope)
    assert set(np.unique(slope)) == {0, 2}
