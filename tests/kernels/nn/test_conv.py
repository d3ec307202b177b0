from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actorflow.errors import SpecError
from actorflow.kernels.definition.registry import find
from actorflow.kernels.nn import conv_depthwise
from actorflow.kernels.nn import conv_im2col as conv
from actorflow.kernels.nn.sliding import windows_of
from actorflow.values.conv_shapes import conv_shape, margins
from actorflow.values.windows import Padding, sliding_window
from tests.support.strategies import examples

LAW = settings(max_examples=examples(60), deadline=None)
dims = st.integers(1, 4)


def sliding(
    strides: Any = (1, 1), padding: Padding = "SAME", dilations: Any = (1, 1), groups: int = 1
) -> Any:
    return {"strides": strides, "padding": padding, "dilations": dilations, "groups": groups}


@st.composite
def cases(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, dict[str, Any]]:
    """Images, filters that fit on them, and how they slide."""
    axes = draw(st.sampled_from([2, 1, 3]))
    size = draw(st.tuples(*[dims if axes < 3 else st.integers(1, 2)] * axes))
    pairs = st.tuples(*[st.tuples(st.integers(-2, 4), st.integers(-2, 4))] * axes)
    attrs = sliding(
        draw(st.tuples(*[dims] * axes)),
        draw(st.sampled_from(["SAME", "VALID"]) | pairs),
        draw(st.tuples(*[st.integers(1, 3)] * axes)),
        draw(st.sampled_from([1, 1, 2, 3])),
    )
    image = []
    for high, apart, around in zip(size, attrs["dilations"], margins(attrs["padding"], axes), strict=True):
        reach = (high - 1) * apart + 1
        low = {"SAME": 1, "VALID": reach}[around] if isinstance(around, str) else max(reach - sum(around), 1)
        image.append(draw(st.integers(low, low + 4)))
    groups = attrs["groups"]
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    each, filters = draw(st.integers(0, 3)), draw(st.integers(0, 4)) * groups
    x = rng.standard_normal((draw(st.integers(0, 4)), *image, each * groups))
    return x, rng.standard_normal((*size, each, filters)), attrs


def plainly(
    x: np.ndarray, w: np.ndarray, strides: Any, padding: Padding, dilations: Any, groups: int
) -> np.ndarray:
    """The formula of the docstring, element by element."""
    shape: Any = conv_shape(x.shape, w.shape, strides, padding, dilations, groups)
    axes, each, filters = len(strides), w.shape[-2], w.shape[-1] // groups
    before = [
        sliding_window(x.shape[1 + a], w.shape[a], strides[a], dilations[a], margins(padding, axes)[a]).before
        for a in range(axes)
    ]
    y = np.zeros(shape)
    for r, i in product(np.ndindex(shape[1:-1]), np.ndindex(w.shape[:axes])):
        at = tuple(r[a] * strides[a] + i[a] * dilations[a] - before[a] for a in range(axes))
        if all(0 <= at[a] < x.shape[1 + a] for a in range(axes)):
            for g in range(groups):
                seen = x[(slice(None), *at, slice(g * each, (g + 1) * each))]
                made = slice(g * filters, (g + 1) * filters)
                y[(slice(None), *r, made)] += seen @ w[(*i, slice(None), made)]
    return y


@LAW
@given(case=cases())
def test_conv_is_the_sum_over_windows(case) -> None:
    x, w, attrs = case

    y = conv.conv(x, w, **attrs)

    np.testing.assert_allclose(y, plainly(x, w, **attrs), rtol=1e-12, atol=1e-12)


def test_conv_takes_grey_images_whose_one_channel_came_first() -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((5, 1, 6, 7)).transpose(0, 2, 3, 1)  # contiguous, with a stride of 42 elements
    w = rng.standard_normal((2, 3, 1, 4))

    y = conv.conv(x, w, **sliding(padding="VALID"))

    np.testing.assert_allclose(y, plainly(x, w, **sliding(padding="VALID")), rtol=1e-12)


@LAW
@given(case=cases(), seed=st.integers(0, 99))
def test_gradients_are_the_adjoints_of_conv(case, seed: int) -> None:
    """`<dy, conv(x, w)>` is linear in x and in w, so each gradient contracts to the same number."""
    x, w, attrs = case
    y = conv.conv(x, w, **attrs)
    dy = np.random.default_rng(seed).standard_normal(y.shape)

    dx = conv.conv_grad_input(dy, w, x, **attrs)
    dw = conv.conv_grad_filter(x, dy, w, **attrs)

    assert dx.shape == x.shape
    assert dw.shape == w.shape
    np.testing.assert_allclose([np.vdot(dx, x), np.vdot(dw, w)], np.vdot(dy, y), rtol=1e-10, atol=1e-10)


