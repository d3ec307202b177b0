"""Samples of the ops of matrices and vectors; those with inverses are well conditioned."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from tests.ops.samples import DTYPES, Case, broadcast_shapes, dims, sample, several, shapes, values

LEADS = [(), (2,), (1,), (2, 1), (0,)]
leads = st.sampled_from(LEADS)

ALL = (*DTYPES, "int16", "int64", "uint16", "uint32", "uint64", "complex128")
"""Every dtype, for ops that move or add numbers."""

INEXACT = ("float32", "float64", "float16", "bfloat16", "complex64", "complex128", "int32")
"""What LAPACK takes, halves by way of float32; int32 is refused."""


# ------------------------------------------------------------------------- products and parts


@sample("matrix_transpose", dtypes=ALL)
@st.composite
def matrices(draw: st.DrawFn) -> Case:
    return Case((values(draw, draw(shapes(2, empty=True))),))


def placed(x: np.ndarray, axis: int) -> np.ndarray:
    """The last axis moved to `axis`, where there is one."""
    return np.moveaxis(x, -1, max(axis, -x.ndim))


def lines(draw: st.DrawFn, size: int) -> Case:
    """Two arrays of vectors that broadcast, which lie along an axis that both have."""
    axis = draw(st.sampled_from([-1, -1, -2]))
    shapes = [s if axis == -1 or s else (1,) for s in broadcast_shapes(draw, 2)]
    a, b = several(draw, [(*s, size) for s in shapes])
    return Case((placed(a, axis), placed(b, axis)), {"axis": axis})


@sample("vecdot", dtypes=ALL)
@st.composite
def vecdot(draw: st.DrawFn) -> Case:
    return lines(draw, draw(st.sampled_from([2, 1, 0])))


@sample("cross", dtypes=ALL)
@st.composite
def cross(draw: st.DrawFn) -> Case:
    return lines(draw, 3)


@sample("matrix_band_part", dtypes=ALL)
@st.composite
def matrix_band_part(draw: st.DrawFn) -> Case:
    ends = st.none() | st.integers(-3, 3)
    return Case((values(draw, draw(shapes(2, empty=True))),), {"lower": draw(ends), "upper": draw(ends)})
