"""Samples of pooling: windows of one to three spatial axes, with all that says how they slide."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from actorflow.errors import SpecError
from actorflow.values.arrays import NAMES
from actorflow.values.windows import count_along
from tests.ops.samples import Case, dims, sample, several, values

REAL = tuple(n for n in NAMES if n != "bool" and not n.startswith("complex"))
FLOATS = ("float32", "float64", "float16", "bfloat16", "int32")
SPATIAL: dict[int, list[tuple[int, ...]]] = {
    1: [(5,), (1,), (4,)],
    2: [(4, 3), (3, 5), (2, 2), (1, 4)],
    3: [(3, 2, 2), (2, 3, 1)],
}


def pooling(draw: st.DrawFn) -> tuple[tuple[int, ...], dict[str, Any], tuple[int, ...]]:
    """The shape of images, the attributes of windows that fit on them, and the shape of what is pooled."""
    rank = draw(st.sampled_from([2, 1, 3]))
    spatial = draw(st.sampled_from(SPATIAL[rank]))
    each = st.tuples(*[st.integers(1, 3)] * rank)
    attrs: dict[str, Any] = {
        "size": draw(st.tuples(*[dims] * rank)),
        "strides": draw(each),
        "padding": draw(
            st.sampled_from(["SAME", "VALID"]) | st.tuples(*[st.tuples(*[st.integers(0, 1)] * 2)] * rank)
        ),
        "dilations": draw(st.just((1,) * rank) | each),
        "ceil_mode": draw(st.booleans()),
    }
    counted = counts(spatial, attrs)
    if counted is None:  # where they do not fit, they are made so small that they do
        attrs |= {"size": (1,) * rank, "padding": "VALID"}
        counted = counts(spatial, attrs)
    assert counted is not None
    n, channels = draw(st.sampled_from([(1, 2), (2, 1), (1, 1), (0, 1), (1, 0)]))
    return (n, *spatial, channels), attrs, (n, *counted, channels)


def counts(spatial: tuple[int, ...], attrs: dict[str, Any]) -> tuple[int, ...] | None:
    padding = attrs["padding"]
    pads = (padding,) * len(spatial) if isinstance(padding, str) else padding
    axes = zip(spatial, attrs["size"], attrs["strides"], attrs["dilations"], pads, strict=True)
    try:
        found = [count_along(*axis, attrs["ceil_mode"], occupied=True) for axis in axes]
    except SpecError:
        return None
    return tuple(c for c in found if c is not None)


def apart(draw: st.DrawFn, *given: tuple[int, ...]) -> Case:
    """Arrays of these shapes, whose elements are further apart than the step of a difference."""
    return Case(tuple(several(draw, list(given))))


@sample("max_pool", dtypes=REAL)
@sample("max_pool_places", dtypes=REAL)
@st.composite
def max_pool(draw: st.DrawFn) -> Case:
    image, attrs, _ = pooling(draw)
    return Case((values(draw, image),), attrs)


@sample("max_pool_grad", dtypes=FLOATS)
@st.composite
def max_pool_grad(draw: st.DrawFn) -> Case:
    image, attrs, pooled = pooling(draw)
    return Case(apart(draw, image, pooled).inputs, attrs)


@sample("max_pool_gather", dtypes=FLOATS)
@st.composite
def max_pool_gather(draw: st.DrawFn) -> Case:
    image, attrs, _ = pooling(draw)
    return Case(apart(draw, image, image).inputs, attrs)


def divided(draw: st.DrawFn) -> dict[str, Any]:
    return {"count_include_pad": draw(st.booleans()), "divisor": draw(st.sampled_from([None, 1, 3]))}


@sample("avg_pool", dtypes=FLOATS)
@st.composite
def avg_pool(draw: st.DrawFn) -> Case:
    image, attrs, _ = pooling(draw)
    return Case((values(draw, image),), {**attrs, **divided(draw)})


@sample("avg_pool_grad", dtypes=FLOATS)
@st.composite
def avg_pool_grad(draw: st.DrawFn) -> Case:
    image, attrs, pooled = pooling(draw)
    return Case(apart(draw, pooled, image).inputs, {**attrs, **divided(draw)})


def adapting(draw: st.DrawFn) -> tuple[tuple[int, ...], dict[str, Any]]:
    rank = draw(st.sampled_from([2, 1, 3]))
    spatial = draw(st.sampled_from(SPATIAL[rank]))
    n, channels = draw(st.sampled_from([(1, 2), (2, 1), (0, 1), (1, 0)]))
    return (n, *spatial, channels), {"size": draw(st.tuples(*[st.integers(1, 3)] * rank))}


@sample("adaptive_avg_pool", dtypes=FLOATS)
@sample("adaptive_max_pool_places", dtypes=REAL)
@st.composite
def adaptive_avg_pool(draw: st.DrawFn) -> Case:
    image, attrs = adapting(draw)
    return Case((values(draw, image),), attrs)


@sample("global_max_pool", dtypes=REAL)
@st.composite
def global_max_pool(draw: st.DrawFn) -> Case:
    image, _ = adapting(draw)
    return Case((values(draw, image),), {"size": (1,) * (len(image) - 2), "keepdims": draw(st.booleans())})


@sample("adaptive_avg_pool_grad", dtypes=FLOATS)
@st.composite
def adaptive_avg_pool_grad(draw: st.DrawFn) -> Case:
    image, attrs = adapting(draw)
    pooled = (image[0], *attrs["size"], image[-1])
    return Case(apart(draw, pooled, image).inputs, attrs)
