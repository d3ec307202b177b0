from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actorflow.arrays import as_dtype
from actorflow.errors import KernelError
from actorflow.kernels import nn
from actorflow.kernels.conv import windows_of

LAW = settings(max_examples=60, deadline=None)
dims = st.integers(1, 3)
COUNTER = (1, 2, 3, 4)


@st.composite
def pools(draw: st.DrawFn) -> tuple[np.ndarray, dict[str, Any]]:
    """Images with many ties, and windows that fit on them."""
    size, padding = draw(st.tuples(dims, dims)), draw(st.sampled_from(["SAME", "VALID"]))
    least = size if padding == "VALID" else (1, 1)
    height, width = (draw(st.integers(low, low + 4)) for low in least)
    shape = (draw(st.integers(0, 2)), height, width, draw(dims))
    x = np.random.default_rng(draw(st.integers(0, 99))).integers(-2, 3, shape).astype("float32")
    return x, {"size": size, "strides": draw(st.tuples(dims, dims)), "padding": padding}


def first_maxima(x: np.ndarray, attrs: dict[str, Any]) -> dict[tuple[int, ...], tuple[int, ...]]:
    """For each window the place of its first maximum, found element by element."""
    at = windows_of(x.shape, attrs["size"], attrs["strides"], attrs["padding"])
    found: dict[tuple[int, ...], tuple[int, ...]] = {}
    for n, r, c, k in product(range(x.shape[0]), range(at.rows), range(at.columns), range(x.shape[3])):
        top, left = r * attrs["strides"][0] - at.top, c * attrs["strides"][1] - at.left
        places = [
            (n, i, j, k)
            for i in range(max(top, 0), min(top + attrs["size"][0], x.shape[1]))
            for j in range(max(left, 0), min(left + attrs["size"][1], x.shape[2]))
        ]
        found[n, r, c, k] = max(places, key=lambda p: x[p])  # max takes the first of equals
    return found


@LAW
@given(case=pools())
def test_max_pool_finds_the_largest_of_each_window(case) -> None:
    x, attrs = case

    y = nn.max_pool(x, **attrs)

    found = first_maxima(x, attrs)
    assert y.size == len(found)
    assert all(y[window] == x[place] for window, place in found.items())


@LAW
@given(case=pools())
def test_first_maximum_of_each_window_gets_its_gradient(case) -> None:
    x, attrs = case
    dy = np.random.default_rng(0).standard_normal(nn.max_pool(x, **attrs).shape)
    want = np.zeros(x.shape)
    for window, place in first_maxima(x, attrs).items():
        want[place] += dy[window]

    dx = nn.max_pool_grad(x, dy, **attrs)

    np.testing.assert_allclose(dx, want, rtol=1e-12)


@LAW
@given(case=pools())
def test_gather_takes_from_where_the_maximum_is(case) -> None:
    x, attrs = case
    values = np.random.default_rng(0).standard_normal(x.shape)

    taken = nn.max_pool_gather(x, values, **attrs)

    assert all(taken[window] == values[place] for window, place in first_maxima(x, attrs).items())


def test_a_window_with_nan_gives_nan_and_takes_no_gradient() -> None:
    x = np.array([[1, np.nan, 3, 4]], "float32").reshape(1, 1, 4, 1)
    attrs: dict[str, Any] = {"size": (1, 2), "strides": (1, 2), "padding": "VALID"}

    y = nn.max_pool(x, **attrs)
    dx = nn.max_pool_grad(x, np.ones_like(y), **attrs)
    taken = nn.max_pool_gather(x, np.full_like(x, 7), **attrs)

    np.testing.assert_array_equal(y.ravel(), [np.nan, 4])
    np.testing.assert_array_equal(dx.ravel(), [0, 0, 0, 1])
    np.testing.assert_array_equal(taken.ravel(), [0, 7])


def test_infinite_gradient_stays_at_its_maximum() -> None:
    x = np.array([1, 2], "float32").reshape(1, 1, 2, 1)

    dx = nn.max_pool_grad(
        x, np.full((1, 1, 1, 1), np.inf, "float32"), size=(1, 2), strides=(1, 2), padding="VALID"
    )

    np.testing.assert_array_equal(dx.ravel(), [0, np.inf])


