"""Jacobian and Hessian times vectors, against the gradients of first and second order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import actorflow as af
from actorflow import errors
from actorflow.graph.slices import IndexedSlices
from tests.graph.programs import Program, programs
from tests.support.reference import evaluate
from tests.support.sessions import run_step
from tests.support.strategies import examples

FEW = settings(max_examples=examples(30), deadline=None)


def directions(program: Program, seed: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.standard_normal((2, 2)) for _ in program.feeds]


@FEW
@given(program=programs(), seed=st.integers(0, 99))
def test_pushing_forward_and_pulling_back_are_adjoint(program: Program, seed: int) -> None:
    """<u, J v> = <Jᵀ u, v>, for a y of two axes."""
    graph, xs, vs = program.graph, list(program.feeds), directions(program, seed)
    u = np.array([[0.5, -1.0], [2.0, 0.25]])
    with graph:
        y = af.tanh(program.loss) * np.ones((2, 2)) + program.loss
        pulled = af.gradients(y, xs, u)
        (pushed,) = af.autodiff.jvp(y, xs, vs)

    if all(g is None for g in pulled):
        assert pushed is None
        return
    made = evaluate(graph, [g for g in pulled if g is not None], program.feeds)
    here = sum(
        np.sum(g * v)
        for g, v in zip(made, (v for g, v in zip(pulled, vs, strict=True) if g is not None), strict=True)
    )
    there = 0.0 if pushed is None else np.sum(u * evaluate(graph, pushed, program.feeds))
    np.testing.assert_allclose(there, here, rtol=1e-9, atol=1e-12)


@FEW
@given(program=programs(max_ops=6), seed=st.integers(0, 99))
def test_a_push_is_the_change_that_differences_measure(program: Program, seed: int) -> None:
    graph, xs, vs = program.graph, list(program.feeds), directions(program, seed)
    with graph:
        (pushed,) = af.autodiff.jvp(program.loss, xs, vs)
    moved = [
        {x: a + s * 1e-6 * v for (x, a), v in zip(program.feeds.items(), vs, strict=True)} for s in (1, -1)
    ]

    ahead, behind = (evaluate(graph, program.loss, feeds) for feeds in moved)

    told = 0.0 if pushed is None else evaluate(graph, pushed, program.feeds)
    np.testing.assert_allclose(told, (ahead - behind) / 2e-6, rtol=1e-5, atol=1e-6)


@FEW
@given(program=programs(max_ops=6), seed=st.integers(0, 99))
def test_a_product_with_the_hessian_is_the_sum_over_its_columns(program: Program, seed: int) -> None:
    graph, xs, vs = program.graph, list(program.feeds), directions(program, seed)
    with graph:
        products = af.autodiff.hessian_vector_product(program.loss, xs, vs)
        expected: list[Any] = [np.zeros((2, 2)) for _ in xs]
        grads = af.gradients(program.loss, xs)
        for grad, v in zip(grads, vs, strict=True):
            for at in np.ndindex(2, 2):
                column = [None] * len(xs) if grad is None else af.gradients(grad[at], xs)
                for k, part in enumerate(column):
                    if part is not None:
                        expected[k] = expected[k] + v[at] * evaluate(graph, part, program.feeds)

    for product, want in zip(products, expected, strict=True):
        told = np.zeros((2, 2)) if product is None else evaluate(graph, product, program.feeds)
        np.testing.assert_allclose(told, want, rtol=1e-9, atol=1e-12)


def test_nothing_flows_where_nothing_depends() -> None:
    with af.Graph():
        x, other = af.placeholder("float64", (2,), name="x"), af.placeholder("float64", (2,), name="other")
        one = np.ones(2)

        pushed = af.autodiff.jvp([af.sum(x), af.sum(other), af.sign(x)], x, one)
        products = af.autodiff.hessian_vector_product(af.sum(x * x), [x, other], [one, one])

        assert [p is None for p in pushed] == [False, True, True]
        assert [p is None for p in products] == [False, True]
        assert af.autodiff.hessian_vector_product(af.sum(x * 2.0), x, one) == [None]
        assert af.autodiff.hessian_vector_product(af.sum(other), x, one) == [None]


def test_a_table_is_pushed_along_and_its_hessian_stays_sparse() -> None:
    at, v = np.arange(10.0).reshape(5, 2), np.linspace(-1, 1, 10).reshape(5, 2)
    with af.Graph() as graph:
        table = af.placeholder("float64", (5, 2), name="table")
        rows = af.gather(table, [1, 3, 1])
        before = len(graph)
        (pushed,) = af.autodiff.jvp(af.square(rows), table, v)
        (product,) = af.autodiff.hessian_vector_product(af.sum(rows * rows * rows), table, v)
        assert isinstance(product, IndexedSlices)
        built = {out.shape for node in graph.nodes[before:] if node.op != "constant" for out in node.outputs}

    assert (5, 2) not in built
    np.testing.assert_allclose(evaluate(graph, pushed, {table: at}), 2 * at[[1, 3, 1]] * v[[1, 3, 1]])
    expected = 6 * at * v * np.array([0, 2, 0, 1, 0])[:, None]
    np.testing.assert_allclose(evaluate(graph, product, {table: at}), expected)


def test_variables_may_be_the_xs() -> None:
    with af.Graph() as graph:
        w, b = af.Variable([1.0, 2.0], name="w"), af.Variable(3.0, name="b")
        y = af.sum(w * w * w) * b
        fetches = [
            af.autodiff.jvp(y, [w, b], [[1.0, 0.0], 2.0]),
            af.autodiff.hessian_vector_product(y, [w, b], [[1.0, 0.0], 2.0]),
        ]

    (pushed,), (to_w, to_b) = run_step(graph, fetches)

    assert pushed == 9 + 18
    assert to_w.tolist() == [18 + 6, 24]
    assert to_b == 3


def test_a_push_can_be_differentiated_itself() -> None:
    with af.Graph() as graph:
        x = af.placeholder("float64", (), name="x")
        (first,) = af.autodiff.jvp(x * x * x, x, np.float64(1))
        (second,) = af.autodiff.jvp(first, x, np.float64(1))
        (third,) = af.gradients(second, x)

    assert evaluate(graph, [first, second, third], {x: 2.0}) == [12, 12, 6]


@pytest.mark.parametrize("verb", [af.autodiff.jvp, af.autodiff.hessian_vector_product])
def test_misuse_is_named(verb: Any) -> None:
    with af.Graph():
        x = af.placeholder("float32", (2,), name="x")
        with pytest.raises(
            errors.GradientError, match=f"{verb.__name__} takes one v for each x, got 2 for 1"
        ):
            verb(af.sum(x * x), x, [1.0, 2.0])
        with pytest.raises(errors.SpecError, match=r"v for 'x' must fit \(2,\) float32, got \(3,\) float32"):
            verb(af.sum(x * x), x, np.ones(3, "float32"))
        with pytest.raises(errors.GradientError, match="gradients are of real numbers, got complex"):
            verb(af.sum(af.real(af.math.complex(x, x))), x, np.ones(2, "float32"))
        with pytest.raises(errors.GradientError, match="go to tensors and variables, got str"):
            verb(af.sum(x), ["x"], [1.0])
        with pytest.raises(errors.GradientError, match="ys of gradients are floating"):
            verb(af.cast(x, "int32"), x, np.ones(2, "float32"))


def sparse(t: Any) -> Any:
    return af.gather(t, [0, 1, 1])


@pytest.mark.parametrize("f", [sparse, lambda t: t + 0.0], ids=["sparse", "dense"])
@pytest.mark.parametrize("verb", [af.autodiff.jvp, af.autodiff.hessian_vector_product])
@pytest.mark.parametrize(
    ("v", "got"),
    [
        (np.ones((5, 2)), r"\(5, 2\) float64"),
        (np.ones((2, 2)), r"\(2, 2\) float64"),
        (np.ones((3, 1)), r"\(3, 1\) float64"),
        (np.ones(2), r"\(2,\) float64"),
        (np.float32(1.0), r"\(\) float32"),
        (1.0, r"\(\) float64"),
        (np.ones((3, 2), "float32"), r"\(3, 2\) float32"),
        (np.ones((3, 2), "int64"), r"\(3, 2\) int64"),
    ],
)
def test_a_direction_of_another_spec_is_refused_for_sparse_gradients_as_for_dense_ones(
    f: Any, verb: Any, v: Any, got: str
) -> None:
    with af.Graph():
        t = af.placeholder("float64", (3, 2), name="table")
        y = af.sum(af.square(f(t)), name="loss")
        with pytest.raises(
            errors.SpecError, match=rf"{verb.__name__}: v for 'table' must fit \(3, 2\) float64, got {got}\n"
        ) as caught:
            verb(y, t, v)

    assert caught.value.hint == "give it the shape and dtype of 'table'"
    assert "test_forward.py" in str(caught.value.where)


@pytest.mark.parametrize("verb", [af.autodiff.jvp, af.autodiff.hessian_vector_product])
def test_a_direction_that_is_a_tensor_or_variable_is_named(verb: Any) -> None:
    with af.Graph():
        w, along = af.Variable(np.zeros((3, 2)), name="w"), af.placeholder("float64", (None, 3), name="along")
        other = af.Variable(np.zeros(2), name="other")
        y = af.sum(af.square(sparse(w)))
        with pytest.raises(errors.SpecError, match=r"v 'along' for 'w' must fit .*, got \(None, 3\) float64"):
            verb(y, w, along)
        with pytest.raises(errors.SpecError, match="v 'other' for 'w' must fit"):
            verb(y, w, other)
        with pytest.raises(
            errors.GradientError, match=r"needs a direction for 'w' \(3, 2\) float64, got None"
        ):
            verb(y, w, [None])


def test_a_direction_takes_the_dtype_of_its_x_from_lists_and_sizes_may_be_unknown() -> None:
    with af.Graph() as graph:
        t, v = af.placeholder("float64", (None, 2), name="t"), af.placeholder("float64", None, name="v")
        products = [af.autodiff.jvp(af.square(sparse(t)), t, d)[0] for d in ([[[0.1, 0.0], [0.0, 1.0]]], v)]
    at = np.arange(4.0).reshape(2, 2)

    first, second = evaluate(graph, products, {t: at, v: np.array([[0.1, 0.0], [0.0, 1.0]])})

    assert first.tolist() == second.tolist() == [[0, 0], [0, 6], [0, 6]]


def test_a_direction_may_be_slices() -> None:
    with af.Graph() as graph:
        t = af.placeholder("float64", (3, 2), name="t")
        along = IndexedSlices(np.ones((2, 2)), [1, 1], (3, 2))
        (found,) = af.autodiff.hessian_vector_product(af.sum(sparse(t) ** 3), t, along)

    assert evaluate(graph, found, {t: np.ones((3, 2))}).tolist() == [[0, 0], [24, 24], [0, 0]]
