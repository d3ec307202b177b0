from __future__ import annotations

import numpy as np
import pytest

from actorflow.kernels.definition.registry import find
from actorflow.values.arrays import as_dtype


@pytest.mark.parametrize("op", ["add", "multiply", "maximum", "exp", "tanh", "greater", "where"])
def test_simple_kernels_are_the_numpy_function_itself(op: str) -> None:
    """No Python frame between a node and numpy."""
    kernel = find(op)

    assert getattr(np, kernel.function.__name__) is kernel.function
    assert kernel.bind({}) is kernel.function


def test_sigmoid_never_overflows_and_keeps_tiny_results() -> None:
    with np.errstate(all="raise"):
        told = find("sigmoid").function(np.array([-700.0, -40, 0, 40, 700]))

    np.testing.assert_allclose(told, [np.exp(-700.0), np.exp(-40.0), 0.5, 1, 1], rtol=1e-14)


def test_relu_keeps_nan() -> None:
    assert np.isnan(find("relu").function(np.array([np.nan, -1], "float32"))).tolist() == [True, False]


def test_relu_grad_drops_what_is_not_finite_where_the_unit_was_off() -> None:
    told = find("relu_grad").function(np.array([np.inf, np.nan, 2.0]), np.array([0.0, 0.0, 1.0]))

    assert told.tolist() == [0, 0, 2]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_the_gradient_of_relu_keeps_or_clears_whole_elements(dtype: str) -> None:
    y = np.array([[0.0, 1.0, -0.0], [np.nan, 2.0, 0.5]]).astype(as_dtype(dtype))
    grad = np.array([[np.inf, -np.inf, np.nan], [1.0, -0.0, 3.0]]).astype(as_dtype(dtype))

    with np.errstate(invalid="ignore"):  # bfloat16 warns of comparing NaN
        found = find("relu_grad").function(grad.T, y.T).T

    assert found.dtype == as_dtype(dtype)
    assert found.astype("float64").tolist() == [[0, -np.inf, 0], [0, 0, 3]]
    assert np.signbit(found[1, 1])
