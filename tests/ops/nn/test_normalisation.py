"""What the named normalisations fold, what they refuse, and that gradients reach everything."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import actorflow.kernels  # noqa: F401  fills the table
import actorflow.ops as af
from actorflow.errors import SpecError
from actorflow.graph.builder import Tensor
from actorflow.graph.graph import Graph
from tests.support.reference import evaluate

rng = np.random.default_rng(0)
X = rng.standard_normal((4, 3, 5, 6))
SCALE, OFFSET = rng.standard_normal((2, 6))


def plain(x: np.ndarray, axis: Any, epsilon: float = 1e-5) -> np.ndarray:
    mean = x.mean(axis, keepdims=True)
    found: np.ndarray = (x - mean) / np.sqrt(((x - mean) ** 2).mean(axis, keepdims=True) + epsilon)
    return found


def images(*shape: int | None, dtype: str = "float32") -> Tensor:
    return af.placeholder(dtype, shape)


def value(build: Any, *arrays: np.ndarray, open_sizes: bool = False) -> Any:
    """What a function of tensors gives for float64 arrays; with unknown sizes but for the channels."""
    with Graph() as graph:
        shapes = [((None,) * (a.ndim - 1) + a.shape[-1:]) if open_sizes else a.shape for a in arrays]
        xs = [af.placeholder("float64", s) for s in shapes]
        found = build(*xs)
    return evaluate(graph, found, dict(zip(xs, arrays, strict=True)))


@pytest.mark.parametrize("open_sizes", [False, True])
def test_each_folds_its_axes_and_then_scales_and_moves(open_sizes: bool) -> None:
    def made(build: Any) -> Any:
        return value(build, X, SCALE, OFFSET, open_sizes=open_sizes)

    def close(build: Any, wanted: np.ndarray) -> None:
        np.testing.assert_allclose(made(build), wanted * SCALE + OFFSET, rtol=1e-10, atol=1e-12)

    close(lambda x, s, o: af.batch_norm(x, s, o)[0], plain(X, (0, 1, 2)))
    close(af.layer_norm, plain(X, -1))
    close(lambda x, s, o: af.layer_norm(x, s, o, axis=(1, 2, 3)), plain(X, (1, 2, 3)))
    close(af.instance_norm, plain(X, (1, 2)))
    close(lambda x, s, o: af.group_norm(x, 1, s, o), plain(X, (1, 2, 3)))
    close(lambda x, s, o: af.group_norm(x, 6, s, o), plain(X, (1, 2)))
    grouped = plain(X.reshape(4, 3, 5, 2, 3), (1, 2, 4)).reshape(X.shape)
    close(lambda x, s, o: af.group_norm(x, 2, s, o), grouped)
    rms = X / np.sqrt((X**2).mean(-1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(made(lambda x, s, o: af.rms_norm(x, s)), rms * SCALE, rtol=1e-10)
    np.testing.assert_allclose(made(lambda x, s, o: af.rms_norm(x)), rms, rtol=1e-10)


def test_scale_and_offset_may_be_left_out() -> None:
    wanted = plain(X, (0, 1, 2))

    np.testing.assert_allclose(value(lambda x: af.batch_norm(x)[0], X), wanted)
    np.testing.assert_allclose(value(lambda x, s: af.batch_norm(x, s)[0], X, SCALE), wanted * SCALE)
    np.testing.assert_allclose(
        value(lambda x, o: af.batch_norm(x, offset=o)[0], X, OFFSET), wanted + OFFSET, atol=1e-12
    )


def test_batch_norm_gives_the_statistics_that_the_other_form_takes() -> None:
    def both(x: Any, s: Any, o: Any) -> Any:
        y, mean, variance = af.batch_norm(x, s, o)
        return [y, mean, variance, af.batch_norm_with(x, mean, variance, s, o)]

    y, mean, variance, again = value(both, X, SCALE, OFFSET)

    np.testing.assert_allclose(mean, X.mean((0, 1, 2)))
    np.testing.assert_allclose(variance, X.var((0, 1, 2)))
    np.testing.assert_allclose(again, y, rtol=1e-10)


def test_batch_norm_over_other_axes_keeps_the_rest() -> None:
    y, mean, _ = value(lambda x: list(af.batch_norm(x, axis=(0, -1))), X)

    assert mean.shape == (3, 5)
    np.testing.assert_allclose(y, plain(X, (0, 3)))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_halves_have_statistics_in_float32(dtype: str) -> None:
    with Graph() as graph:
        x = af.cast(af.constant((X * 400).astype("float32")), dtype)
        y, mean, variance = af.batch_norm(x)
        again = af.batch_norm_with(x, mean, variance)
        (grad,) = af.gradients(y * y, x)
    values = evaluate(graph, [y, mean, variance, again, grad])

    assert [v.dtype.name for v in values] == [dtype, "float32", "float32", dtype, dtype]
    np.testing.assert_allclose(values[2], (X * 400).var((0, 1, 2)), rtol=1e-2)
    np.testing.assert_allclose(values[0].astype("float64"), plain(X, (0, 1, 2)), atol=2e-2)
    np.testing.assert_allclose(values[3].astype("float64"), values[0].astype("float64"), atol=2e-2)


def test_a_constant_scale_of_x_leaves_the_gradient_of_x_orthogonal() -> None:
    """Values do not change when x is moved or stretched (epsilon 0), so neither does a loss of them."""
    weights = np.random.default_rng(1).standard_normal(X.shape)
    grad = value(
        lambda x, w: af.gradients(af.sum(af.normalise(x, axis=(1, 2), epsilon=0)[0] * w), x)[0], X, weights
    )

    np.testing.assert_allclose(grad.sum((1, 2)), 0, atol=1e-12)
    np.testing.assert_allclose((grad * X).sum((1, 2)), 0, atol=1e-12)


def test_gradients_reach_everything_that_batch_norm_with_is_given() -> None:
    def grads(x: Any, s: Any, o: Any) -> Any:
        mean, variance = af.mean(x, (0, 1, 2)), af.var(x, (0, 1, 2))
        with_given = af.sum(af.batch_norm_with(x, mean, variance, s, o) ** 3)
        own = af.sum(af.batch_norm(x, s, o)[0] ** 3)
        return [*af.gradients(with_given, [x, s, o]), *af.gradients(own, [x, s, o])]

    found = value(grads, X, SCALE, OFFSET)

    for one, other in zip(found[:3], found[3:], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-10)


def test_vectors_get_length_one_and_zero_stays_zero() -> None:
    x = np.array([[3, 4], [0, 0], [1e-3, 0]], np.float16)
    with Graph() as graph:
        y = af.l2_normalise(af.constant(x))
    made = evaluate(graph, y)

    assert made.dtype == np.float16
    np.testing.assert_allclose(made.astype("float64"), [[0.6, 0.8], [0.0, 0.0], [1.0, 0.0]], rtol=1e-3)


def test_the_gradient_of_a_vector_of_length_one_is_across_it() -> None:
    x, weights = np.random.default_rng(1).standard_normal((2, 4, 3))
    x[0] = 0

    grad = value(lambda x, w: af.gradients(af.sum(af.l2_normalise(x) * w), x)[0], x, weights)

    np.testing.assert_allclose((grad * x).sum(-1), 0, atol=1e-12)
    np.testing.assert_allclose(grad[0], weights[0] * 1e12)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: af.layer_norm(images(2, 3, dtype="int32")), r"layer_norm takes floating numbers, got \(2, 3\) int32"),
        (lambda: af.layer_norm(images(2, 3), images(3, dtype="float64")), "layer_norm needs equal dtypes"),
        (lambda: af.layer_norm(images(2, 3), images(4)), r"the scale of a normalisation must broadcast to x, got \(4,\) float32 for x \(2, 3\) float32"),
        (lambda: af.layer_norm(images(2, 3), images(3), images(4, 3)), "the offset of a normalisation must broadcast to x"),
        (lambda: af.layer_norm(images(2, 3), images(1, 1, 3)), "the scale of a normalisation must broadcast"),
        (lambda: af.layer_norm(images(2, 3), axis=2), "axis must lie in"),
        (lambda: af.layer_norm(images(2, 3), epsilon=-1.0), "epsilon of a normalisation cannot be negative, got -1.0"),
        (lambda: af.batch_norm(images(None, 8), images(7)), r"batch_norm needs a scale of one element for each channel, got \(7,\) float32 for x \(None, 8\) float32"),
        (lambda: af.batch_norm(images(8)), "batch_norm needs at least 2 axes, the last for the channels"),
        (lambda: af.batch_norm(af.placeholder("float32", None)), "batch_norm needs a known rank"),
        (lambda: af.batch_norm_with(images(None, 8), images(7), images(8)), "the mean of a normalisation must broadcast to x"),
        (lambda: af.batch_norm_with(images(None, 8), images(8), images(8), images(8, dtype="float64")), "batch_norm_with needs equal dtypes"),
        (lambda: af.instance_norm(images(2, 8)), "instance_norm needs at least 3 axes"),
        (lambda: af.group_norm(images(2, 4, 9), 2), r"group_norm needs channels that 2 groups divide evenly, got \(2, 4, 9\) float32"),
        (lambda: af.group_norm(images(2, 4, 9), 0), "that 0 groups divide evenly"),
        (lambda: af.l2_normalise(images(2, dtype="int32")), "l2_normalise takes floating numbers"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_at_the_users_line(build: Any, message: str) -> None:
    with Graph(), pytest.raises(SpecError, match=message) as caught:
        build()

    assert caught.value.where is not None
    assert "test_normalisation.py:" in (caught.value.where.defined_at or "")
