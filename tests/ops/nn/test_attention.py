"""Attention against a slow loop in float64: masks of both kinds, causal, broadcast, halves."""

from __future__ import annotations

from math import sqrt
from typing import Any

import numpy as np
import pytest

import actorflow.kernels  # noqa: F401  fills the table
import actorflow.ops as af
from actorflow.errors import SpecError
from actorflow.graph.graph import Graph
from tests.ops.test_conformance import check_gradient, weighted
from tests.support.reference import evaluate

rng = np.random.default_rng(0)
Q, K, V = (rng.standard_normal((2, 3, n, d)) for n, d in ((4, 5), (6, 5), (6, 2)))
SOME = rng.random((2, 1, 4, 6)) < 0.6
SOME[:, :, 1] = False  # one query of each example sees nothing
BIAS = np.where(SOME, rng.standard_normal(SOME.shape), -np.inf)


def slow(q: Any, k: Any, v: Any, bias: Any = 0.0, scale: float | None = None) -> np.ndarray:
    """One query at a time, over the keys that it sees."""
    lead = np.broadcast_shapes(q.shape[:-2], k.shape[:-2], v.shape[:-2])
    q, k, v = (np.broadcast_to(x, lead + x.shape[-2:]) for x in (q, k, v))
    bias = np.broadcast_to(bias, (*lead, q.shape[-2], k.shape[-2]))
    out = np.zeros((*lead, q.shape[-2], v.shape[-1]))
    for at in np.ndindex(*lead, q.shape[-2]):
        seen = bias[at] > -np.inf
        if seen.any():
            scores = k[at[:-1]][seen] @ q[at] * (1 / sqrt(q.shape[-1]) if scale is None else scale)
            e = np.exp(scores + bias[at][seen])
            out[at] = e @ v[at[:-1]][seen] / e.sum()
    return out


def attend(*arrays: np.ndarray, open_sizes: bool = False, **options: Any) -> Any:
    with Graph() as graph:
        shapes = [(None,) * (a.ndim - 1) + a.shape[-1:] if open_sizes else a.shape for a in arrays]
        xs: list[Any] = [af.placeholder(a.dtype, s) for a, s in zip(arrays, shapes, strict=True)]
        y = af.scaled_dot_product_attention(*xs, **options)
    return evaluate(graph, y, dict(zip(xs, arrays, strict=True)))


CAUSAL = np.where(np.arange(4)[:, None] >= np.arange(6), 0.0, -np.inf)


@pytest.mark.parametrize("open_sizes", [False, True])
def test_it_is_the_slow_loop(open_sizes: bool) -> None:
    def close(made: Any, wanted: np.ndarray) -> None:
        np.testing.assert_allclose(made, wanted, rtol=1e-10, atol=1e-13)

    close(attend(Q, K, V, open_sizes=open_sizes), slow(Q, K, V))
    close(attend(Q, K, V, scale=0.3, open_sizes=open_sizes), slow(Q, K, V, scale=0.3))
    close(attend(Q, K, V, SOME, open_sizes=open_sizes), slow(Q, K, V, np.where(SOME, 0, -np.inf)))
    close(attend(Q, K, V, BIAS, open_sizes=open_sizes), slow(Q, K, V, BIAS))
    close(attend(Q, K, V, is_causal=True, open_sizes=open_sizes), slow(Q, K, V, CAUSAL))
    close(attend(Q, K, V, BIAS, is_causal=True, open_sizes=open_sizes), slow(Q, K, V, BIAS + CAUSAL))
    close(attend(Q[0, 0], K[0, 0], V[0, 0], open_sizes=open_sizes), slow(Q[0, 0], K[0, 0], V[0, 0]))
    close(attend(Q, K[:, :1], V[:, :1], open_sizes=open_sizes), slow(Q, K[:, :1], V[:, :1]))