@LAW
@given(case=cases(), images_at_once=st.sampled_from([0.01, 0.2, 1, 2, 3]))
def test_how_much_is_taken_at_once_does_not_matter(case, images_at_once: float) -> None:
    """Several images, one, or a few rows of it."""
    x, w, attrs = case
    y = conv.conv(x, w, **attrs)
    whole = y, conv.conv_grad_input(y, w, x, **attrs), conv.conv_grad_filter(x, y, w, **attrs)
    window_bytes = math.prod(y.shape[1:-1]) * math.prod(w.shape[:-1]) * attrs["groups"] * x.itemsize

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(conv, "BUFFER_BYTES", int(images_at_once * window_bytes) + 1)
        patch.setattr(conv, "WHOLE", 1)
        patch.setattr(conv_depthwise, "BLOCK_BYTES", 100)
        conv.taking.cache_clear()
        parts = (
            conv.conv(x, w, **attrs),
            conv.conv_grad_input(y, w, x, **attrs),
            conv.conv_grad_filter(x, y, w, **attrs),
        )
    conv.taking.cache_clear()

    for a, b in zip(whole, parts, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("image", "size"),
    [((256, 256), (3, 3)), ((400_000,), (9,)), ((40, 50, 60), (3, 3, 3)), ((2, 90_000), (3, 3))],
)
@pytest.mark.parametrize(("groups", "behind"), [(1, True), (4, True), (4, False)])
def test_the_windows_of_a_large_image_are_taken_in_parts(
    image: Any, size: Any, groups: int, behind: bool
) -> None:
    """One image's windows are tens of megabytes; four are taken at once at most, and every window once."""
    at = windows_of((2, *image, 8), size, (1,) * len(size), "SAME")

    how = conv.taking(at, 2, 8, 4, groups, behind, conv.BUFFER_BYTES)
    blocks = list(how.blocks())

    assert how.buffer("float32").nbytes <= conv.WHOLE * conv.BUFFER_BYTES
    assert [b.rows.start for b in blocks[1:]] == [b.rows.stop for b in blocks[:-1]]
    assert (blocks[0].rows.start, blocks[-1].rows.stop) == (0, 2 * math.prod(image))
    assert sum(b.size for b in blocks) == 2 * math.prod(image) * math.prod(size) * 8
    view = np.empty(how.lengths)
    assert all(view[b.at[groups > 1 :]].size == b.rows.stop - b.rows.start for b in blocks)


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("filters", [2, 40])
@pytest.mark.parametrize("padding", ["SAME", "VALID", ((3, -1), (0, 2))])
def test_both_ways_to_the_input_agree(filters: int, padding: Padding, groups: int) -> None:
    """Few filters take the turned convolution, many take col2im; an identity of both is the plain sum."""
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((2, 6, 7, 3 * groups)), rng.standard_normal((3, 2, 3, filters))
    attrs = sliding(padding=padding, dilations=(1, 2), groups=groups)
    dy = rng.standard_normal(conv.conv(x, w, **attrs).shape)

    dx = conv.conv_grad_input(dy, w, x, **attrs)

    step = np.zeros_like(x)
    for index in [(0, 0, 0, 0), (1, 5, 6, 2), (0, 3, 3, 1), (1, 2, 4, 3 * groups - 1)]:
        step[:] = 0
        step[index] = 1
        np.testing.assert_allclose(dx[index], np.vdot(dy, plainly(step, w, **attrs)), rtol=1e-10, atol=1e-12)


def test_views_and_read_only_arrays_are_taken_and_left_alone() -> None:
    base = np.random.default_rng(0).standard_normal((3, 8, 2, 6)).astype("float32")
    x, w = base.transpose(0, 3, 1, 2), base[:, :3, :, :4].transpose(0, 1, 2, 3)
    base.flags.writeable = False
    before = base.copy()

    y = conv.conv(x, w, **sliding())
    conv.conv_grad_input(y, w, x, **sliding())
    conv.conv_grad_filter(x, y, w, **sliding())

    np.testing.assert_allclose(y, plainly(x, w, **sliding()), rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(base, before)


@pytest.mark.parametrize("groups", [1, 2, 8])
def test_equal_inputs_give_equal_bits(groups: int) -> None:
    rng = np.random.default_rng(1)
    x = rng.standard_normal((9, 20, 20, 8), "float32")
    w = rng.standard_normal((3, 3, 8 // groups, 8), "float32")

    first, second = (conv.conv(x.copy(), w.copy(), **sliding(groups=groups)) for _ in range(2))

    assert first.tobytes() == second.tobytes()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_sums_in_float32(dtype: str) -> None:
    """In float16 the sums of ones would stop at 2048, in bfloat16 at 256."""
    import ml_dtypes  # noqa: F401  names bfloat16

    x, w = np.ones((1, 1, 1, 4096)).astype(dtype), np.ones((1, 1, 4096, 1)).astype(dtype)
    long = np.ones((1, 4096, 2)).astype(dtype)

    made = [
        conv.conv(x, w, **sliding()),
        conv.conv_grad_input(x, np.ones((1, 1, 1, 4096)).astype(dtype), x[..., :1], **sliding()),
        conv.conv_transpose(x, np.ones((1, 1, 1, 4096)).astype(dtype), **sliding()),
        conv.conv_grad_filter(long, long, long[:, :1], **sliding((1,), dilations=(1,), groups=2)),
    ]

    assert [m.dtype.name for m in made] == [dtype] * 4
    assert {float(v) for m in made for v in m.flat} == {4096.0}


def test_image_smaller_than_a_window_is_an_error_of_the_user() -> None:
    with pytest.raises(SpecError, match="a window of 3 on a size of 2"):
        conv.conv(np.ones((1, 2, 5, 1)), np.ones((3, 3, 1, 1)), **sliding(padding="VALID"))


def test_cost_counts_the_flops() -> None:
    x, w = np.ones((2, 8, 8, 6)), np.ones((3, 3, 3, 10))
    dy = np.ones((2, 4, 4, 10))
    attrs = sliding((2, 2), groups=2)
    flops = 2 * (2 * 4 * 4) * (3 * 3 * 3) * 10

    assert find("conv").cost(x, w, **attrs) == flops
    assert find("conv_grad_input").cost(dy, w, x, **attrs) == flops
    assert find("conv_grad_filter").cost(x, dy, w, **attrs) == flops
    assert find("conv_transpose").cost(dy, w, **attrs) == flops
