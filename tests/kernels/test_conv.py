from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actorflow.errors import SpecError
from actorflow.kernels import conv
from actorflow.kernels.registry import find
from actorflow.spec import margins, windows
from tests.strategies import examples

LAW = settings(max_examples=examples(60), deadline=None)
dims = st.integers(1, 4)


@st.composite
def cases(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, dict[str, Any]]:
    """Images, filters that fit on them, and how they slide."""
    high, wide, channels, filters = (draw(dims) for _ in range(4))
    padding = draw(st.sampled_from(["SAME", "VALID"]))
    least = (high, wide) if padding == "VALID" else (1, 1)
    height, width = (draw(st.integers(low, low + 5)) for low in least)
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    x = rng.standard_normal((draw(st.integers(0, 5)), height, width, channels))
    w = rng.standard_normal((high, wide, channels, filters))
    return x, w, {"strides": (draw(dims), draw(dims)), "padding": padding}


def plainly(x: np.ndarray, w: np.ndarray, strides: tuple[int, int], padding: str) -> np.ndarray:
    """The formula of the docstring, element by element."""
    (n, height, width, _), (high, wide, _, filters) = x.shape, w.shape
    rows, columns = windows(height, high, strides[0], padding), windows(width, wide, strides[1], padding)
    assert rows is not None
    assert columns is not None
    top, left = margins(height, high, strides[0], padding)[0], margins(width, wide, strides[1], padding)[0]
    y = np.zeros((n, rows, columns, filters))
    for r, c, i, j in product(range(rows), range(columns), range(high), range(wide)):
        down, right = r * strides[0] + i - top, c * strides[1] + j - left
        if 0 <= down < height and 0 <= right < width:
            y[:, r, c] += x[:, down, right] @ w[i, j]
    return y


@LAW
@given(case=cases())
def test_conv2d_is_the_sum_over_windows(case) -> None:
    x, w, attrs = case

    y = conv.conv2d(x, w, **attrs)

    np.testing.assert_allclose(y, plainly(x, w, **attrs), rtol=1e-12, atol=1e-12)


def test_conv2d_takes_grey_images_whose_one_channel_came_first() -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((5, 1, 6, 7)).transpose(0, 2, 3, 1)  # contiguous, with a stride of 42 elements
    w = rng.standard_normal((2, 3, 1, 4))

    y = conv.conv2d(x, w, strides=(1, 1), padding="VALID")

    np.testing.assert_allclose(y, plainly(x, w, (1, 1), "VALID"), rtol=1e-12)


@LAW
@given(case=cases(), seed=st.integers(0, 99))
def test_gradients_are_the_adjoints_of_conv2d(case, seed: int) -> None:
    """`<dy, conv(x, w)>` is linear in x and in w, so each gradient contracts to the same number."""
    x, w, attrs = case
    y = conv.conv2d(x, w, **attrs)
    dy = np.random.default_rng(seed).standard_normal(y.shape)

    dx = conv.conv2d_grad_input(dy, w, x, **attrs)
    dw = conv.conv2d_grad_filter(x, dy, w, **attrs)

    assert dx.shape == x.shape
    assert dw.shape == w.shape
    np.testing.assert_allclose([np.vdot(dx, x), np.vdot(dw, w)], np.vdot(dy, y), rtol=1e-10, atol=1e-10)


