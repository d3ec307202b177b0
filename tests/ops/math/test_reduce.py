"""Corners of reductions, statistics and scans: nothing to fold, zeros, NaN, unknown sizes, misuse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import actorflow.ops as af
from actorflow.errors import GradientError, SpecError
from actorflow.graph.builder import Tensor
from actorflow.graph.graph import Graph
from tests.support.placeholders import f32, i32
from tests.support.reference import evaluate


def value(build: Callable[[Tensor], Any], x: Any, dtype: str = "float64", *, known: bool = True) -> Any:
    """What `build` makes of `x`, fed to a placeholder of that shape, or of unknown rank."""
    x = np.asarray(x, dtype)
    with Graph() as graph:
        p = af.placeholder(dtype, x.shape if known else None)
        y = build(p)
    with np.errstate(all="ignore"):
        return evaluate(graph, y, {p: x})


def slope(build: Callable[[Tensor], Any], x: Any, *, known: bool = True) -> Any:
    return value(lambda p: af.gradients(af.sum(build(p)), p)[0], x, known=known)


def hessian(build: Callable[[Tensor], Any], x: Any) -> np.ndarray:
    x = np.asarray(x, float)

    def row(i: int) -> Any:
        def second(p: Tensor) -> Any:
            (first,) = af.gradients(build(p), p)
            assert first is not None
            return af.gradients(first[i], p)[0]

        return value(second, x)

    return np.array([row(i) for i in range(len(x))])


REFUSED: list[tuple[Callable[[], Any], str]] = [
    (lambda: af.prod(af.equal(f32(2), 0.0)), "prod takes numbers, got (2,) bool"),
    (lambda: af.prod(f32(2, 3), axis=2), "axis must lie in [-2, 2), got 2"),
    (lambda: af.any(f32(2, 3), axis=(0, -2)), "axes must differ, got (0, -2) for rank 2"),
    (lambda: af.argmin(f32(2, 0), axis=1), "argmin needs at least one element to fold, got axis 1 of (2, 0)"),
    (lambda: af.argmin(f32(2, 3), axis=(0, 1)), "argmin takes an integer, or None as axis, got (0, 1)"),  # type: ignore[arg-type]
    (lambda: af.var(af.placeholder("complex64", (2,))), "var takes integers or floating numbers, got (2,) complex64"),
    (lambda: af.logsumexp(i32(2)), "logsumexp takes floating numbers, got (2,) int32"),
    (lambda: af.vector_norm(i32(2)), "vector_norm takes floating or complex numbers, got (2,) int32"),
    (lambda: af.vector_norm(f32(0), ord=np.inf), "vector_norm needs at least one element to fold, got axis None of (0,)"),
    (lambda: af.quantile(f32(3), 50), "a quantile lies in [0, 1], got 50"),
    (lambda: af.quantile(f32(3, 0), 0.5, axis=1), "quantile needs at least one element to fold, got axis 1 of (3, 0)"),
    (lambda: af.quantile(f32(3), 0.5, axis=1), "quantile needs an axis in [-1, 1), got 1 for (3,) float32"),
    (lambda: af.median(i32(3)), "median takes floating numbers, got (3,) int32"),
    (lambda: af.cumulative_sum(f32(2, 3)), "cumulative_sum needs an axis unless there is one only, got (2, 3) float32"),
    (lambda: af.cumulative_prod(f32(2, 3), 2), "axis must lie in [-2, 2), got 2"),
    (lambda: af.cumulative_max(af.placeholder("complex64", (2,))), "cumulative_max takes integers or floating numbers"),
    (lambda: af.linear_recurrence(f32(2, 3), f32(3)), "linear_recurrence needs equal shapes, got (2, 3) and (3,)"),
    (lambda: af.linear_recurrence(i32(3), i32(3)), "linear_recurrence takes floating or complex numbers"),
    (lambda: af.diff(f32(3), n=-1), "diff takes n from 0 to 1000, each a node of the graph, got -1"),
    (lambda: af.diff(f32(3), axis=1), "diff needs an axis in [-1, 1), got 1 for (3,) float32"),
    (lambda: af.trapezoid(i32(3)), "trapezoid takes floating or complex numbers, got (3,) int32"),
]  # fmt: skip


@pytest.mark.parametrize(("build", "message"), REFUSED)
def test_what_does_not_fit_is_refused_at_the_users_line(build: Callable[[], Any], message: str) -> None:
    with Graph(), pytest.raises(SpecError) as caught:
        build()

    assert message in str(caught.value)
    assert caught.value.where is not None
    assert "test_reduce.py:" in (caught.value.where.defined_at or "")


# ------------------------------------------------------------------------------------- nothing


@pytest.mark.parametrize(
    ("build", "told"),
    [
        (af.prod, 1),
        (af.any, False),
        (af.all, True),
        (af.count_nonzero, 0),
        (af.logsumexp, -np.inf),
        (af.mean, np.nan),
        (af.var, np.nan),
        (af.std, np.nan),
        (af.vector_norm, 0),
    ],
)
@pytest.mark.parametrize("known", [True, False])
def test_folding_nothing_gives_what_numpy_gives(build: Any, told: Any, known: bool) -> None:
    np.testing.assert_equal(value(build, np.zeros((0,)), known=known), told)
    assert value(lambda x: build(x, axis=1), np.zeros((0, 3)), known=known).shape == (0,)


def test_integers_wrap_around_and_their_mean_is_a_float64() -> None:
    assert value(af.prod, [100, 100], "int8") == np.prod(np.array([100, 100], "int8"), dtype="int8")
    assert value(af.cumulative_sum, [100, 100], "int8").tolist() == [100, -56]
    mean = value(af.mean, [1, 2], "int8")
    assert (mean, mean.dtype) == (1.5, np.float64)


def test_nan_is_true() -> None:
    assert value(af.any, [0, np.nan])
    assert value(af.all, [1, np.nan])
    assert value(af.count_nonzero, [0, np.nan]) == 1


@pytest.mark.parametrize("correction", [1, 2, 3])
def test_variance_of_too_few_is_what_numpy_says(correction: int) -> None:
    for x in ([1.0], [1.0, 2.0]):
        with (
            np.errstate(all="ignore"),
            pytest.warns(RuntimeWarning) if len(x) <= correction else np.errstate(),
        ):
            told = np.var(x, ddof=correction)
        np.testing.assert_equal(value(lambda p: af.var(p, correction=correction), x), told)


# ----------------------------------------------------------------------------------- gradients


@pytest.mark.parametrize(
    ("x", "told"),
    [
        ([2, 0, 3], [0, 6, 0]),
        ([0, 0, 3], [0, 0, 0]),
        ([2, 3, 4], [12, 8, 6]),
        ([], []),
        ([5], [1]),
        ([0], [1]),
    ],
)
@pytest.mark.parametrize("known", [True, False])
def test_the_gradient_of_a_product_is_that_of_the_others(
    x: list[float], told: list[float], known: bool
) -> None:
    assert slope(af.prod, x, known=known).tolist() == told
    assert slope(lambda p: af.prod(p, axis=(0,)), x, known=known).tolist() == told


def test_the_second_derivative_of_a_product_holds_at_zeros() -> None:
    assert hessian(af.prod, [0, 0, 3]).tolist() == [[0, 3, 0], [3, 0, 0], [0, 0, 0]]
    assert hessian(lambda p: af.cumulative_prod(p)[-1], [0, 2, 3]).tolist() == [
        [0, 3, 2],
        [3, 0, 0],
        [2, 0, 0],
    ]


def test_the_gradient_of_a_product_over_axes_apart() -> None:
    x = np.arange(12.0).reshape(2, 3, 2)
    told = slope(lambda p: af.prod(p, axis=(0, 2)), x)
    want = np.zeros(x.shape)
    for i in np.ndindex(x.shape):
        others = x[:, i[1]].copy()
        others[i[0], i[2]] = 1
        want[i] = others.prod()

    np.testing.assert_array_equal(told, want)


@pytest.mark.parametrize("order", [2, 1, 0, 3, 1.5, np.inf, -np.inf])
def test_the_gradient_of_a_norm_at_zero_is_zero(order: float) -> None:
    assert slope(lambda p: af.vector_norm(p, ord=order), [0.0, 0.0]).tolist() == [0, 0]


def test_norms_share_their_gradient_among_the_largest() -> None:
    assert slope(lambda p: af.vector_norm(p, ord=np.inf), [3, -3, 1]).tolist() == [0.5, -0.5, 0]


def test_a_norm_of_complex_numbers_is_real_and_has_no_gradient() -> None:
    assert value(af.vector_norm, [3j, 4], "complex128") == 5
    with Graph():
        x = af.placeholder("complex64", (2,))
        length = af.vector_norm(x)
        with pytest.raises(GradientError, match="gradients are of real numbers"):
            af.gradients(length, x)


def test_the_gradient_of_the_deviation_of_equals_is_zero() -> None:
    assert slope(af.std, [2.0, 2.0]).tolist() == [0, 0]


def test_logsumexp_neither_overflows_nor_makes_nan_of_minus_infinity() -> None:
    assert value(af.logsumexp, [1000.0, 1000.0]) == 1000 + np.log(2)
    assert value(af.logsumexp, [-np.inf, -np.inf]) == -np.inf
    assert slope(af.logsumexp, [-np.inf, -np.inf]).tolist() == [0, 0]
    assert value(af.logsumexp, [np.inf, 0.0]) == np.inf


def test_running_extremes_give_their_gradient_to_the_latest_of_equals() -> None:
    assert slope(af.cumulative_max, [1, 3, 3, 2]).tolist() == [1, 1, 2, 0]
    assert slope(af.cumulative_min, [2, 1, 1, 3]).tolist() == [1, 1, 2, 0]
    np.testing.assert_equal(value(af.cumulative_max, [1, np.nan, 2]), [1, np.nan, np.nan])


# --------------------------------------------------------------------------- composed functions

X = np.array([[3.0, 1, 2, 7], [5, 5, 4, 0], [9, 8, 6, -1]])


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("q", [0, 0.3, 0.5, 1, (0.25, 0.9)])
@pytest.mark.parametrize("axis", [None, 0, -1])
def test_quantiles_are_those_of_numpy(q: Any, axis: int | None, known: bool) -> None:
    told = value(lambda p: af.quantile(p, q, axis), X, known=known)
    np.testing.assert_allclose(told, np.quantile(X, q, axis), rtol=1e-15)
    if known or axis is not None:
        kept = value(lambda p: af.quantile(p, q, axis, keepdims=True), X, known=known)
        np.testing.assert_allclose(kept, np.quantile(X, q, axis, keepdims=True), rtol=1e-15)


def test_medians_are_nan_where_an_element_is() -> None:
    x = X.copy()
    x[0, 0] = np.nan
    np.testing.assert_equal(value(lambda p: af.median(p, axis=1), x), np.median(x, axis=1))


def test_a_median_gives_its_gradient_to_the_elements_in_the_middle() -> None:
    assert slope(af.median, [5, 1, 2, 9]).tolist() == [0.5, 0, 0.5, 0]
    assert slope(lambda p: af.quantile(p, 0.75), [5.0, 1.0, 2.0]).tolist() == [0.5, 0, 0.5]


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("n", [0, 1, 2, 5])
@pytest.mark.parametrize("axis", [0, -1, 1])
def test_differences_are_those_of_numpy(n: int, axis: int, known: bool) -> None:
    told = value(lambda p: af.diff(p, axis, n=n), X, known=known)

    np.testing.assert_array_equal(told, np.diff(X, n=n, axis=axis))


def test_differences_of_bools_and_with_ends() -> None:
    flags = np.array([True, True, False])
    assert value(af.diff, flags, "bool").tolist() == np.diff(flags).tolist()
    ends = value(lambda p: af.diff(p, prepend=np.zeros((3, 1)), append=np.ones((3, 2))), X)
    np.testing.assert_array_equal(ends, np.diff(X, prepend=np.zeros((3, 1)), append=np.ones((3, 2))))


def test_no_differences_are_the_elements_without_the_ends() -> None:
    told = value(lambda p: af.diff(p, n=0, prepend=np.zeros((3, 1)), append=np.ones((3, 2))), X)
    np.testing.assert_array_equal(told, np.diff(X, n=0, prepend=np.zeros((3, 1)), append=np.ones((3, 2))))


@pytest.mark.parametrize("axis", [0, 1, -2])
def test_trapezoids_are_those_of_numpy(axis: int) -> None:
    points = np.array([0.0, 1, 3, 7])[: X.shape[axis]]
    np.testing.assert_allclose(value(lambda p: af.trapezoid(p, axis=axis), X), np.trapezoid(X, axis=axis))
    told = value(lambda p: af.trapezoid(p, points, axis=axis), X)
    np.testing.assert_allclose(told, np.trapezoid(X, points, axis=axis))
    np.testing.assert_allclose(
        value(lambda p: af.trapezoid(p, X**2, axis=axis), X), np.trapezoid(X, X**2, axis=axis)
    )
    assert slope(lambda p: af.trapezoid(p, dx=2.0), [1, 2, 3]).tolist() == [1, 2, 1]


# ------------------------------------------------------------------------------------ accuracy


def test_the_variance_of_numbers_far_from_zero_keeps_its_digits() -> None:
    x = (1e4 + np.sin(np.arange(4096))).astype("float32")

    np.testing.assert_allclose(value(af.var, x, "float32"), np.var(x.astype(float)), rtol=1e-3)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_halves_are_added_up_in_float32(dtype: str) -> None:
    told = value(af.cumulative_sum, np.full(512, 0.5), dtype)

    assert float(told[-1]) == 256
    assert float(value(af.var, np.full(70_000, 2), dtype)) == 0


@pytest.mark.parametrize("width", [1, 20])
def test_a_long_recurrence_is_as_exact_as_a_loop(width: int) -> None:
    rng = np.random.default_rng(1)
    a, b = rng.uniform(-1, 1, (2, 1000, width))
    with Graph() as graph:
        told = af.linear_recurrence(a, b, 0)
        back = af.linear_recurrence(a[::-1].copy(), b[::-1].copy(), 0, reverse=True)
    want = b.copy()
    for k in range(1, 1000):
        want[k] += a[k] * want[k - 1]

    np.testing.assert_allclose(evaluate(graph, told), want, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(evaluate(graph, back)[::-1], want, rtol=1e-12, atol=1e-14)
