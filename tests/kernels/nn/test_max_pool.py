from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actorflow.kernels.nn import max_pool as pool
from actorflow.kernels.nn import max_pool_portable as pooling
from actorflow.kernels.nn.sliding import slides
from actorflow.values.windows import SlidingWindow
from tests.ops.samples_pool import pooling as pools_that_fit
from tests.support.strategies import examples

LAW = settings(max_examples=examples(60), deadline=None)


@st.composite
def pools(draw: st.DrawFn) -> tuple[np.ndarray, dict[str, Any]]:
    """Images with many ties, and windows that fit on them, of one to three spatial axes."""
    shape, attrs, _ = pools_that_fit(draw)
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    return rng.integers(-2, 3, shape).astype("float32"), attrs


def places(axis: SlidingWindow, window: int) -> list[int]:
    """The places of a window that lie on the axis, one after the other."""
    those = (window * axis.stride + k * axis.dilation - axis.before for k in range(axis.window))
    return [place for place in those if 0 <= place < axis.size]


def windows(x: np.ndarray, attrs: dict[str, Any]) -> dict[tuple[int, ...], list[tuple[int, ...]]]:
    """For each window the pixels on the image, in its order, found element by element."""
    at = slides(x.shape, **attrs)
    found = {}
    for n, *window, k in product(*map(range, at.pooled)):
        each = [places(a, w) for a, w in zip(at.axes, window, strict=True)]
        found[n, *window, k] = [(n, *pixel, k) for pixel in product(*each)]
    return found


def first_maxima(x: np.ndarray, attrs: dict[str, Any]) -> dict[tuple[int, ...], tuple[int, ...]]:
    """For each window the place of its first maximum: max takes the first of equals."""
    return {window: max(pixels, key=lambda p: x[p]) for window, pixels in windows(x, attrs).items()}


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


@LAW
@given(case=pools())
def test_places_count_the_pixels_of_a_plane_along_its_rows(case) -> None:
    x, attrs = case

    places = pooling.max_pool_places(x, **attrs)

    found = first_maxima(x, attrs)
    assert places.size == len(found)
    for window, (_, *pixel, _) in found.items():
        assert places[window] == np.ravel_multi_index(pixel, x.shape[1:-1])


@LAW
@given(case=pools(), module=st.sampled_from([pool, pooling]), seed=st.integers(0, 99))
def test_a_window_with_nans_has_its_maximum_at_the_last(case, module: Any, seed: int) -> None:
    """Torch's rule, of the value that is NaN, of its place, its gradient and what is gathered."""
    x, attrs = case
    rng = np.random.default_rng(seed)
    x[rng.random(x.shape) < 0.3] = np.nan
    values = rng.standard_normal(x.shape)
    places = {w: last_nan_or_first_maximum(x, pixels) for w, pixels in windows(x, attrs).items()}
    dy = rng.standard_normal(slides(x.shape, **attrs).pooled)
    want = np.zeros(x.shape)
    for window, place in places.items():
        want[place] += dy[window]

    y, at = module.max_pool(x, **attrs), pooling.max_pool_places(x, **attrs)
    dx, taken = module.max_pool_grad(x, dy, **attrs), module.max_pool_gather(x, values, **attrs)

    np.testing.assert_allclose(dx, want, rtol=1e-12, atol=1e-12)
    for window, place in places.items():
        np.testing.assert_array_equal([y[window], taken[window]], [x[place], values[place]])
        assert at[window] == np.ravel_multi_index(place[1:-1], x.shape[1:-1])


def last_nan_or_first_maximum(x: np.ndarray, pixels: list[tuple[int, ...]]) -> tuple[int, ...]:
    nans = [p for p in pixels if np.isnan(x[p])]
    return nans[-1] if nans else max(pixels, key=lambda p: x[p])


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint64"])
@pytest.mark.parametrize("module", [pool, pooling])
def test_integers_down_to_the_least_are_pooled(dtype: str, module: Any) -> None:
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    x = np.array([low, low, low, high - 1, high, low], dtype).reshape(1, 6, 1)
    attrs: dict[str, Any] = {"size": (2,), "strides": (2,), "padding": "VALID"}

    y = module.max_pool(x, **attrs)

    assert y.dtype == x.dtype
    assert y.ravel().tolist() == [low, high - 1, high]
    assert pooling.max_pool_places(x, **attrs).ravel().tolist() == [0, 3, 4]


def test_a_window_of_nothing_but_minus_infinity_has_a_place_and_a_gradient() -> None:
    x = np.full((1, 4, 1), -np.inf, "float32")
    attrs: dict[str, Any] = {"size": (2,), "strides": (2,), "padding": "VALID"}

    assert pooling.max_pool_places(x, **attrs).ravel().tolist() == [0, 2]
    dx = pool.max_pool_grad(x, np.ones((1, 2, 1), "float32"), **attrs)
    assert dx.ravel().tolist() == [1, 0, 1, 0]


def test_infinite_gradient_stays_at_its_maximum() -> None:
    x = np.array([1, 2], "float32").reshape(1, 1, 2, 1)

    dx = pool.max_pool_grad(
        x, np.full((1, 1, 1, 1), np.inf, "float32"), size=(1, 2), strides=(1, 2), padding="VALID"
    )

    np.testing.assert_array_equal(dx.ravel(), [0, np.inf])


@pytest.mark.parametrize("strides", [(17, 17), (1, 1)])
def test_window_of_more_than_255_pixels_is_pooled(strides: tuple[int, int]) -> None:
    x = np.zeros((1, 17, 17, 1), "float32")
    x[0, 16, 15] = 1
    attrs: dict[str, Any] = {"size": (17, 17), "strides": strides, "padding": "VALID"}

    dx = pool.max_pool_grad(x, np.full((1, 1, 1, 1), 5, "float32"), **attrs)

    assert np.flatnonzero(dx).tolist() == [16 * 17 + 15]