def test_window_of_more_than_255_pixels_is_pooled() -> None:
    x = np.zeros((1, 17, 17, 1), "float32")
    x[0, 16, 15] = 1
    attrs: dict[str, Any] = {"size": (17, 17), "strides": (17, 17), "padding": "VALID"}

    dx = nn.max_pool_grad(x, np.full((1, 1, 1, 1), 5, "float32"), **attrs)

    assert np.flatnonzero(dx).tolist() == [16 * 17 + 15]


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_softmax_is_the_formula_in_float64(axis: int) -> None:
    x = np.random.default_rng(0).standard_normal((3, 4, 5))
    want = np.exp(x) / np.exp(x).sum(axis, keepdims=True)

    np.testing.assert_allclose(nn.softmax(x, axis=axis), want, rtol=1e-14)
    np.testing.assert_allclose(nn.log_softmax(x, axis=axis), np.log(want), rtol=1e-13)


def test_huge_logits_neither_overflow_nor_lose_digits() -> None:
    x = np.array([[1000, 0], [-1000, 0], [1e30, -1e30]], "float32")

    with np.errstate(over="raise", invalid="raise"):
        np.testing.assert_array_equal(nn.softmax(x, axis=1), [[1, 0], [0, 1], [1, 0]])
        np.testing.assert_array_equal(nn.log_softmax(x, axis=1)[:2], [[0, -1000], [-1000, 0]])
        loss = nn.softmax_cross_entropy(x, np.array([1, 0, 0]))
    np.testing.assert_array_equal(loss, [1000, 1000, 0])


def test_cross_entropy_is_minus_the_log_of_the_softmax() -> None:
    rng = np.random.default_rng(0)
    logits, labels = rng.standard_normal((2, 3, 5)), rng.integers(0, 5, (2, 3), "int32")
    dy = rng.standard_normal((2, 3))
    p = nn.softmax(logits, axis=-1)

    loss = nn.softmax_cross_entropy(logits, labels)
    grad = nn.softmax_cross_entropy_grad(logits, labels, dy)

    np.testing.assert_allclose(
        loss, -np.log(np.take_along_axis(p, labels[..., None], -1))[..., 0], rtol=1e-13
    )
    np.testing.assert_allclose(grad, (p - np.eye(5)[labels]) * dy[..., None], rtol=1e-12)


@pytest.mark.parametrize("label", [-1, 10])
def test_label_out_of_range_names_itself_and_the_classes(label: int) -> None:
    logits, labels = np.zeros((2, 10), "float32"), np.array([3, label])

    with pytest.raises(
        KernelError, match=rf"labels must lie in \[0, 10\), the number of classes, got {label}"
    ):
        nn.softmax_cross_entropy(logits, labels)
    with pytest.raises(KernelError, match=rf"got {label}"):
        nn.softmax_cross_entropy_grad(logits, labels, np.ones(2, "float32"))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_losses_are_those_of_float32_rounded(dtype: str) -> None:
    rng = np.random.default_rng(0)
    logits = rng.standard_normal((4, 1000)).astype(as_dtype(dtype))
    labels = rng.integers(0, 1000, 4)

    loss = nn.softmax_cross_entropy(logits, labels)

    assert loss.dtype == as_dtype(dtype)
    np.testing.assert_array_equal(
        loss, nn.softmax_cross_entropy(logits.astype("float32"), labels).astype(loss.dtype)
    )


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_dropout_drops_the_rate_and_keeps_the_mean(rate: float) -> None:
    x = np.full((100, 1000), 3, "float32")

    y, factors = nn.dropout(x, rate=rate, seed=7, counter=COUNTER)

    assert set(np.unique(factors)) == {0, np.float32(1 / (1 - rate))}
    np.testing.assert_array_equal(y, x * factors)
    np.testing.assert_allclose((y == 0).mean(), rate, atol=5 * np.sqrt(rate * (1 - rate) / x.size))


def test_dropout_repeats_for_a_counter_and_differs_for_another() -> None:
    x = np.ones((8, 64), "float32")

    first, again, other = (nn.dropout(x, rate=0.5, seed=7, counter=(step, 0, 0, 0))[0] for step in (1, 1, 2))

    np.testing.assert_array_equal(first, again)
    assert 0.3 < (first == other).mean() < 0.7
