"""What is made of several ops, and gradients, count and add up halves in float32 as their kernels do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import actorflow as af
from actorflow.values.arrays import as_dtype
from tests.kernels.test_halves import HALVES, steps
from tests.ops.test_conformance import quiet
from tests.support.reference import evaluate

MANY = 70_000  # more than the largest float16
BAGS = np.zeros(MANY, "int32")


def of_gradient(function: Callable[..., af.Tensor], scale: float) -> Callable[..., Any]:
    """The gradient of the function for its first input, scaled as losses in halves are."""
    return lambda x, *others: af.gradients(af.multiply(function(x, *others), scale), [x])[0]


def computed(function: Callable[..., Any], inputs: list[Any], known: bool) -> Any:
    with af.Graph() as graph:
        shapes = [a.shape if known else (None,) * a.ndim for a in inputs]
        xs = [
            af.placeholder(a.dtype, s, f"x{i}") for i, (a, s) in enumerate(zip(inputs, shapes, strict=True))
        ]
        y = function(*xs)
    with quiet():
        return evaluate(graph, y, dict(zip(xs, inputs, strict=True)))


@pytest.mark.parametrize("known", [True, False], ids=["of known size", "of unknown size"])
@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize(
    ("function", "shapes"),
    [
        pytest.param(of_gradient(af.mean, 1024), [(MANY,)], id="gradient of mean"),
        pytest.param(of_gradient(af.var, 4096), [(MANY,)], id="gradient of var"),
        pytest.param(of_gradient(af.std, 4096), [(MANY,)], id="gradient of std"),
        pytest.param(of_gradient(af.math.logsumexp, 1024), [(MANY,)], id="gradient of logsumexp"),
        pytest.param(
            of_gradient(lambda x: af.max(af.minimum(x, 0.25)), 1024), [(MANY,)], id="gradient of max, ties"
        ),
        pytest.param(
            of_gradient(lambda x: af.sum(af.math.segment_mean(x, BAGS)), 1024),
            [(MANY,)],
            id="gradient of segments",
        ),
        pytest.param(
            of_gradient(lambda x: af.sum(af.broadcast_to(x, (MANY, 3))), 0.5), [(3,)], id="gradient of a bias"
        ),
        pytest.param(lambda x: af.math.quantile(x - 1, [0, 0.3, 0.77, 1], 1), [(64, 9)], id="quantile"),
        pytest.param(af.nn.weighted_mean, [(MANY,), (MANY,)], id="weighted_mean"),
        pytest.param(lambda x: af.math.trapezoid(x, dx=1 / MANY), [(MANY,)], id="trapezoid"),
        pytest.param(af.math.trapezoid, [(300,), (300,)], id="trapezoid of points"),
        pytest.param(lambda p, q: af.nn.kl_divergence(-q, p), [(4, 300), (4, 300)], id="kl_divergence"),
        pytest.param(lambda x: af.nn.lp_pool(x, 270), [(1, 270, 270, 1)], id="lp_pool"),
        pytest.param(
            lambda x: af.nn.embedding_bag(x, BAGS, BAGS, combiner="mean"), [(2, 3)], id="embedding_bag"
        ),
    ],
)
def test_it_is_that_of_float32_but_for_the_last_digit(
    function: Callable[..., Any], shapes: list[tuple[int, ...]], dtype: str, known: bool
) -> None:
    half = as_dtype(dtype)
    inputs = [np.random.default_rng(i).uniform(0.5, 1.5, s).astype(half) for i, s in enumerate(shapes)]
    made = computed(function, inputs, known)
    told = computed(function, [a.astype("float32") for a in inputs], known)

    assert made.dtype == half
    assert np.isfinite(told).all()
    assert steps(made, told.astype(half)) <= 1


@pytest.mark.parametrize("dtype", HALVES)
def test_squares_of_channels_beyond_the_largest_float16_are_added_up(dtype: str) -> None:
    x = np.full((1, 4), 300, as_dtype(dtype))
    made = computed(af.nn.local_response_normalisation, [x], True)
    told = computed(af.nn.local_response_normalisation, [x.astype("float32")], True)

    assert made.astype("float32").min() > 0
    assert steps(made, told.astype(made.dtype)) <= 1


@pytest.mark.parametrize("dtype", HALVES)
def test_more_elements_than_a_half_can_count_are_counted(dtype: str) -> None:
    found = computed(af.math.count, [np.zeros(MANY + 1, as_dtype(dtype))], False)

    assert found.dtype == np.float32
    assert found == MANY + 1
