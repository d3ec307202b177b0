"""Samples of the ops of recurrent cells."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from tests.ops.samples import Case, sample, several

FLOATS = ("float32", "float64", "float16", "bfloat16")
LEADING = st.sampled_from([(2,), (), (1,), (2, 1), (0,)])


@sample("lstm_step", dtypes=FLOATS)
@st.composite
def lstm_step(draw: st.DrawFn) -> Case:
    leading, units = draw(LEADING), draw(st.integers(1, 2))
    return Case(tuple(several(draw, [(*leading, 4 * units), (*leading, units)])))


@sample("lstm_step_grad", dtypes=FLOATS)
@st.composite
def lstm_step_grad(draw: st.DrawFn) -> Case:
    leading, units = draw(LEADING), draw(st.integers(1, 2))
    activated, *states = several(draw, [(*leading, 4 * units), *[(*leading, units)] * 4])
    return Case((np.tanh(activated), *states))


@sample("sequence_lengths")
@st.composite
def sequence_lengths(draw: st.DrawFn) -> Case:
    steps, rows = draw(st.integers(0, 3)), draw(st.integers(0, 3))
    lengths = draw(st.lists(st.integers(0, steps), min_size=rows, max_size=rows))
    return Case((np.array(lengths, "int64"), np.zeros((steps, rows, 2))))
