"""Means of windows against a loop in float64, and the transpose that is their gradient."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actorflow.kernels.nn import adaptive_pool as adaptive
from actorflow.kernels.nn import max_pool_portable as pooling
from actorflow.kernels.nn.sliding import slides
from tests.kernels.nn.test_max_pool import pools, windows
from tests.ops.samples_pool import adapting
from tests.support.strategies import examples

LAW = settings(max_examples=examples(60), deadline=None)


def elements(x: np.ndarray, attrs: dict[str, Any], window: tuple[int, ...]) -> int:
    """How many places of a window lie on the image or on its margins."""
    at = slides(x.shape, **attrs)
    found = 1
    for a, w in zip(at.axes, window[1:-1], strict=True):
        start = w * a.stride - a.before
        span = range(start, start + a.window * a.dilation, a.dilation)
        found *= sum(-a.before <= place < a.size + a.after for place in span)
    return found


@LAW
@given(case=pools(), margin=st.booleans(), divisor=st.sampled_from([None, 1, -3]))
def test_avg_pool_is_the_mean_of_each_window(case, margin: bool, divisor: int | None) -> None:
    x, attrs = case

    y = pooling.avg_pool(x, count_include_pad=margin, divisor=divisor, **attrs)

    found = windows(x, attrs)
    assert y.size == len(found)
    for window, pixels in found.items():
        count = divisor or (elements(x, attrs, window) if margin else len(pixels))
        assert y[window] == pytest.approx(sum(float(x[p]) for p in pixels) / count, rel=1e-6)


@LAW
@given(case=pools(), margin=st.booleans())
def test_its_gradient_is_the_transpose(case, margin: bool) -> None:
    """<dy, A x> = <A' dy, x> for all x and dy."""
    x, attrs = case
    x = x.astype("float64")
    how: dict[str, Any] = {"count_include_pad": margin, "divisor": None, **attrs}
    y = pooling.avg_pool(x, **how)
    dy = np.random.default_rng(1).standard_normal(y.shape)

    dx = pooling.avg_pool_grad(dy, x, **how)

    assert np.vdot(dx, x) == pytest.approx(np.vdot(dy, y), rel=1e-12, abs=1e-12)


def test_a_nan_or_infinity_reaches_its_own_windows_only() -> None:
    x = np.array([1, np.inf, 3, np.nan, 5, 6], "float32").reshape(1, 6, 1)

    y = pooling.avg_pool(x, size=(2,), strides=(2,), padding="VALID", count_include_pad=False, divisor=None)

    np.testing.assert_array_equal(y.ravel(), [np.inf, np.nan, 5.5])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_halves_are_summed_in_float32(dtype: str) -> None:
    """2,048 + 1 is 2,048 in float16, and 256 + 1 is 256 in bfloat16."""
    import ml_dtypes

    kind = np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    x = np.ones((1, 4096, 1), kind)

    y = pooling.avg_pool(
        x, size=(4096,), strides=(1,), padding="VALID", count_include_pad=False, divisor=None
    )

    assert y.dtype == kind
    assert y.ravel().tolist() == [1.0]


@st.composite
def adaptives(draw: st.DrawFn) -> tuple[np.ndarray, tuple[int, ...]]:
    shape, attrs = adapting(draw)
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    return rng.integers(-2, 3, shape).astype("float64"), attrs["size"]


@LAW
@given(case=adaptives())
def test_adaptive_windows_have_their_means_and_first_maxima(case) -> None:
    x, size = case

    means = adaptive.adaptive_avg_pool(x, size=size)
    places = adaptive.adaptive_max_pool_places(x, size=size)

    assert means.shape == places.shape == (x.shape[0], *size, x.shape[-1])
    axes = [
        [range(i * n // count, -(-(i + 1) * n // count)) for i in range(count)]
        for n, count in zip(x.shape[1:-1], size, strict=True)
    ]
    for n, *window, k in product(*map(range, means.shape)):
        pixels = list(product(*(axis[w] for axis, w in zip(axes, window, strict=True))))
        values = [x[n, *p, k] for p in pixels]
        assert means[n, *window, k] == pytest.approx(sum(values) / len(values), abs=1e-12)
        first = np.ravel_multi_index(pixels[int(np.argmax(values))], x.shape[1:-1])
        assert places[n, *window, k] == first


@LAW
@given(case=adaptives())
def test_the_gradient_of_adaptive_means_is_the_transpose(case) -> None:
    x, size = case
    y = adaptive.adaptive_avg_pool(x, size=size)
    dy = np.random.default_rng(1).standard_normal(y.shape)

    dx = adaptive.adaptive_avg_pool_grad(dy, x, size=size)

    assert np.vdot(dx, x) == pytest.approx(np.vdot(dy, y), rel=1e-12, abs=1e-12)
