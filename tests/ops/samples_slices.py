"""Samples of the ops behind `IndexedSlices`."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from tests.ops.samples import Case, sample, values
from tests.ops.samples_indexing import INTEGERS, NUMBERS, signed


def slices(draw: st.DrawFn, n: int) -> tuple[list[np.ndarray], dict[str, Any]]:
    """Values and indices in a tensor of n rows, which an attribute says or a tensor with its shape."""
    row = draw(st.sampled_from([(), (2,), (0,), (1, 2)]))
    count = draw(st.integers(0, 4)) if n else 0
    found = [values(draw, (count, *row)), signed(draw, (count,), n, draw(INTEGERS))]
    if draw(st.booleans()):
        return found, {"rows": n}
    return [*found, np.array([n, *row], "int32")], {"rows": None}


@sample("slices_to_dense", dtypes=NUMBERS)
@st.composite
def slices_to_dense(draw: st.DrawFn) -> Case:
    inputs, attrs = slices(draw, draw(st.integers(0, 3)))
    return Case(tuple(inputs), attrs, late=attrs["rows"] is None)


@sample("sum_duplicates", dtypes=NUMBERS)
@st.composite
def sum_duplicates(draw: st.DrawFn) -> Case:
    inputs, attrs = slices(draw, draw(st.integers(0, 3)))
    return Case(tuple(inputs), attrs, late=True)
