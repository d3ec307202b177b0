"""Samples of resizing: one to three spatial axes, by every method and kind of coordinate."""

from __future__ import annotations

from math import floor
from typing import Any

import numpy as np
from hypothesis import strategies as st

from actorflow.ops.nn.resize import COORDINATES, METHODS, ROUNDINGS
from tests.ops.samples import Case, sample, several, values

FLOATS = ("float32", "float64", "float16", "bfloat16")
SPATIAL = [(4, 3), (5,), (1, 4), (3, 5), (2, 3, 2), (1,)]


def resizing(draw: st.DrawFn) -> tuple[tuple[int, ...], dict[str, Any], tuple[int, ...]]:
    spatial = draw(st.sampled_from(SPATIAL))
    n, channels = draw(st.sampled_from([(1, 2), (2, 1), (0, 1), (1, 0)]))
    attrs: dict[str, Any] = {
        "size": draw(st.tuples(*[st.integers(1, 6)] * len(spatial))),
        "scale": None,
        "method": draw(st.sampled_from(METHODS)),
        "coordinates": draw(st.sampled_from(COORDINATES)),
        "rounding": draw(st.sampled_from(ROUNDINGS)),
        "exclude_outside": draw(st.booleans()),
        "cubic": draw(st.sampled_from([-0.75, -0.5])),
    }
    attrs["antialias"] = attrs["method"] != "nearest" and draw(st.booleans())
    resized = attrs["size"]
    if draw(st.booleans()):
        scale = draw(st.tuples(*[st.sampled_from([0.5, 2.0, 0.625, 1.25])] * len(spatial)))
        attrs["scale"] = scale
        if draw(st.booleans()):
            attrs["size"] = None
            resized = tuple(floor(d * s) for d, s in zip(spatial, scale, strict=True))
    return (n, *spatial, channels), attrs, (n, *resized, channels)


def computed(draw: st.DrawFn, attrs: dict[str, Any]) -> tuple[dict[str, Any], tuple[Any, ...]]:
    """The attributes without the size, which the step computes instead; or with it."""
    if attrs["size"] is None or draw(st.booleans()):
        return attrs, ()
    return {**attrs, "size": None}, (np.array(attrs["size"], "int64"),)


@sample("resize", dtypes=(*FLOATS, "int32", "bool"))
@st.composite
def resize(draw: st.DrawFn) -> Case:
    image, attrs, _ = resizing(draw)
    attrs, given = computed(draw, attrs)
    return Case((values(draw, image), *given), attrs, late=bool(given))


@sample("resize_grad", dtypes=FLOATS)
@st.composite
def resize_grad(draw: st.DrawFn) -> Case:
    image, attrs, resized = resizing(draw)
    attrs, given = computed(draw, attrs)
    return Case((*several(draw, [resized, image]), *given), attrs)
