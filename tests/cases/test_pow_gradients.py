"""Gradients where a value is 0, infinite or NaN: what the formula comes to there, not NaN out of 0·inf."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import actorflow as af
from actorflow.graph.builder import as_tensor
from tests.ops.test_conformance import quiet
from tests.support.reference import evaluate

INF, NAN, HALF = np.inf, np.nan, np.sqrt(0.5)


def gradients(function: Callable[..., Any], values: Sequence[Any]) -> list[np.ndarray]:
    """Those of the sum of what the function makes of float64 inputs."""
    with af.Graph() as graph:
        xs = [af.placeholder("float64", np.shape(v), f"x{i}") for i, v in enumerate(values)]
        y = function(*xs)
        found = [as_tensor(g) for g in af.gradients(af.sum(y), xs)]
    feeds = {x: np.array(v, "float64") for x, v in zip(xs, values, strict=True)}
    with quiet():
        return [np.asarray(evaluate(graph, g, feeds)) for g in found]


def test_of_a_power() -> None:
    to_a, to_b = gradients(lambda a, b: a**b, [[INF, NAN, 0.0], [0.0, 0.0, -1.0]])

    np.testing.assert_array_equal(to_a, [0, 0, -INF])
    np.testing.assert_array_equal(to_b, [INF, 0, 0])


@pytest.mark.parametrize(
    ("a", "b", "to_a", "to_b"),
    [
        (0.0, 0.0, 0.0, 0.0),
        (-INF, 0.0, 0.0, 0.0),
        (INF, -1.0, 0.0, 0.0),
        (INF, -INF, NAN, 0.0),
        (NAN, 1.0, 1.0, 0.0),
        (NAN, 2.0, NAN, 0.0),
        (0.0, INF, NAN, 0.0),
        (0.0, -INF, -INF, 0.0),
        (0.0, 2.0, 0.0, 0.0),
        (2.0, -INF, NAN, 0.0),
        (-2.0, NAN, NAN, 0.0),
        (2.0, NAN, NAN, NAN),
    ],
)
def test_of_powers_at_the_ends(a: float, b: float, to_a: float, to_b: float) -> None:
    """As TensorFlow gives them."""
    found = gradients(af.pow, [[a], [b]])

    if not (np.isinf(b) and np.isnan(to_a)):  # b·a^(b-1) is inf·0 there
        np.testing.assert_array_equal(found[0], [to_a])
    np.testing.assert_array_equal(found[1], [to_b])


@pytest.mark.parametrize(
    ("function", "values", "expected"),
    [
        pytest.param(af.nn.silu, [[INF]], [[1]], id="silu"),
        pytest.param(af.nn.mish, [[INF]], [[1]], id="mish"),
        pytest.param(af.nn.gelu, [[INF]], [[1]], id="gelu"),
        pytest.param(lambda x: af.nn.gelu(x, True), [[INF]], [[1]], id="gelu, approximate"),
        pytest.param(
            af.hypot, [[INF, -INF, 3.0, INF], [1.0, 1.0, INF, INF]],
            [[1, -1, 0, HALF], [0, 0, 1, HALF]], id="hypot",
        ),
        pytest.param(af.atan2, [[INF, 1.0], [1.0, INF]], [[0, 0], [0, 0]], id="atan2"),
        pytest.param(
            af.logaddexp, [[INF, -INF, INF, NAN], [INF, -INF, 0.0, 0.0]],
            [[0.5, 0.5, 1, NAN], [0.5, 0.5, 0, NAN]], id="logaddexp",
        ),
        pytest.param(af.math.logsumexp, [[INF, 2.0, INF, -INF]], [[0.5, 0, 0.5, 0]], id="logsumexp"),
        pytest.param(
            lambda x: af.linalg.vector_norm(x, ord=INF), [[1.0, -INF, INF]], [[0, -0.5, 0.5]], id="norm of inf"
        ),
        pytest.param(
            lambda x: af.linalg.vector_norm(x, ord=-INF), [[-INF, -1.0, 5.0]], [[0, -1, 0]], id="norm of -inf"
        ),
        pytest.param(af.max, [[1.0, NAN, 2.0]], [[0, 1, 0]], id="max of NaN"),
        pytest.param(af.min, [[NAN, NAN, 2.0]], [[0.5, 0.5, 0]], id="min of NaN"),
        pytest.param(
            lambda x: af.math.segment_max(x, [0, 0, 1]), [[1.0, NAN, 2.0]], [[0, 1, 1]], id="segment_max of NaN"
        ),
        pytest.param(
            lambda x: af.math.unsorted_segment_min(x, [0, -1, 0], 1), [[1.0, NAN, 2.0]], [[1, 0, 0]],
            id="unsorted_segment_min of NaN",
        ),
        pytest.param(
            lambda x, u: af.arrays.scatter_max(x, [0, 0], u), [[1.0, NAN], [NAN, 2.0]], [[0, 1], [1, 0]],
            id="scatter_max of NaN",
        ),
        pytest.param(af.math.cumulative_max, [[1.0, NAN, 2.0]], [[1, 2, 0]], id="cumulative_max of NaN"),
        pytest.param(
            lambda x: af.linalg.vector_norm(x, ord=INF), [[1.0, NAN]], [[0, NAN]], id="norm of NaN"
        ),
        pytest.param(af.nn.huber_loss, [[INF, -INF], [1.0, 1.0]], [[1, -1], [-1, 1]], id="huber_loss"),
        pytest.param(af.nn.smooth_l1_loss, [[INF], [1.0]], [[1], [-1]], id="smooth_l1_loss"),
        pytest.param(
            lambda q, p: af.nn.kl_divergence(q, p), [[-INF, 0.0], [0.0, 1.0]], [[0, -1], [INF, 1]],
            id="kl_divergence",
        ),
        pytest.param(
            lambda x: af.nn.sigmoid_cross_entropy(x, [1.0, 0.0], 2.0), [[INF, -INF]], [[0, 0]],
            id="sigmoid_cross_entropy, weighted",
        ),
        pytest.param(
            lambda x: af.nn.lp_pool(af.reshape(x, (1, 2, 1)), 2), [[0.0, 0.0]], [[0, 0]], id="lp_pool"
        ),
    ],
)  # fmt: skip
def test_at_infinities_and_nan(function: Any, values: list[Any], expected: list[Any]) -> None:
    for found, told in zip(gradients(function, values), expected, strict=True):
        np.testing.assert_allclose(found, told, rtol=1e-15)


@pytest.mark.parametrize(
    "function",
    [
        pytest.param(lambda x: af.max(x), id="max"),
        pytest.param(lambda x: af.min(-x), id="min"),
        pytest.param(lambda x: af.math.segment_max(x, [0, 0, 0]), id="segment_max"),
        pytest.param(lambda x: af.math.unsorted_segment_max(x, [0, 0, 0], 1), id="unsorted_segment_max"),
        pytest.param(lambda x: af.linalg.vector_norm(x, ord=INF), id="norm of inf"),
        pytest.param(lambda x: af.arrays.scatter_max(x[:1], [0, 0], x[1:]), id="scatter_max"),
        pytest.param(
            lambda x: af.arrays.put_along_axis(x[:1], [0, 0], x[1:], how="max"), id="put_along_axis"
        ),
        pytest.param(lambda x: af.math.cumulative_max(x)[-1], id="cumulative_max"),
    ],
)
def test_an_infinite_gradient_goes_to_the_extreme_alone(function: Any) -> None:
    def scaled(x: af.Tensor) -> Any:
        return function(x) * 1e308 * 10.0

    (found,) = gradients(scaled, [[1.0, 3.0, 2.0]])

    assert np.isinf(found[1])
    np.testing.assert_array_equal(found[[0, 2]], 0)


NUMBERS = st.floats(-8, 8).filter(lambda x: abs(x) > 0.01)


@settings(max_examples=60, deadline=None)
@given(st.floats(0.05, 8), NUMBERS)
def test_gradients_of_a_power_are_what_differences_measure(a: float, b: float) -> None:
    to_a, to_b = gradients(af.pow, [[a], [b]])

    e = 1e-6
    np.testing.assert_allclose(to_a, [((a + e) ** b - (a - e) ** b) / (2 * e)], rtol=1e-4, atol=1e-7)
    np.testing.assert_allclose(to_b, [(a ** (b + e) - a ** (b - e)) / (2 * e)], rtol=1e-4, atol=1e-7)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from([-INF, -1.0, 0.0, 2.0, INF, NAN]), min_size=1, max_size=6))
def test_the_parts_of_the_gradient_of_an_extreme_add_up_to_all_of_it(x: list[float]) -> None:
    """Whatever is in it: the parts are those of the elements that the extreme is, and alike."""
    for fold in (af.max, af.min):
        (found,) = gradients(fold, [x])
        told = np.isnan(x) if np.isnan(x).any() else np.equal(x, np.max(x) if fold is af.max else np.min(x))
        np.testing.assert_allclose(found, told / told.sum())
