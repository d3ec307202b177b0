"""Samples of losses that are ops."""

from __future__ import annotations

from hypothesis import strategies as st

from tests.ops.samples import Case, broadcast_shapes, sample, several


@sample("sigmoid_cross_entropy", dtypes=("float32", "float64", "float16", "bfloat16", "int32"))
@st.composite
def sigmoid_cross_entropy(draw: st.DrawFn) -> Case:
    return Case(tuple(several(draw, broadcast_shapes(draw, 2), -4, 4)))
