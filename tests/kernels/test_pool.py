from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from actorflow.kernels import pool
from actorflow.kernels.conv import windows_of
from tests.strategies import examples

LAW = settings(max_examples=examples(60), deadline=None)
dims = st.integers(1, 3)


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

    y = pool.max_pool(x, **attrs)

    found = first_maxima(x, attrs)
    assert y.size == len(found)
    assert all(y[window] == x[place] for window, place in found.items())


@LAW
@given(case=pools())
def test_first_maximum_of_each_window_gets_its_gradient(case) -> None:
    x, attrs = case
    dy = np.random.default_rng(0).standard_normal(pool.max_pool(x, **attrs).shape)
    want = np.zeros(x.shape)
    for window, place in first_maxima(x, attrs).items():
        want[place] += dy[window]

    dx = pool.max_pool_grad(x, dy, **attrs)

    np.testing.assert_allclose(dx, want, rtol=1e-12)


@LAW
@given(case=pools())
def test_gather_takes_from_where_the_maximum_is(case) -> None:
    x, attrs = case
    values = np.random.default_rng(0).standard_normal(x.shape)

    taken = pool.max_pool_gather(x, values, **attrs)

    assert all(taken[window] == values[place] for window, place in first_maxima(x, attrs).items())


def test_a_window_with_nan_gives_nan_and_takes_no_gradient() -> None:
    x = np.array([[1, np.nan, 3, 4]], "float32").reshape(1, 1, 4, 1)
    attrs: dict[str, Any] = {"size": (1, 2), "strides": (1, 2), "padding": "VALID"}

    y = pool.max_pool(x, **attrs)
    dx = pool.max_pool_grad(x, np.ones_like(y), **attrs)
    taken = pool.max_pool_gather(x, np.full_like(x, 7), **attrs)

    np.testing.assert_array_equal(y.ravel(), [np.nan, 4])
    np.testing.assert_array_equal(dx.ravel(), [0, 0, 0, 1])
    np.testing.assert_array_equal(taken.ravel(), [0, 7])


def test_infinite_gradient_stays_at_its_maximum() -> None:
    x = np.array([1, 2], "float32").reshape(1, 1, 2, 1)

    dx = pool.max_pool_grad(
        x, np.full((1, 1, 1, 1), np.inf, "float32"), size=(1, 2), strides=(1, 2), padding="VALID"
    )

    np.testing.assert_array_equal(dx.ravel(), [0, np.inf])


def test_window_of_more_than_255_pixels_is_pooled() -> None:
    x = np.zeros((1, 17, 17, 1), "float32")
    x[0, 16, 15] = 1
    attrs: dict[str, Any] = {"size": (17, 17), "strides": (17, 17), "padding": "VALID"}

    dx = pool.max_pool_grad(x, np.full((1, 1, 1, 1), 5, "float32"), **attrs)

    assert np.flatnonzero(dx).tolist() == [16 * 17 + 15]
