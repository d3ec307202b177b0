"""The loss of unaligned sequences against all ways of writing them, one after the other."""

from __future__ import annotations

from itertools import groupby, product
from typing import Any

import numpy as np
import pytest

import actorflow.kernels  # noqa: F401  fills the table
import actorflow.ops as af
from actorflow.errors import GradientError, KernelError, SpecError
from actorflow.graph.forward import jvp
from actorflow.graph.graph import Graph
from tests.support.reference import evaluate


def written(way: tuple[int, ...], blank: int) -> list[int]:
    """The labels that a way writes: equal neighbours are one, blanks none."""
    return [c for c, _ in groupby(way) if c != blank]


def slow(logits: np.ndarray, labels: list[int], blank: int) -> float:
    """Minus the log of the sum over every way that writes the labels."""
    p = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    ways = product(range(logits.shape[1]), repeat=len(logits))
    total = sum(np.prod(p[range(len(way)), list(way)]) for way in ways if written(way, blank) == labels)
    return float(-np.log(total)) if total else np.inf


LOGITS = np.random.default_rng(0).standard_normal((6, 5, 3))
LABELS = np.array([[1, 1], [0, 1], [1, 0], [1, 7], [-1, -1], [1, 1]], "int32")
TIMES = np.array([5, 4, 5, 3, 5, 2])
COUNTS = np.array([2, 2, 2, 1, 0, 2])


def loss_and_grad(logits: np.ndarray, times: np.ndarray = TIMES, blank: int = 2) -> Any:
    with Graph() as graph:
        x = af.constant(logits)
        loss = af.ctc_loss(x, LABELS, times, COUNTS, blank)
        (grad,) = af.gradients(loss, x)
    return evaluate(graph, [loss, grad])


def test_it_sums_over_all_ways_to_write_the_labels() -> None:
    loss, grad = loss_and_grad(LOGITS)

    wanted = [slow(x[:t], list(z[:c]), 2) for x, t, z, c in zip(LOGITS, TIMES, LABELS, COUNTS, strict=True)]
    assert wanted[5] == np.inf  # a label twice needs a blank between, and there are two times
    np.testing.assert_allclose(loss, wanted, rtol=1e-12)
    for i, t in enumerate(TIMES):
        np.testing.assert_array_equal(grad[i, t:], 0)
    np.testing.assert_array_equal(grad[5], 0)
    np.testing.assert_allclose(grad.sum(-1), 0, atol=1e-12)  # a softmax does not see what all logits share


def test_no_time_writes_nothing() -> None:
    loss, grad = loss_and_grad(LOGITS, np.zeros(6, "int64"))

    np.testing.assert_array_equal(loss, [np.inf] * 4 + [0, np.inf])
    np.testing.assert_array_equal(grad, 0)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_a_long_sequence_neither_overflows_nor_vanishes(dtype: str) -> None:
    logits = (np.random.default_rng(0).standard_normal((1, 500, 20)) * 10).astype(dtype)
    labels = np.random.default_rng(1).integers(1, 20, (1, 60))
    with Graph() as graph:
        x = af.constant(logits)
        loss = af.ctc_loss(x, labels, [500], [60])
        (grad,) = af.gradients(loss, x)
        exact = af.ctc_loss(af.constant(logits.astype("float64")), labels, [500], [60])
    found, slope, wanted = evaluate(graph, [loss, grad, exact])

    assert np.isfinite(slope.astype("float64")).all()
    np.testing.assert_allclose(found.astype("float64"), wanted, rtol=1e-3)


def test_a_second_derivative_is_refused_and_not_wrong() -> None:
    with Graph():
        x = af.constant(LOGITS)
        (grad,) = af.gradients(af.ctc_loss(x, LABELS, TIMES, COUNTS, 2), x)
        with pytest.raises(GradientError, match="ctc_loss has no second derivative for its logits") as caught:
            af.gradients(grad, x)

    assert caught.value.where is not None
    assert caught.value.hint is not None


def test_a_push_forward_is_the_slope_along_the_direction() -> None:
    v = np.random.default_rng(1).standard_normal(LOGITS.shape)
    with Graph() as graph:
        x = af.placeholder("float64", LOGITS.shape, "x")
        loss = af.ctc_loss(x, LABELS, TIMES, COUNTS, 2)
        (pushed,) = jvp(loss, x, v)

    told = evaluate(graph, pushed, {x: LOGITS})

    ahead, behind = (evaluate(graph, loss, {x: LOGITS + s * 1e-6 * v})[:5] for s in (1, -1))
    np.testing.assert_allclose(told[:5], (ahead - behind) / 2e-6, rtol=1e-6, atol=1e-8)
    assert told[5] == 0  # its loss is infinite


def test_the_gradient_is_linear_in_the_one_it_is_given_and_has_that_slope_at_zero_too() -> None:
    weights = np.random.default_rng(2).standard_normal(LOGITS.shape)
    with Graph() as graph:
        dy = af.placeholder("float64", (6,), "dy")
        x = af.constant(LOGITS)
        (grad,) = af.gradients(af.ctc_loss(x, LABELS, TIMES, COUNTS, 2), x, dy)
        (slope,) = af.gradients(grad, dy, weights)

    wanted = np.sum(evaluate(graph, grad, {dy: np.ones(6)}) * weights, axis=(1, 2))
    for at in (np.zeros(6), np.linspace(-1, 2, 6)):
        np.testing.assert_allclose(evaluate(graph, slope, {dy: at}), wanted, rtol=1e-12)


@pytest.mark.parametrize(
    ("labels", "times", "counts", "message"),
    [
        ([[1, 2]], [6], [2], r"lengths of logits must lie in \[0, 5\], got 6"),
        ([[1, 2]], [5], [-1], r"lengths of labels must lie in \[0, 2\], got -1"),
        ([[1, 3]], [5], [2], r"labels must lie in \[0, 3\), the number of classes, and not be the blank 0, got 3"),
        ([[0, 1]], [5], [2], "and not be the blank 0, got 0"),
    ],
)  # fmt: skip
def test_numbers_out_of_range_are_refused_in_the_step(
    labels: Any, times: Any, counts: Any, message: str
) -> None:
    with Graph() as graph:
        loss = af.ctc_loss(LOGITS[:1], labels, times, counts)

    with pytest.raises(KernelError, match=message):
        evaluate(graph, loss)


def x32(*shape: int | None, dtype: str = "float32") -> Any:
    return af.placeholder(dtype, shape)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: af.ctc_loss(x32(2, 5), [[1]], [5], [1]), r"needs logits \(n, time, classes\), labels \(n, length\) and two lengths \(n,\), got \(2, 5\) float32"),
        (lambda: af.ctc_loss(x32(2, 5, 3), [[1]], [5], [1]), r"got \(2, 5, 3\) float32, \(1, 1\) int32, \(1,\) int32, \(1,\) int32"),
        (lambda: af.ctc_loss(x32(1, 5, 3), x32(1, 1), [5], [1]), "the labels and lengths of ctc_loss takes integers"),
        (lambda: af.ctc_loss(x32(1, 5, 3), [[1]], [5], [1], blank=3), "the blank of ctc_loss is one of the classes, got 3"),
        (lambda: af.ctc_loss(x32(1, 0, 3), [[1]], [0], [1]), "ctc_loss needs some time"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_at_the_users_line(build: Any, message: str) -> None:
    with Graph(), pytest.raises(SpecError, match=message) as caught:
        build()

    assert caught.value.where is not None
    assert "test_ctc.py:" in (caught.value.where.defined_at or "")
