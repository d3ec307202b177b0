"""Samples of convolution, its transpose and its gradients, of one to three spatial axes."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from actorflow.spec import along, conv_shape
from tests.ops.samples import Case, sample, several
from tests.ops.samples_nn import FLOATS

AXES = st.sampled_from([2, 1, 3])


def sliding(draw: st.DrawFn, axes: int) -> tuple[tuple[int, ...], dict[str, Any]]:
    """The size of a window and how it slides; in three axes windows are small, so that cases are."""
    size = draw(st.tuples(*[st.integers(1, 3 if axes < 3 else 2)] * axes))
    pairs = st.tuples(*[st.tuples(st.integers(-1, 2), st.integers(-1, 2))] * axes)
    return size, {
        "strides": draw(st.tuples(*[st.integers(1, 3)] * axes)),
        "padding": draw(st.sampled_from(["SAME", "VALID"]) | pairs),
        "dilation": draw(st.tuples(*[st.sampled_from([1, 1, 2])] * axes)),
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


def convolved(draw: st.DrawFn, *order: str) -> Case:
    axes = draw(AXES)
    size, attrs = sliding(draw, axes)
    each, filters = channels_of(draw, attrs["groups"])
    image = tuple(
        fitting(draw(st.integers(1, 4 if axes < 3 else 2)), high, stride, along(attrs["padding"], i), apart)
        for i, (high, stride, apart) in enumerate(zip(size, attrs["strides"], attrs["dilation"], strict=True))
    )
    x = (draw(st.sampled_from([1, 2, 0])), *image, each * attrs["groups"])
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
