"""Samples of normalisation and of its gradient."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from tests.ops.samples import Case, sample, several

FLOATS = ("float32", "float64", "float16", "bfloat16", "int32")

SHAPES = [(3,), (2, 3), (4, 2), (2, 0), (0, 3), (2, 3, 2), (4, 1, 3), (2, 2, 2, 3)]


def drawn(draw: st.DrawFn, more: int) -> tuple[list[np.ndarray], dict[str, Any], tuple[int, ...]]:
    """`more` arrays like x, then scale and offset as far as drawn; the attributes; the statistics' shape."""
    shape = draw(st.sampled_from(SHAPES))
    rank = len(shape)
    axis = draw(
        st.sampled_from([(rank - 1,), (-1,), tuple(range(rank - 1)), (0,), None, tuple(range(1, rank))])
    )
    # Statistics of no elements are NaN, and one element's value is 0 whatever it is: nothing to measure.
    folded = np.prod([shape[a] for a in (range(rank) if axis is None else axis)], dtype=int)
    if not folded:
        axis = tuple(i for i, d in enumerate(shape) if d)
    centre = draw(st.booleans()) if folded > 1 else False
    attrs = {"axis": axis, "epsilon": draw(st.sampled_from([0.1, 1e-3])), "centre": centre}
    affine = draw(st.sampled_from([shape[-1:], shape, (), (1,) * rank, (*shape[:1], *(1,) * (rank - 1))]))
    count = draw(st.integers(0, 2))
    arrays = several(draw, [shape] * more + [affine] * count)
    axes = range(rank) if axis is None else [a % rank for a in axis]
    return arrays, attrs, tuple(1 if i in axes else d for i, d in enumerate(shape))


@sample("normalise", dtypes=FLOATS)
@st.composite
def normalise(draw: st.DrawFn) -> Case:
    arrays, attrs, _ = drawn(draw, 1)
    return Case(tuple(arrays), attrs)


@sample("normalise_grad", dtypes=("float32", "float64", "int32"))
@st.composite
def normalise_grad(draw: st.DrawFn) -> Case:
    arrays, attrs, statistics = drawn(draw, 2)
    mean, variance = several(draw, [statistics] * 2, 0.2, 1.5)
    return Case((*arrays[:2], mean if attrs["centre"] else mean * 0, variance, *arrays[2:]), attrs)