@LAW
@given(case=cases(), images_at_once=st.integers(1, 3))
def test_how_many_images_are_taken_at_once_does_not_matter(case, images_at_once: int) -> None:
    x, w, attrs = case
    y = conv.conv2d(x, w, **attrs)
    whole = y, conv.conv2d_grad_input(y, w, x, **attrs), conv.conv2d_grad_filter(x, y, w, **attrs)
    window_bytes = y[:1, ..., :1].size * w[..., 0].size * x.itemsize

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(conv, "BUFFER_BYTES", images_at_once * max(window_bytes, 1))
        parts = (
            conv.conv2d(x, w, **attrs),
            conv.conv2d_grad_input(y, w, x, **attrs),
            conv.conv2d_grad_filter(x, y, w, **attrs),
        )

    for a, b in zip(whole, parts, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("filters", [2, 40])
@pytest.mark.parametrize("padding", ["SAME", "VALID"])
def test_both_ways_to_the_input_agree(filters: int, padding: str) -> None:
    """Few filters take the turned convolution, many take col2im; an identity of both is the plain sum."""
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((2, 6, 7, 3)), rng.standard_normal((3, 2, 3, filters))
    dy = rng.standard_normal(conv.conv2d(x, w, strides=(1, 1), padding=padding).shape)

    dx = conv.conv2d_grad_input(dy, w, x, strides=(1, 1), padding=padding)

    step = np.zeros_like(x)
    for index in [(0, 0, 0, 0), (1, 5, 6, 2), (0, 3, 3, 1)]:
        step[:] = 0
        step[index] = 1
        moved = np.vdot(dy, plainly(step, w, (1, 1), padding))
        np.testing.assert_allclose(dx[index], moved, rtol=1e-10)


def test_views_and_read_only_arrays_are_taken_and_left_alone() -> None:
    base = np.random.default_rng(0).standard_normal((3, 8, 2, 6)).astype("float32")
    x, w = base.transpose(0, 3, 1, 2), base[:, :3, :, :4].transpose(0, 1, 2, 3)
    base.flags.writeable = False
    before = base.copy()

    y = conv.conv2d(x, w, strides=(1, 1), padding="SAME")
    conv.conv2d_grad_input(y, w, x, strides=(1, 1), padding="SAME")
    conv.conv2d_grad_filter(x, y, w, strides=(1, 1), padding="SAME")

    np.testing.assert_allclose(y, plainly(x, w, (1, 1), "SAME"), rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(base, before)


def test_equal_inputs_give_equal_bits() -> None:
    rng = np.random.default_rng(1)
    x, w = rng.standard_normal((9, 20, 20, 8), "float32"), rng.standard_normal((3, 3, 8, 8), "float32")

    first, second = (conv.conv2d(x.copy(), w.copy(), strides=(1, 1), padding="SAME") for _ in range(2))

    assert first.tobytes() == second.tobytes()


def test_half_precision_sums_in_float32() -> None:
    x, w = np.full((1, 1, 1, 4096), 1, "float16"), np.full((1, 1, 4096, 1), 1, "float16")

    y = conv.conv2d(x, w, strides=(1, 1), padding="SAME")

    assert y.dtype == np.float16
    assert y.item() == 4096  # in float16 the sum would stop at 2048


def test_image_smaller_than_a_window_is_an_error_of_the_user() -> None:
    with pytest.raises(SpecError, match="a window of 3 on a size of 2"):
        conv.conv2d(np.ones((1, 2, 5, 1)), np.ones((3, 3, 1, 1)), strides=(1, 1), padding="VALID")


def test_cost_counts_the_flops() -> None:
    x, w = np.ones((2, 8, 8, 3)), np.ones((3, 3, 3, 5))
    dy = np.ones((2, 4, 4, 5))
    attrs = {"strides": (2, 2), "padding": "SAME"}
    flops = 2 * (2 * 4 * 4) * (3 * 3 * 3) * 5

    assert find("conv2d").cost(x, w, **attrs) == flops
    assert find("conv2d_grad_input").cost(dy, w, x, **attrs) == flops
    assert find("conv2d_grad_filter").cost(x, dy, w, **attrs) == flops


@given(size=st.integers(1, 40), window=st.integers(1, 9), stride=st.integers(1, 9))
def test_windows_with_margins_fit_exactly(size: int, window: int, stride: int) -> None:
    """SAME windows reach over the whole axis, and every one of them touches it."""
    count = windows(size, window, stride, "SAME")
    before, after = margins(size, window, stride, "SAME")

    assert count is not None
    covered = (count - 1) * stride + window
    assert covered <= size + before + after < covered + stride
    assert 0 <= after - before <= 1
    assert before < window
    assert (count - 1) * stride < size
