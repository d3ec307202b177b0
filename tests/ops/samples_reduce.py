"""Samples of reductions, scans, sorting and searching, sets, and segments."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tests.ops.samples import DTYPES, Case, integers, reducing, sample, several, shapes, values

ALL = (*DTYPES, "int16", "int64", "uint16", "uint32", "uint64", "complex128")
REAL = tuple(d for d in ALL if not d.startswith("complex"))
FLOATS = ("float64", "float32", "float16", "bfloat16", "int32")

# --------------------------------------------------------------------------------- reductions

for op in ("any", "all", "count_nonzero"):
    sample(op, dtypes=ALL)(lambda: reducing(empty=True))
sample("argmin", dtypes=REAL)(lambda: reducing(tuples=False))
sample("logsumexp", dtypes=FLOATS)(reducing)  # -inf of none has no differences


@sample("prod", dtypes=ALL)
@st.composite
def prod(draw: st.DrawFn) -> Case:
    case = draw(reducing(empty=True))
    return Case((with_zeros(draw, case.inputs[0]),), case.attrs)


def with_zeros(draw: st.DrawFn, x: np.ndarray) -> np.ndarray:
    """`x` with none, one or two of its elements 0."""
    for _ in range(draw(st.integers(0, 2)) if x.size else 0):
        x = x.copy()
        x.reshape(-1)[draw(st.integers(0, x.size - 1))] = 0
    return x


@sample("var", dtypes=REAL)
@sample("std", dtypes=REAL)
@st.composite
def spread(draw: st.DrawFn) -> Case:
    case = draw(reducing())
    x, axis = case.inputs[0], case.attrs["axis"]
    axes = range(x.ndim) if axis is None else np.atleast_1d(axis)
    folded = int(np.prod([x.shape[int(a)] for a in axes]))
    correction = draw(st.sampled_from([0.0, 1.0, 0.5]))
    if folded < 2:  # the root of 0 has a kink there
        x = np.repeat(x[None], 2, 0) * np.array([1, -1.5]).reshape((2,) + (1,) * x.ndim)
        axis = None
    return Case((x,), {**case.attrs, "axis": axis, "correction": correction})


@sample("vector_norm", dtypes=(*FLOATS, "complex64", "complex128"))
@st.composite
def vector_norm(draw: st.DrawFn) -> Case:
    case = draw(reducing())
    order = draw(st.sampled_from([2.0, 1.0, np.inf, -np.inf, 0.0, 3.0, 1.5]))
    x = values(draw, case.inputs[0].shape, 0.5, 2)  # |x| apart, whatever the signs
    signs = draw(st.lists(st.sampled_from([1, -1]), min_size=x.size, max_size=x.size))
    return Case((np.asarray(x * np.array(signs, float).reshape(x.shape)),), {**case.attrs, "ord": order})


@sample("quantile_positions", dtypes=FLOATS)
@st.composite
def quantile_positions(draw: st.DrawFn) -> Case:
    x, axis = one_of_axes(draw, empty=False)
    return Case((x,), {"axis": axis, "q": draw(st.sampled_from([0.0, 0.5, 1.0, 0.3, 0.25]))})


# --------------------------------------------------------------------------------------- scans


def one_of_axes(draw: st.DrawFn, *, empty: bool = True) -> tuple[np.ndarray, int]:
    shape = draw(shapes(1, empty=empty))
    return values(draw, shape), draw(st.integers(-len(shape), len(shape) - 1))


@sample("cumulative_sum", dtypes=ALL)
@sample("cumulative_prod", dtypes=ALL)
@st.composite
def running(draw: st.DrawFn) -> Case:
    x, axis = one_of_axes(draw)
    return Case((with_zeros(draw, x),), {"axis": axis, "include_initial": draw(st.booleans())})


@sample("cumulative_max", dtypes=REAL)
@sample("cumulative_min", dtypes=REAL)
@st.composite
def cumulative_extreme(draw: st.DrawFn) -> Case:
    x, axis = one_of_axes(draw)
    return Case((x,), {"axis": axis})


@sample("linear_recurrence")
@st.composite
def linear_recurrence(draw: st.DrawFn) -> Case:
    shape = draw(shapes(1, empty=True) | st.sampled_from([(5,), (2, 4)]))
    a, b = several(draw, [shape, shape])
    axis = draw(st.integers(-len(shape), len(shape) - 1))
    return Case((with_zeros(draw, a), b), {"axis": axis, "reverse": draw(st.booleans())})


# --------------------------------------------------------------------------- order and searching


@sample("sort", dtypes=REAL)
@sample("argsort", dtypes=REAL)
@st.composite
def ordered(draw: st.DrawFn) -> Case:
    x, axis = one_of_axes(draw)
    return Case((x,), {"axis": axis, "descending": draw(st.booleans())})


@sample("topk", dtypes=REAL)
@st.composite
def topk(draw: st.DrawFn) -> Case:
    x, axis = one_of_axes(draw)
    k = draw(st.integers(0, x.shape[axis]))
    return Case((x,), {"axis": axis, "k": k, "largest": draw(st.booleans())})


@sample("in_top_k", dtypes=REAL)
@st.composite
def in_top_k(draw: st.DrawFn) -> Case:
    rows, classes = draw(shapes(0, 2, empty=True)), draw(st.integers(0, 4))
    targets = integers(draw, rows, -1, classes, draw(st.sampled_from(["int32", "int64"])))
    return Case((values(draw, (*rows, classes)), targets), {"k": draw(st.integers(0, 3))})


@sample("searchsorted", dtypes=REAL)
@st.composite
def searchsorted(draw: st.DrawFn) -> Case:
    x1, x2 = several(draw, [(draw(st.integers(0, 4)),), draw(shapes(empty=True))], 0, 4)
    return Case((np.sort(x1), x2), {"side": draw(st.sampled_from(["left", "right"]))})


# ---------------------------------------------------------------------------------------- sets


@sample("unique_values", dtypes=ALL)
@sample("unique_counts", dtypes=ALL)
@sample("unique_inverse", dtypes=ALL)
@sample("unique_all", dtypes=ALL)
@st.composite
def unique(draw: st.DrawFn) -> Case:
    return Case((integers(draw, draw(shapes(empty=True)), -1, 2).astype(float),), late=True)


@sample("nonzero", dtypes=ALL)
@st.composite
def nonzero(draw: st.DrawFn) -> Case:
    x = with_zeros(draw, values(draw, draw(shapes(1, empty=True))))
    return Case((x,), {"rank": x.ndim}, late=True)


@sample("bincount", dtypes=FLOATS)
@st.composite
def bincount(draw: st.DrawFn) -> Case:
    shape = draw(shapes(1, 1, empty=True))
    x = integers(draw, shape, 0, 4, draw(st.sampled_from(["int64", "int32", "uint8"])))
    weights = (values(draw, shape),) if draw(st.booleans()) else ()
    return Case((x, *weights), {"minlength": draw(st.sampled_from([0, 3, 8]))}, late=True)


@sample("histogram", dtypes=REAL)
@st.composite
def histogram(draw: st.DrawFn) -> Case:
    span = draw(st.sampled_from([None, (-1.0, 1.0), (0.5, 0.5)]))
    attrs = {"bins": draw(st.integers(1, 4)), "range": span}
    return Case((values(draw, draw(shapes(empty=True))),), attrs)


# ------------------------------------------------------------------------------------ segments


@st.composite
def segmented(draw: st.DrawFn, *, ordered: bool, zeros: bool = False, filled: bool = False) -> Case:
    """`zeros` puts some into the rows; `filled` leaves no segment without rows."""
    n, k = draw(st.sampled_from([3, 4, 1, 0, 5])), draw(st.integers(1, 4))
    dtype = draw(st.sampled_from(["int32", "int64", "uint8"] if ordered else ["int32", "int64"]))
    ids = integers(draw, (n,), 0 if ordered else -1, k - 1, dtype)
    if filled:
        ids = np.concatenate([ids, np.arange(k, dtype=dtype)])
    ids = np.sort(ids) if ordered else ids
    x = values(draw, (len(ids), *draw(st.sampled_from([(), (2,), (1, 2), (0,)]))))
    attrs: dict[str, Any] = {"num_segments": draw(st.none() | st.just(k)) if ordered else k}
    return Case((with_zeros(draw, x) if zeros else x, ids), attrs, late=attrs["num_segments"] is None)


for way, taken in (("sum", ALL), ("mean", ALL), ("prod", ALL), ("max", REAL), ("min", REAL)):
    how = {"zeros": way == "prod", "filled": way in ("max", "min")}  # -inf of none has no differences
    sample(f"segment_{way}", dtypes=taken)(partial(segmented, ordered=True, **how))
    sample(f"unsorted_segment_{way}", dtypes=taken)(partial(segmented, ordered=False, **how))
