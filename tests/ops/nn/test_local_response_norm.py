from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import actorflow.kernels  # noqa: F401  fills the table
import actorflow.ops as af
from actorflow.errors import SpecError
from actorflow.graph.graph import Graph
from tests.ops.test_conformance import check_gradient, weighted
from tests.support.reference import evaluate


def normalised(x: np.ndarray, before: int, after: int, bias: float, alpha: float, beta: float) -> np.ndarray:
    """Each element on its own, in float64."""
    out = np.empty(x.shape)
    for *pixel, c in np.ndindex(x.shape):
        around = x[(*pixel, slice(max(c - before, 0), c + after + 1))]
        out[(*pixel, c)] = x[(*pixel, c)] / (bias + alpha * (around**2).sum()) ** beta
    return out


@pytest.mark.parametrize("shape", [(5,), (2, 3), (2, 1, 3, 4), (0, 3)])
@pytest.mark.parametrize("radius", [0, 1, (2, 1), 7])
def test_each_element_is_divided_by_what_the_channels_around_it_hold(shape: Any, radius: Any) -> None:
    array = np.random.default_rng(0).standard_normal(shape)
    before, after = radius if isinstance(radius, tuple) else (radius, radius)
    with Graph() as graph:
        x = af.placeholder("float64", shape, "x")
        y = af.local_response_normalisation(x, radius, 1.5, 0.3, 0.75)
        loss = weighted([y], [shape], 1.0)

    made = evaluate(graph, y, {x: array})

    np.testing.assert_allclose(made, normalised(array, before, after, 1.5, 0.3, 0.75), rtol=1e-13)
    (grad,) = check_gradient(graph, loss, [x], [array])
    assert grad is not None
    with graph:
        slope = weighted([grad], [shape], 0.7)
    check_gradient(graph, slope, [x], [array])


def test_no_channels_are_refused() -> None:
    with Graph(), pytest.raises(SpecError, match="got a window of 3 on a size of 0"):
        af.local_response_normalisation(af.placeholder("float32", (2, 0)), 1)


def test_sizes_of_torch_are_radii() -> None:
    """Recorded from torch 2.13: local_response_norm(x, size, 0.5, 0.75, 2.0) of arange(6) ** 2 % 11."""
    five = [0.0, 0.15706828237409481, 0.5439487251380133, 1.1691219610674874]
    four = [0.0, 0.34548725851779377, 0.5453795422412799, 1.0575451052507474]
    with Graph() as graph:
        x = af.constant(np.arange(6.0) ** 2 % 11)
        odd = af.local_response_normalisation(x, 2, 2.0, 0.5 / 5, 0.75)
        even = af.local_response_normalisation(x, (2, 1), 2.0, 0.5 / 4, 0.75)

    made = evaluate(graph, [odd, even])

    np.testing.assert_allclose([m[:4] for m in made], [five, four], rtol=1e-14)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: af.local_response_normalisation(af.placeholder("int32", (2, 3))), r"floating numbers, got \(2, 3\) int32"),
        (lambda: af.local_response_normalisation(af.placeholder("float32", ())), r"channels last, got \(\) float32"),
        (lambda: af.local_response_normalisation(af.placeholder("float32", None)), "a known rank"),
        (lambda: af.local_response_normalisation(af.placeholder("float32", (2, 3)), -1), "got -1"),
        (lambda: af.local_response_normalisation(af.placeholder("float32", (2, 3)), (1, 2, 3)), r"got \(1, 2, 3\)"),  # type: ignore[arg-type]
    ],
)  # fmt: skip
def test_what_has_no_channels_is_refused(build: Any, message: str) -> None:
    with Graph(), pytest.raises(SpecError, match=message) as caught:
        build()

    assert caught.value.where is not None
