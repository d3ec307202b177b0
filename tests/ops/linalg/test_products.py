"""Values and refusals of the ops of matrices that the conformance suite does not see."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import actorflow.ops as af
from actorflow.errors import GradientError, KernelError, SpecError
from actorflow.graph.builder import Tensor
from actorflow.graph.graph import Graph
from tests.ops.test_conformance import check_gradient
from tests.support.placeholders import anything, f32, i32
from tests.support.reference import evaluate

rng = np.random.default_rng(5)


def value(build: Callable[..., Any], *arrays: Any) -> Any:
    """What the function gives for constants."""
    with Graph() as graph:
        return evaluate(graph, build(*map(af.constant, arrays)))


REFUSED: list[tuple[Callable[[], Any], str]] = [
    (lambda: af.matrix_transpose(f32(3)), "matrix_transpose needs at least two axes, got (3,) float32"),
    (lambda: af.vecdot(f32(2, 3), f32(4)), "needs equal sizes along axis -1, got (2, 3) float32 and (4,) float32"),
    (lambda: af.vecdot(f32(2, 3), f32(3), 0), "vecdot counts its axis from the back, since leading axes broadcast, got 0"),
    (lambda: af.vecdot(f32(), f32(3)), "vecdot needs axis -1 in both inputs, got () float32 and (3,) float32"),
    (lambda: af.vecdot(f32(2, 3), f32(4, 3)), "shapes must broadcast, got (2,) and (4,)"),
    (lambda: af.vecdot(f32(3), i32(3)), "vecdot needs equal dtypes, got (3,) float32 and (3,) int32"),
    (lambda: af.cross(f32(2), f32(2)), "cross needs size 3 along axis -1, got (2,) float32 and (2,) float32"),
    (lambda: af.outer(f32(2, 3), f32(3)), "outer takes two vectors, got (2, 3) float32 and (3,) float32"),
    (lambda: af.matrix_band_part(f32(3), 0, 0), "matrix_band_part needs at least two axes, got (3,) float32"),
    (lambda: af.matrix_trace(af.equal(f32(2, 2), 0.0)), "matrix_trace takes numbers, got (2, 2) bool"),
    (lambda: af.inv(f32(2, 3)), "inv needs square matrices, got (2, 3) float32"),
    (lambda: af.det(f32(4)), "det needs at least two axes, got (4,) float32"),
    (lambda: af.slogdet(i32(2, 2)), "slogdet takes floating or complex numbers, got (2, 2) int32"),
    (lambda: af.solve(f32(3, 3), f32(3)), "solve needs at least two axes, got (3,) float32"),
    (lambda: af.solve(f32(3, 3), f32(2, 3)), "solve needs as many rows in b as in a, got (3, 3) and (2, 3)"),
    (lambda: af.solve(f32(3, 3), f32(2, 3)), "transpose b with af.matrix_transpose"),
    (lambda: af.solve(f32(2, 3, 3), f32(4, 3, 1)), "shapes must broadcast, got (2,) and (4,)"),
    (
        lambda: af.solve(f32(3, 3), i32(3, 1)),
        "solve needs equal dtypes, got (3, 3) float32 and (3, 1) int32",
    ),
    (lambda: af.triangular_solve(f32(3, 2), f32(3, 1)), "triangular_solve needs square matrices, got (3, 2) float32"),
    (lambda: af.cholesky(f32(2, 3)), "cholesky needs square matrices, got (2, 3) float32"),
    (lambda: af.cholesky(i32(2, 2)), "cholesky takes floating or complex numbers, got (2, 2) int32"),
    (lambda: af.qr(f32(3)), "qr needs at least two axes, got (3,) float32"),
    (lambda: af.svd(i32(3, 3)), "svd takes floating or complex numbers, got (3, 3) int32"),
    (lambda: af.eigh(f32(3, 2)), "eigh needs square matrices, got (3, 2) float32"),
    (lambda: af.pinv(i32(3, 3)), "pinv takes floating or complex numbers, got (3, 3) int32"),
    (lambda: af.lstsq(f32(4, 2), f32(3, 1)), "lstsq needs equal inner dimensions, got (2, 4) and (3, 1)"),
    (lambda: af.matrix_norm(f32(3)), "matrix_norm needs at least two axes, got (3,) float32"),
    (
        lambda: af.matrix_norm(f32(3, 3), ord=3),
        "matrix_norm knows 'fro', 'nuc', 1, -1, 2, -2, inf and -inf, got 3",
    ),
    (lambda: af.matrix_norm(f32(0, 3), ord=2), "matrix_norm needs at least one element to fold"),
    (lambda: af.matrix_power(f32(2, 3), 2), "matrix_power needs square matrices, got (2, 3) float32"),
    (lambda: af.matrix_power(i32(2, 2), -1), "matrix_power takes floating or complex numbers, got (2, 2) int32"),
    (lambda: af.matrix_exp(f32(2, 3)), "matrix_exp needs square matrices, got (2, 3) float32"),
]  # fmt: skip


@pytest.mark.parametrize(("build", "said"), REFUSED, ids=[said for _, said in REFUSED])
def test_what_cannot_be_is_refused_while_the_graph_is_built(build: Callable[[], Any], said: str) -> None:
    with Graph(), pytest.raises(SpecError) as caught:
        build()

    assert said in str(caught.value)


PARTIAL: list[tuple[Callable[[], Any], str]] = [
    (lambda: af.matrix_transpose(f32(None, 2, 3)), "(None, 3, 2) float32"),
    (lambda: af.matrix_transpose(anything()), "(...) float32"),
    (lambda: af.vecdot(f32(None, 3), f32(4, None)), "(4,) float32"),
    (lambda: af.cross(f32(None), f32(2, None)), "(2, 3) float32"),
    (lambda: af.matrix_trace(anything()), "(...) float32"),
    (lambda: af.inv(f32(None, 3, None)), "(None, 3, 3) float32"),
    (lambda: af.det(f32(None, None, None)), "(None,) float32"),
    (lambda: af.slogdet(af.placeholder("complex64", (2, 2)))[1], "() float32"),
    (lambda: af.solve(f32(None, None), f32(2, 3, None)), "(2, 3, None) float32"),
    (lambda: af.qr(f32(None, 2))[1], "(None, 2) float32"),
    (lambda: af.qr(f32(0, None))[0], "(0, 0) float32"),
    (lambda: af.svd(f32(None, 5, 3))[2], "(None, 3, 3) float32"),
    (lambda: af.svdvals(af.placeholder("complex128", (4, 2))), "(2,) float64"),
    (lambda: af.matrix_rank(anything()), "(...) int64"),
    (lambda: af.matrix_norm(f32(None, 2, 3), keepdims=True), "(None, 1, 1) float32"),
]


@pytest.mark.parametrize(("build", "said"), PARTIAL, ids=[str(i) for i in range(len(PARTIAL))])
def test_specs_say_all_that_is_known(build: Callable[[], Any], said: str) -> None:
    with Graph():
        assert str(build().spec) == said


FAILS: list[tuple[Callable[[Tensor], Any], Any, str]] = [
    (af.inv, np.zeros((2, 2)), "inv needs invertible matrices, got (2, 2) float64: singular matrix"),
    (af.inv, np.stack([np.eye(2), np.ones((2, 2))]), "the first at index (1,)"),
    (lambda x: af.solve(x, np.ones((2, 1))), np.zeros((2, 2)), "solve needs invertible matrices, got (2, 2) float64"),
    (lambda x: af.triangular_solve(x, np.ones((2, 1))), np.diag([1.0, 0]), "triangular_solve needs diagonals without zeros"),
    (af.cholesky, -np.eye(2), "cholesky needs positive definite matrices, got (2, 2) float64"),
    (lambda x: af.svd(x)[1], np.full((2, 2), np.nan), "svd needs numbers that are finite, got (2, 2) float64"),
    (lambda x: af.gradients(af.det(x), x)[0], np.ones((2, 2)), "inv needs invertible matrices"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("build", "x", "said"), FAILS, ids=[f"{said} {i}" for i, (_, _, said) in enumerate(FAILS)]
)
def test_what_has_no_answer_fails_in_the_step(build: Callable[[Tensor], Any], x: Any, said: str) -> None:
    with Graph() as graph:
        y = build(af.constant(x))

        with pytest.raises(KernelError) as caught:
            evaluate(graph, y)

    assert said in str(caught.value)


def test_a_triangle_of_no_interest_is_not_read() -> None:
    a = np.tril(rng.normal(size=(3, 3))) + 3 * np.eye(3)
    b = rng.normal(size=(3, 2))
    dirty = a + np.triu(np.full((3, 3), np.nan), 1)

    np.testing.assert_allclose(value(af.triangular_solve, dirty, b), np.linalg.solve(a, b), rtol=1e-13)


@pytest.mark.parametrize("n", [1, 31, 32, 33, 100, 257])
@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("adjoint", [True, False])
def test_large_triangles_are_solved_block_by_block(n: int, lower: bool, adjoint: bool) -> None:
    a = rng.normal(size=(n, n)) / n + 1j * rng.normal(size=(n, n)) / n + 2 * np.eye(n)
    b = rng.normal(size=(n, 3)) + 0j
    plain = np.tril(a) if lower else np.triu(a)

    x = value(lambda a, b: af.triangular_solve(a, b, lower=lower, adjoint=adjoint), a, b)

    np.testing.assert_allclose((plain.conj().T if adjoint else plain) @ x, b, atol=1e-13)


@pytest.mark.parametrize(("a", "b"), [((3, 3), (5, 4, 3, 2)), ((5, 1, 3, 3), (4, 3, 2)), ((4, 3, 3), (3, 2))])
def test_leading_axes_of_systems_broadcast(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    matrices, right = rng.normal(size=a) + 4 * np.eye(3), rng.normal(size=b)

    np.testing.assert_allclose(value(af.solve, matrices, right), np.linalg.solve(matrices, right), rtol=1e-12)


@pytest.mark.parametrize("known", [True, False])
def test_two_leading_axes_of_products_broadcast(known: bool) -> None:
    x, y = rng.normal(size=(2, 1, 3, 2)), rng.normal(size=(4, 2, 2))
    with Graph() as graph:
        a, b = (af.placeholder("float64", z.shape if known else None) for z in (x, y))
        product = af.matmul(a, b)
        check_gradient(graph, af.sum(product * product), [a, b], [x, y])

    np.testing.assert_allclose(evaluate(graph, product, {a: x, b: y}), x @ y, rtol=1e-13)


@pytest.mark.parametrize("upper", [True, False])
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_a_cholesky_factor_solves_its_system(upper: bool, dtype: str) -> None:
    half = (rng.normal(size=(2, 4, 4)) + 1j * rng.normal(size=(2, 4, 4))) + 4 * np.eye(4)
    half = half if dtype == "complex128" else half.real
    a, b = half @ half.conj().mT, rng.normal(size=(2, 4, 1)).astype(dtype)

    x = value(lambda a, b: af.cholesky_solve(af.cholesky(a, upper=upper), b, upper=upper), a, b)

    np.testing.assert_allclose(a @ x, b, atol=1e-12)


def test_of_a_matrix_that_is_not_symmetric_the_symmetric_part_counts() -> None:
    x = np.array([[2.0, 1.0], [0.0, 2.0]])
    even = (x + x.T) / 2

    np.testing.assert_array_equal(value(af.cholesky, x), np.linalg.cholesky(even))
    np.testing.assert_array_equal(value(af.eigvalsh, x), np.linalg.eigvalsh(even))


def test_determinants_of_no_rows_are_one_and_of_singular_matrices_zero() -> None:
    assert value(af.det, np.zeros((2, 0, 0))).tolist() == [1, 1]
    with Graph() as graph:
        sign, log = evaluate(graph, af.slogdet(af.constant(np.zeros((2, 2)))))
    assert (sign, log) == (0, -np.inf)


def test_the_gradient_of_a_wide_qr_needs_its_sizes() -> None:
    x = rng.normal(size=(2, 4))
    with Graph() as graph:
        known, unknown = af.placeholder("float64", (2, 4)), af.placeholder("float64", (None, 4))
        q, r = af.qr(known)
        loss = af.sum(q * np.cos(np.arange(4.0)).reshape(2, 2)) + af.sum(
            r * np.cos(np.arange(8.0)).reshape(2, 4)
        )
        (grad,) = check_gradient(graph, loss, [known], [x])
        assert grad is not None
        check_gradient(graph, af.sum(grad * np.sin(np.arange(8.0)).reshape(2, 4)), [known], [x])
        (late,) = af.gradients(af.sum(af.qr(unknown)[1]), unknown)

    with pytest.raises(SpecError, match="triangular_solve needs square matrices"):
        evaluate(graph, late, {unknown: x})


def test_the_gradient_of_singular_values_alone_has_no_trouble_with_equal_ones() -> None:
    with Graph() as graph:
        x = af.placeholder("float64", (3, 3))
        (through_svd,) = af.gradients(af.sum(af.svd(x)[1]), x)
        (through_values,) = af.gradients(af.matrix_norm(x, "nuc"), x)

    for grad in evaluate(graph, [through_svd, through_values], {x: np.eye(3)}):
        np.testing.assert_allclose(grad, np.eye(3), atol=1e-15)


def test_the_norm_of_a_matrix_of_zeros_has_gradient_zero() -> None:
    with Graph() as graph:
        x = af.placeholder("float64", (3, 2))
        (grad,) = af.gradients(af.matrix_norm(x), x)

    np.testing.assert_array_equal(evaluate(graph, grad, {x: np.zeros((3, 2))}), np.zeros((3, 2)))


@pytest.mark.parametrize("order", ["fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf])
@pytest.mark.parametrize("keepdims", [True, False])
def test_norms_are_those_of_numpy_and_have_gradients(order: Any, keepdims: bool) -> None:
    x = rng.normal(size=(2, 3, 4))
    with Graph() as graph:
        given = af.placeholder("float64", (None, 3, 4))
        norm = af.matrix_norm(given, order, keepdims)
        check_gradient(graph, af.sum(norm), [given], [x])

    told = np.linalg.norm(x, order, axis=(-2, -1), keepdims=keepdims)
    np.testing.assert_allclose(evaluate(graph, norm, {given: x}), told, rtol=1e-13)


@pytest.mark.parametrize("n", [-3, -1, 0, 1, 2, 3, 7, 8])
def test_powers_are_those_of_numpy_and_have_gradients(n: int) -> None:
    x = rng.normal(size=(2, 3, 3)) / 2 + np.eye(3)
    with Graph() as graph:
        given = af.placeholder("float64", (None, 3, 3))
        power = af.matrix_power(given, n)
        if n:
            check_gradient(graph, af.sum(power * np.cos(np.arange(9.0)).reshape(3, 3)), [given], [x])

    np.testing.assert_allclose(evaluate(graph, power, {given: x}), np.linalg.matrix_power(x, n), rtol=1e-11)


def test_a_high_power_costs_few_products() -> None:
    with Graph() as graph:
        af.matrix_power(f32(3, 3), 1000)

    assert sum(n.op == "matmul" for n in graph.nodes) == 14


@pytest.mark.parametrize("offset", [-4, -1, 0, 1, 3])
def test_traces_are_those_of_numpy(offset: int) -> None:
    x = rng.integers(-9, 9, (2, 3, 4))

    np.testing.assert_array_equal(
        value(lambda x: af.matrix_trace(x, offset), x), np.trace(x, offset, axis1=-2, axis2=-1)
    )


@pytest.mark.parametrize(
    "bounds", [(None, 0), (0, None), (None, -1), (-1, 1), (1, 2), (0, 0), (None, None), (-2, 1)]
)
def test_a_band_is_what_lies_between_two_diagonals(bounds: tuple[Any, Any]) -> None:
    lower, upper = bounds
    x = rng.normal(size=(4, 5))
    apart = np.arange(5) - np.arange(4)[:, None]
    inside = (apart >= (-9 if lower is None else -lower)) & (apart <= (9 if upper is None else upper))

    np.testing.assert_array_equal(value(lambda x: af.matrix_band_part(x, *bounds), x), np.where(inside, x, 0))


def test_the_exponential_undoes_the_logarithm_of_a_turn() -> None:
    angle = np.array([0.3, 2.0, 100.0])
    x = angle[:, None, None] * np.array([[0, -1], [1, 0]])

    turned = value(af.matrix_exp, x)

    np.testing.assert_allclose(turned[:, 0, 0], np.cos(angle), atol=1e-13)
    np.testing.assert_allclose(turned[:, 1, 0], np.sin(angle), atol=1e-13)


def test_the_exponential_of_nan_is_nan() -> None:
    assert np.isnan(value(af.matrix_exp, np.full((2, 2), np.nan))).all()


def test_ranks_and_pseudo_inverses_take_what_is_small_for_zero() -> None:
    x = np.outer([1.0, 2.0, 3.0], [1.0, 1.0]) + 1e-9 * rng.normal(size=(3, 2))

    assert value(af.matrix_rank, x) == 2
    assert value(lambda x: af.matrix_rank(x, 1e-6), x) == 1
    assert value(af.matrix_rank, np.outer([1.0, 2.0, 3.0], [0.1, 0.7]).astype(np.float16)) == 1
    assert value(af.matrix_rank, np.zeros((2, 0, 3))).tolist() == [0, 0]
    np.testing.assert_allclose(
        value(lambda x: af.pinv(x, 1e-6), x), np.linalg.pinv(x, rcond=1e-6), rtol=1e-12, atol=1e-15
    )


def test_least_squares_are_those_of_numpy() -> None:
    a, b = rng.normal(size=(5, 3)), rng.normal(size=(5, 2))
    a[:, 2] = a[:, 0]

    np.testing.assert_allclose(value(af.lstsq, a, b), np.linalg.lstsq(a, b, rcond=None)[0], rtol=1e-12)


def test_the_outer_product_is_of_vectors() -> None:
    with Graph() as graph:
        a, b = af.placeholder("float64", (3,)), af.placeholder("float64", (None,))
        y = af.outer(a, b)
        check_gradient(graph, af.sum(y * np.array([1.0, -2.0])), [a, b], [np.ones(3), np.array([3.0, 4.0])])

    assert evaluate(graph, y, {a: [1, 2, 3], b: [5, 7]}).tolist() == [[5, 7], [10, 14], [15, 21]]


@pytest.mark.parametrize(
    "build",
    [af.inv, af.det, lambda x: af.slogdet(x)[1], lambda x: af.qr(x)[1], af.svdvals, af.eigvalsh, af.pinv],
)
def test_complex_matrices_have_values_and_no_gradient(build: Callable[[Tensor], Tensor]) -> None:
    x = rng.normal(size=(3, 3)) + 1j * rng.normal(size=(3, 3))
    with Graph() as graph:
        given = af.placeholder("complex128", (3, 3))
        y = build(given)
        assert np.isfinite(evaluate(graph, y, {given: x})).all()

        with pytest.raises(
            GradientError, match="gradients are of real numbers, got complex ones on the path"
        ):
            af.gradients(y, given)
