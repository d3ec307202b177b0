"""Samples of losses that are ops."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from tests.ops.samples import Case, broadcast_shapes, integers, sample, several, values

FLOATS = ("float32", "float64", "float16", "bfloat16", "int32")


@sample("sigmoid_cross_entropy", dtypes=FLOATS)
@st.composite
def sigmoid_cross_entropy(draw: st.DrawFn) -> Case:
    return Case(tuple(several(draw, broadcast_shapes(draw, 2), -4, 4)))


def sequences(draw: st.DrawFn) -> tuple[np.ndarray, ...]:
    """Labels and the two lengths for two examples of five times at most, with time for all labels."""
    labels = integers(draw, (2, 2), 1, 2)
    label_lengths = integers(draw, (2,), 0, 2)
    return labels, integers(draw, (2,), 3, 5, "int64"), label_lengths


@sample("ctc_loss", dtypes=FLOATS, second_order="the gradient has no gradient for the logits")
@st.composite
def ctc_loss(draw: st.DrawFn) -> Case:
    return Case((values(draw, (2, 5, 3)), *sequences(draw)), {"blank": 0})


@sample("ctc_loss_grad", dtypes=FLOATS, no_gradient="there is one for dy only: test_ctc checks it")
@st.composite
def ctc_loss_grad(draw: st.DrawFn) -> Case:
    logits, dy = several(draw, [(2, 5, 3), (2,)])
    return Case((logits, *sequences(draw), dy), {"blank": 0})
