"""Samples of convolution, its transpose and its gradients, and of patches, of one to three spatial axes."""

from __future__ import annotations

from math import prod
from typing import Any

from hypothesis import strategies as st

from actorflow.values.arrays import NAMES
from actorflow.values.conv_shapes import conv_shape, counts, margins
from tests.ops.samples import Case, sample, several, values
from tests.ops.samples_nn import FLOATS

AXES = st.sampled_from([2, 1, 3])


def sliding(draw: st.DrawFn, axes: int) -> tuple[tuple[int, ...], dict[str, Any]]:
    """The size of a window and how it slides; in three axes windows are small, so that cases are."""
    size = draw(st.tuples(*[st.integers(1, 3 if axes < 3 else 2)] * axes))
    pairs = st.tuples(*[st.tuples(st.integers(-1, 2), st.integers(-1, 2))] * axes)
    return size, {
        "strides": draw(st.tuples(*[st.integers(1, 3)] * axes)),
        "padding": draw(st.sampled_from(["SAME", "VALID"]) | pairs),
        "dilations": draw(st.tuples(*[st.sampled_from([1, 1, 2])] * axes)),
        "groups": draw(st.sampled_from([1, 1, 2, 3])),
    }


def channels_of(draw: st.DrawFn, groups: int) -> tuple[int, int]:
    """How many channels a group has, and how many filters there are."""
    return draw(st.integers(1, 2)), groups * draw(st.integers(1, 3 if groups == 1 else 2))


def fitting(size: int, window: int, stride: int, padding: Any, dilation: int) -> int:
    """The smallest size from `size` on that holds a window."""
    reach = (window - 1) * dilation + 1
    if padding == "SAME":
        return size
    return max(size, reach if padding == "VALID" else reach - sum(padding))


def image_of(draw: st.DrawFn, size: tuple[int, ...], attrs: dict[str, Any]) -> tuple[int, ...]:
    """The sizes of images that hold a window."""
    axes = zip(size, attrs["strides"], margins(attrs["padding"], len(size)), attrs["dilations"], strict=True)
    return tuple(fitting(draw(st.integers(1, 4 if len(size) < 3 else 2)), *axis) for axis in axes)


def convolved(draw: st.DrawFn, *order: str) -> Case:
    axes = draw(AXES)
    size, attrs = sliding(draw, axes)
    each, filters = channels_of(draw, attrs["groups"])
    x = (draw(st.sampled_from([1, 2, 0])), *image_of(draw, size, attrs), each * attrs["groups"])
    w = (*size, each, filters)
    given = {"x": x, "w": w, "dy": conv_shape(x, w, **attrs)}
    return Case(tuple(several(draw, [given[name] for name in order])), attrs)  # type: ignore[misc]


@sample("conv", dtypes=FLOATS)
@st.composite
def conv(draw: st.DrawFn) -> Case:
    return convolved(draw, "x", "w")


@sample("conv_grad_input", dtypes=FLOATS)
@st.composite
def conv_grad_input(draw: st.DrawFn) -> Case:
    return convolved(draw, "dy", "w", "x")


@sample("conv_grad_filter", dtypes=FLOATS)
@st.composite
def conv_grad_filter(draw: st.DrawFn) -> Case:
    return convolved(draw, "x", "dy", "w")


@sample("conv_transpose", dtypes=FLOATS)
@st.composite
def conv_transpose(draw: st.DrawFn) -> Case:
    axes = draw(AXES)
    size, attrs = sliding(draw, axes)
    each, filters = channels_of(draw, attrs["groups"])
    if not isinstance(attrs["padding"], str):  # what is cut off must be there
        attrs["padding"] = tuple((0, 0) if sum(pair) > 1 else pair for pair in attrs["padding"])
    x = (
        draw(st.sampled_from([1, 2, 0])),
        *draw(st.tuples(*[st.integers(1, 3 if axes < 3 else 2)] * axes)),
        filters,
    )
    return Case(tuple(several(draw, [x, (*size, each, filters)])), attrs)


def slid(draw: st.DrawFn) -> tuple[tuple[int, ...], dict[str, Any], tuple[int, ...]]:
    """The shape of images, how windows slide over them, and the shape of their patches."""
    size, attrs = sliding(draw, draw(AXES))
    attrs = {"size": size, **attrs}
    del attrs["groups"]
    image = image_of(draw, size, attrs)
    n, channels = draw(st.sampled_from([(1, 1), (2, 1), (1, 2), (0, 1)]))
    counted = counts(image, size, attrs["strides"], attrs["dilations"], attrs["padding"])
    rows = tuple(count for count in counted if count is not None)
    return (n, *image, channels), attrs, (n, *rows, prod(size) * channels)


@sample("extract_patches", dtypes=NAMES)
@st.composite
def extract_patches(draw: st.DrawFn) -> Case:
    image, attrs, _ = slid(draw)
    return Case((values(draw, image),), attrs)


@sample("extract_patches_grad", dtypes=tuple(n for n in NAMES if n != "bool"))
@st.composite
def extract_patches_grad(draw: st.DrawFn) -> Case:
    image, attrs, patches = slid(draw)
    return Case(tuple(several(draw, [patches, image])), attrs)
