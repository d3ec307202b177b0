"""Losses against their formulas in float64, in their corners, and their gradients by differences."""

from __future__ import annotations

from collections.abc import Callable
from math import lgamma, log, pi
from typing import Any

import numpy as np
import pytest

import actorflow.kernels  # noqa: F401  fills the table
import actorflow.ops as af
from actorflow.errors import SpecError
from actorflow.graph.builder import Tensor
from actorflow.graph.graph import Graph
from tests.ops.test_conformance import check_gradient, weighted
from tests.support.reference import evaluate

rng = np.random.default_rng(0)


def draw(*shape: int, low: float = -2, high: float = 2) -> np.ndarray:
    return rng.uniform(low, high, shape)


A, B, C = draw(4, 3), draw(4, 3), draw(4, 3)
P = draw(4, 3, low=0.05, high=0.95)
Q = P[::-1] / P[::-1].sum(-1, keepdims=True)
SIGNS = np.where(draw(4, 3) > 0, 1.0, -1.0)


def norm(x: np.ndarray) -> np.ndarray:
    found: np.ndarray = np.sqrt((x**2).sum(-1))
    return found


def cosine(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    found: np.ndarray = (a * b).sum(-1) / (norm(a) * norm(b))
    return found


def sigmoid(x: np.ndarray) -> np.ndarray:
    found: np.ndarray = 1 / (1 + np.exp(-x))
    return found


def bce(p: np.ndarray, z: np.ndarray, weight: float = 1.0) -> np.ndarray:
    found: np.ndarray = -weight * z * np.log(p) - (1 - z) * np.log(1 - p)
    return found


Formula = tuple[Callable[..., Any], tuple[np.ndarray, ...], Callable[..., Any]]

FORMULAS: dict[str, Formula] = {
    "sigmoid_cross_entropy": (af.sigmoid_cross_entropy, (A, P), lambda x, z: bce(sigmoid(x), z)),
    "sigmoid_cross_entropy, weighted": (
        lambda x, z, w: af.sigmoid_cross_entropy(x, z, w),
        (A, P, draw(3, low=1, high=3)),
        lambda x, z, w: bce(sigmoid(x), z, w),
    ),
    "binary_cross_entropy": (af.binary_cross_entropy, (P, P[::-1].copy()), bce),
    "kl_divergence": (af.kl_divergence, (np.log(Q), P), lambda q, p: (p * (np.log(p) - q)).sum(-1)),
    "poisson_nll": (af.poisson_nll, (A, P), lambda x, z: np.exp(x) - z * x),
    "poisson_nll, full": (
        lambda x, z: af.poisson_nll(x, z, full=True),
        (A, P),
        lambda x, z: np.exp(x) - z * x + np.vectorize(lgamma)(z + 1),
    ),
    "gaussian_nll": (af.gaussian_nll, (A, B, P), lambda m, z, v: (np.log(v) + (m - z) ** 2 / v) / 2),
    "gaussian_nll, full": (
        lambda m, z, v: af.gaussian_nll(m, z, v, full=True),
        (A, B, P),
        lambda m, z, v: (np.log(v) + (m - z) ** 2 / v + log(2 * pi)) / 2,
    ),
    "absolute_difference": (af.absolute_difference, (A, B), lambda a, b: np.abs(a - b)),
    "huber_loss": (
        lambda a, b: af.huber_loss(a, b, 0.7),
        (A, B),
        lambda a, b: np.where(np.abs(a - b) <= 0.7, (a - b) ** 2 / 2, 0.7 * (np.abs(a - b) - 0.35)),
    ),
    "smooth_l1_loss": (
        lambda a, b: af.smooth_l1_loss(a, b, 0.5),
        (A, B),
        lambda a, b: np.where(np.abs(a - b) <= 0.5, (a - b) ** 2, np.abs(a - b) - 0.25),
    ),
    "cosine_similarity": (af.cosine_similarity, (A, B), cosine),
    "hinge_loss": (lambda x: af.hinge_loss(x, SIGNS), (A,), lambda x: np.maximum(0, 1 - SIGNS * x)),
    "margin_ranking_loss": (
        lambda a, b: af.margin_ranking_loss(a, b, SIGNS, 0.3),
        (A, B),
        lambda a, b: np.maximum(0, 0.3 - SIGNS * (a - b)),
    ),
    "triplet_loss": (
        af.triplet_loss,
        (A, B, C),
        lambda a, p, n: np.maximum(0, norm(a - p) - norm(a - n) + 1),
    ),
    "cosine_embedding_loss": (
        lambda a, b: af.cosine_embedding_loss(a, b, SIGNS[:, 0], 0.1),
        (A, B),
        lambda a, b: np.where(SIGNS[:, 0] > 0, 1 - cosine(a, b), np.maximum(0, cosine(a, b) - 0.1)),
    ),
    "weighted_mean": (af.weighted_mean, (A, P[0]), lambda v, w: (v * w).sum() / (v * 0 + w).sum()),
    "softmax_cross_entropy of probabilities": (
        af.softmax_cross_entropy,
        (A, Q),
        lambda x, p: -(p * (x - np.log(np.exp(x).sum(-1, keepdims=True)))).sum(-1),
    ),
}


def network(
    build: Callable[..., Tensor], arrays: tuple[np.ndarray, ...]
) -> tuple[Graph, list[Tensor], Tensor]:
    with Graph() as graph:
        xs = [af.placeholder("float64", (None, *a.shape[1:])) for a in arrays]
        return graph, xs, build(*xs)


@pytest.mark.parametrize("name", FORMULAS)
def test_a_loss_is_its_formula(name: str) -> None:
    build, arrays, formula = FORMULAS[name]

    graph, xs, loss = network(build, arrays)

    found = evaluate(graph, loss, dict(zip(xs, arrays, strict=True)))
    np.testing.assert_allclose(found, formula(*arrays), rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("name", FORMULAS)
def test_its_gradient_and_the_gradient_of_that_are_what_differences_measure(name: str) -> None:
    build, arrays, formula = FORMULAS[name]
    graph, xs, loss = network(build, arrays)
    with graph:
        total = weighted([loss], [np.shape(formula(*arrays))], 1.0)

    grads = check_gradient(graph, total, xs, arrays)

    found = [(g, a.shape) for g, a in zip(grads, arrays, strict=True) if g is not None]
    assert len(found) == len(arrays)
    with graph:
        slope = weighted([g for g, _ in found], [s for _, s in found], 0.7)
    check_gradient(graph, slope, xs, arrays)


def value(build: Callable[..., Any], *arrays: Any) -> Any:
    with Graph() as graph:
        found = build(*map(af.constant, arrays))
    return evaluate(graph, found)


def f64(*values: float) -> np.ndarray:
    return np.array(values, np.float64)


def test_sigmoid_cross_entropy_keeps_its_digits_at_both_ends() -> None:
    logits, labels = f64(800, -800, 40, -40, 800, -800), f64(1, 0, 1, 0, 0, 1)

    def with_grad(x: Tensor, z: Tensor) -> Any:
        return [af.sigmoid_cross_entropy(x, z), *af.gradients(af.sigmoid_cross_entropy(x, z), x)]

    loss, grad = value(with_grad, logits, labels)

    np.testing.assert_allclose(loss, [0, 0, np.exp(-40), np.exp(-40), 800, 800], rtol=1e-14)
    np.testing.assert_allclose(grad, [0, 0, 0, np.exp(-40), 1, -1], rtol=1e-14)


def test_a_sure_and_right_probability_has_no_loss_and_no_gradient_but_a_wrong_one_has() -> None:
    def with_grads(p: Tensor, z: Tensor) -> Any:
        return [af.binary_cross_entropy(p, z), *af.gradients(af.binary_cross_entropy(p, z), p)]

    with np.errstate(divide="ignore"):
        loss, grad = value(with_grads, f64(0, 1, 0, 1), f64(0, 1, 1, 0))

    np.testing.assert_array_equal(loss, [0, 0, np.inf, np.inf])
    np.testing.assert_array_equal(grad, [1, -1, -np.inf, np.inf])


def test_labels_of_probability_zero_count_for_nothing_in_a_divergence() -> None:
    def with_grad(q: Tensor, p: Tensor) -> Any:
        return [af.kl_divergence(q, p), *af.gradients(af.kl_divergence(q, p), q)]

    loss, grad = value(with_grad, np.log(f64(0.5, 0.5)), f64(0, 1))

    np.testing.assert_allclose(loss, log(2))
    np.testing.assert_allclose(grad, [0, -1])


def test_lengths_of_zero_have_finite_gradients() -> None:
    def grads(a: Tensor, b: Tensor) -> Any:
        return [
            *af.gradients(af.cosine_similarity(a, b), [a, b]),
            *af.gradients(af.triplet_loss(a, a, b), [a, b]),
        ]

    assert np.isfinite(value(grads, np.zeros((2, 3)), A[:2])).all()


@pytest.mark.parametrize(("one", "axis"), [((1, 2, 3), -2), ((1, 2, 1), 2), ((3,), 1), ((2, 1), 0)])
def test_a_cosine_is_that_of_the_vectors_that_both_broadcast_to(one: tuple[int, ...], axis: int) -> None:
    a, b = np.linspace(1, 2, int(np.prod(one))).reshape(one), np.arange(1.0, 7).reshape(2, 3)
    full_a, full_b = np.broadcast_arrays(a, b)
    lengths = np.linalg.norm(full_a, axis=axis) * np.linalg.norm(full_b, axis=axis)

    told = value(lambda a, b: af.cosine_similarity(a, b, axis), a, b)

    np.testing.assert_allclose(told, np.sum(full_a * full_b, axis) / lengths, rtol=1e-14)


def test_a_huber_loss_is_round_at_no_difference() -> None:
    def second(x: Tensor) -> Any:
        (grad,) = af.gradients(af.huber_loss(x, af.zeros_like(x)), x)
        return af.gradients(grad, x)[0]

    np.testing.assert_array_equal(value(second, f64(0, 0.5, 2)), [1, 1, 0])


def test_the_mean_of_no_weight_is_zero() -> None:
    with np.errstate(invalid="ignore"):
        assert value(af.weighted_mean, f64(1, 2), f64(0, 0)) == 0
    assert value(af.weighted_mean, f64(1, 2), np.array([False, True])) == 2


RANKED = [af.sigmoid_cross_entropy, af.binary_cross_entropy, af.poisson_nll, af.huber_loss, af.hinge_loss]


@pytest.mark.parametrize("loss", RANKED)
def test_a_column_of_predictions_is_not_spread_over_a_row_of_labels(loss: Any) -> None:
    with Graph():
        column, row = af.placeholder("float32", (None, 1)), af.placeholder("float32", (None,))
        with pytest.raises(SpecError, match="predictions and labels of as many axes") as caught:
            loss(column, row)

        assert "af.squeeze" in str(caught.value.hint)
        assert "test_losses.py:" in str(caught.value.where)
        assert loss(column, 1.0).shape == (None, 1)


@pytest.mark.parametrize("loss", [af.sigmoid_cross_entropy, af.hinge_loss, af.huber_loss, af.kl_divergence])
def test_losses_mix_dtypes_as_arithmetic_does(loss: Any) -> None:
    with Graph():
        mixed = loss(af.placeholder("float32", (3,)), af.placeholder("float64", (3,)))

    assert mixed.dtype == np.float64


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda a, b: af.huber_loss(a, a, 0), "the delta of huber_loss must be positive, got 0"),
        (lambda a, b: af.gaussian_nll(a, a, a, epsilon=0), "the epsilon of gaussian_nll must be positive, got 0"),
        (lambda a, b: af.hinge_loss(a, af.cast(b, "int64")), r"hinge_loss takes floating numbers, got \(3,\) int64"),
        (lambda a, b: af.kl_divergence(af.cast(a, "int32"), b), r"kl_divergence takes floating numbers, got \(3,\) int32"),
        (lambda a, b: af.weighted_mean(af.cast(a, "int32"), b), "weighted_mean takes floating numbers"),
        (lambda a, b: af.cosine_similarity(a, a, axis=1), "axis must lie in"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_at_the_users_line(build: Any, message: str) -> None:
    with Graph(), pytest.raises(SpecError, match=message) as caught:
        build(af.placeholder("float32", (3,)), af.placeholder("float64", (3,)))

    assert caught.value.where is not None
    assert "test_losses.py:" in (caught.value.where.defined_at or "")