def test_a_query_that_sees_nothing_gets_zeros_and_gives_no_gradient() -> None:
    with Graph() as graph:
        q, k, v = map(af.constant, (Q, K, V))
        y = af.scaled_dot_product_attention(q, k, v, SOME)
        value, to_q, *_ = evaluate(graph, [y, *af.gradients(y * y, [q, k, v])])
        nothing = af.scaled_dot_product_attention(q, k, v, np.full((4, 6), -np.inf))
        dead, *grads = evaluate(graph, [nothing, *af.gradients(nothing, [q, k, v])])

    np.testing.assert_array_equal(value[:, :, 1], 0)
    np.testing.assert_array_equal(to_q[:, :, 1], 0)
    assert not any(a.any() for a in (dead, *grads))


@pytest.mark.parametrize("options", [{}, {"is_causal": True}])
@pytest.mark.parametrize("mask", [None, SOME, rng.standard_normal((3, 1, 6))])
def test_gradients_of_both_orders_are_what_differences_measure(mask: Any, options: dict[str, Any]) -> None:
    arrays = [Q, K, V] if mask is None else [Q, K, V, mask]
    with Graph() as graph:
        xs: list[Any] = [af.placeholder(a.dtype, a.shape) for a in arrays]
        loss = weighted([af.scaled_dot_product_attention(*xs, **options)], [(2, 3, 4, 2)], 1.0)

    grads = check_gradient(graph, loss, xs, arrays)

    found = [
        (g, a.shape)
        for g, a in zip(grads, [a for a in arrays if a.dtype != bool], strict=True)
        if g is not None
    ]
    with graph:
        slope = weighted([g for g, _ in found], [s for _, s in found], 0.7)
    check_gradient(graph, slope, xs, arrays)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_scores_of_halves_are_computed_in_float32(dtype: str) -> None:
    """Products of 300 with 300 overflow in float16, and are equal in bfloat16 where they differ by 1."""
    with Graph() as graph:
        q = af.cast(af.constant([[300.0]]), dtype)
        k = af.cast(af.constant([[300.0], [299.0]]), dtype)
        v = af.cast(af.constant([[1.0], [0.0]]), dtype)
        y = af.scaled_dot_product_attention(q, k, v, np.array([0, -np.inf], "float32"))

    assert evaluate(graph, y).dtype.name == dtype
    np.testing.assert_array_equal(evaluate(graph, y).astype("float32"), [[1]])


def test_huge_scores_do_not_overflow() -> None:
    y = attend(*(x.astype("float32") * 1e8 for x in (Q, K, V)), SOME)

    assert np.isfinite(y).all()


def test_weights_are_dropped_in_training_alone() -> None:
    ones = np.ones((1, 200, 4), "float32")

    dropped = attend(ones, ones, ones, rate=0.5, seed=1)
    kept = attend(ones, ones, ones, rate=0.5, training=False)

    np.testing.assert_allclose(kept, 1, rtol=1e-6)
    assert 0.02 < dropped.std() < 0.2
    assert abs(dropped.mean() - 1) < 0.05


def images(*shape: int | None, dtype: str = "float32") -> Any:
    return af.placeholder(dtype, shape)


def build(q: Any, k: Any, v: Any, *more: Any) -> Any:
    return lambda: af.scaled_dot_product_attention(images(*q), images(*k), images(*v), *more)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (build((4, 5), (6, 4), (6, 2)), r"queries and keys of equal depth, got \(4, 5\) float32 and \(6, 4\) float32"),
        (build((4, 5), (6, 5), (5, 2)), r"as many values as keys, got \(6, 5\) float32 and \(5, 2\) float32"),
        (build((5,), (6, 5), (6, 2)), r"attention needs the last axes \(length, depth\), got \(5,\)"),
        (build((4, 5), (6, 5), (6, 2), np.ones((4, 5), bool)), r"must broadcast to scores \(4, 6\), got \(4, 5\) bool"),
        (build((4, 5), (6, 5), (6, 2), np.ones((3, 4, 6), bool)), r"must broadcast to scores \(4, 6\), got \(3, 4, 6\) bool"),
        (build((4, 5), (6, 5), (6, 2), np.ones((4, 6), "int32")), "bool or floating like the queries"),
        (build((4, None), (6, None), (6, 2)), "needs a known depth to scale by its root"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_at_the_users_line(make: Any, message: str) -> None:
    with Graph(), pytest.raises(SpecError, match=message) as caught:
        make()

    assert caught.value.where is not None
    assert "test_attention.py:" in (caught.value.where.defined_at or "")
