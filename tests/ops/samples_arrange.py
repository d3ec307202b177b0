"""Samples of the shape ops: moving, copying, joining, padding, filling, diagonals."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from actorflow.values.arrays import NAMES
from tests.ops.samples import Case, broadcast_shapes, integers, sample, several, shapes, values

ALL = NAMES
NUMBERS = tuple(n for n in NAMES if n != "bool")


def axis_lists(draw: st.DrawFn, rank: int) -> tuple[int, ...]:
    """Some axes, each once, counted from the front or the back."""
    axes = draw(st.permutations(range(rank)))[: draw(st.integers(0, rank))]
    return tuple(a - draw(st.sampled_from([0, rank])) for a in axes)


def some_axis(draw: st.DrawFn, rank: int) -> Any:
    """None, one axis, or a tuple of them."""
    axes = axis_lists(draw, rank)
    return draw(st.sampled_from([None, axes, axes[0] if axes else None]))


@sample("moveaxis", dtypes=ALL)
@st.composite
def moveaxis(draw: st.DrawFn) -> Case:
    shape = draw(shapes(empty=True))
    source = axis_lists(draw, len(shape))
    destination = tuple(draw(st.permutations(range(len(shape))))[: len(source)])
    return Case((values(draw, shape),), {"source": source, "destination": destination})


@sample("flip", dtypes=ALL)
@st.composite
def flip(draw: st.DrawFn) -> Case:
    shape = draw(shapes(empty=True))
    return Case((values(draw, shape),), {"axis": some_axis(draw, len(shape))})


@sample("roll", dtypes=ALL)
@st.composite
def roll(draw: st.DrawFn) -> Case:
    shape = draw(shapes(empty=True))
    axis = some_axis(draw, len(shape))
    shift: Any = draw(st.integers(-4, 4))
    if isinstance(axis, tuple) and draw(st.booleans()):
        shift = tuple(draw(st.integers(-4, 4)) for _ in axis)
    return Case((values(draw, shape),), {"shift": shift, "axis": axis})


repetitions = st.lists(st.integers(0, 2), max_size=3).map(tuple)


@sample("tile", dtypes=ALL)
@st.composite
def tile(draw: st.DrawFn) -> Case:
    return Case((values(draw, draw(shapes(empty=True))),), {"repetitions": draw(repetitions)})


@sample("tile_grad", dtypes=NUMBERS)
@st.composite
def tile_grad(draw: st.DrawFn) -> Case:
    shape, times = draw(shapes(empty=True)), draw(repetitions)
    return Case(tuple(several(draw, [np.tile(np.zeros(shape), times).shape, shape])), {"repetitions": times})


@sample("repeat", dtypes=ALL)
@st.composite
def repeat(draw: st.DrawFn) -> Case:
    shape = draw(shapes(1, empty=True))
    axis = draw(st.integers(-len(shape), len(shape) - 1))
    x = values(draw, shape)
    kind = draw(st.sampled_from(["one", "each", "tensor"]))
    if kind == "one":
        return Case((x,), {"repeats": draw(st.integers(0, 3)), "axis": axis})
    times = integers(draw, (shape[axis],), 0, 2)
    if kind == "each":
        return Case((x,), {"repeats": tuple(times.tolist()), "axis": axis})
    return Case((x, times), {"repeats": None, "axis": axis}, late=True)


@sample("flatten", dtypes=ALL)
@st.composite
def flatten(draw: st.DrawFn) -> Case:
    shape = draw(shapes(empty=True))
    rank = max(len(shape), 1)
    start = draw(st.integers(0, rank - 1))
    stop = draw(st.integers(start, rank - 1)) - draw(st.sampled_from([0, rank]))
    return Case((values(draw, shape),), {"start": start, "stop": stop})


# ------------------------------------------------------------------------- joining and cutting


@sample("stack", dtypes=ALL)
@st.composite
def stack(draw: st.DrawFn) -> Case:
    shape = draw(shapes(empty=True))
    axis = draw(st.integers(-len(shape) - 1, len(shape)))
    return Case(tuple(several(draw, [shape] * draw(st.integers(1, 3)))), {"axis": axis})


@sample("unstack", dtypes=ALL)
@st.composite
def unstack(draw: st.DrawFn) -> Case:
    shape = draw(shapes(1, empty=True).filter(any))
    axis = draw(st.sampled_from([a for a, d in enumerate(shape) if d])) - draw(
        st.sampled_from([0, len(shape)])
    )
    return Case((values(draw, shape),), {"axis": axis, "count": shape[axis]})


@sample("split", dtypes=ALL)
@st.composite
def split(draw: st.DrawFn) -> Case:
    shape = draw(shapes(1, empty=True))
    axis = draw(st.integers(-len(shape), len(shape) - 1))
    size = shape[axis]
    parts: Any = draw(st.sampled_from([n for n in (1, 2, 3) if size % n == 0]))
    if draw(st.booleans()):
        cut = draw(st.integers(0, size))
        parts = draw(st.sampled_from([(size,), (cut, size - cut), (cut, 0, size - cut)]))
    return Case((values(draw, shape),), {"parts": parts, "axis": axis})


@sample("broadcast_arrays", dtypes=ALL)
@st.composite
def broadcast_arrays(draw: st.DrawFn) -> Case:
    return Case(tuple(several(draw, broadcast_shapes(draw, draw(st.integers(1, 3))))))


# ----------------------------------------------------------------------------------- padding

MODES = ("constant", "edge", "reflect", "symmetric", "wrap")


def padded(draw: st.DrawFn) -> tuple[tuple[int, ...], dict[str, Any]]:
    shape, mode = draw(shapes(empty=True)), draw(st.sampled_from(MODES))
    pairs: Any = tuple(
        (0, 0) if not d and mode != "constant" else (draw(st.integers(0, 4)), draw(st.integers(0, 3)))
        for d in shape
    )
    if 0 not in shape and draw(st.booleans()):
        pairs = draw(st.integers(0, 2))
    return shape, {"paddings": pairs, "mode": mode}


@sample("pad", dtypes=ALL)
@st.composite
def pad(draw: st.DrawFn) -> Case:
    shape, attrs = padded(draw)
    return Case((values(draw, shape),), {**attrs, "value": draw(st.sampled_from([0, 1, 1]))})


@sample("pad_grad", dtypes=NUMBERS)
@st.composite
def pad_grad(draw: st.DrawFn) -> Case:
    shape, attrs = padded(draw)
    whole = np.pad(np.zeros(shape), attrs["paddings"]).shape if shape else ()
    return Case(tuple(several(draw, [whole, shape])), attrs)


# --------------------------------------------------------------------------- rules, not data

some_dtype = st.sampled_from(["float32", "int32", "float64", "int64", "float16", "bfloat16", "uint8"])


@sample("arange", dtypes=("int32",))
@st.composite
def arange(draw: st.DrawFn) -> Case:
    attrs: dict[str, Any] = {"start": 0, "stop": 0, "step": 1, "dtype": ""}
    if draw(st.booleans()):
        dtype = draw(st.sampled_from(["int32", "int64", "float32", "float64"]))
        bounds = draw(st.tuples(st.integers(-3, 3), st.integers(-3, 9), st.sampled_from([1, 2, -2])))
        return Case(tuple(np.array(v, dtype) for v in bounds), attrs, late=True)
    dtype = draw(some_dtype)
    whole = dtype in ("int32", "int64", "uint8")
    step: float = draw(st.sampled_from([1, 2, 3] if whole else [1, 0.1, -0.3, 2.5]))
    attrs = {"start": draw(st.integers(0, 3)), "stop": draw(st.integers(-2, 9)), "step": step, "dtype": dtype}
    return Case((), attrs)


@sample("linspace", dtypes=("float32",))
@st.composite
def linspace(draw: st.DrawFn) -> Case:
    attrs = {"start": draw(st.floats(-3, 3)), "stop": draw(st.floats(-3, 3)), "num": draw(st.integers(0, 4))}
    dtype = draw(st.sampled_from(["float32", "float64", "float16", "bfloat16"]))
    return Case((), {**attrs, "endpoint": draw(st.booleans()), "dtype": dtype})


@sample("eye", dtypes=("float32",))
@st.composite
def eye(draw: st.DrawFn) -> Case:
    attrs = {"rows": draw(st.integers(0, 3)), "columns": draw(st.integers(0, 4))}
    return Case((), {**attrs, "offset": draw(st.integers(-4, 4)), "dtype": draw(st.sampled_from(NAMES))})


for op in ("shape", "size", "rank"):

    @sample(op, dtypes=ALL)
    @st.composite
    def facts(draw: st.DrawFn) -> Case:
        return Case((values(draw, draw(shapes(empty=True))),))


@sample("ensure_shape", dtypes=ALL)
@st.composite
def ensure_shape(draw: st.DrawFn) -> Case:
    shape = draw(shapes(empty=True))
    known = tuple(d if draw(st.booleans()) else None for d in shape)
    return Case((values(draw, shape),), {"shape": draw(st.sampled_from([known, None]))})


# --------------------------------------------------------------------- triangles and diagonals

offsets = st.integers(-3, 3)


@sample("tril", dtypes=ALL)
@sample("triu", dtypes=ALL)
@sample("diagonal", dtypes=ALL)
@st.composite
def of_matrices(draw: st.DrawFn) -> Case:
    return Case((values(draw, draw(shapes(2, empty=True))),), {"offset": draw(offsets)})


@sample("diagonal_grad", dtypes=ALL)
@st.composite
def diagonal_grad(draw: st.DrawFn) -> Case:
    shape, offset = draw(shapes(2, empty=True)), draw(offsets)
    piece = np.diagonal(np.zeros(shape), offset, -2, -1).shape
    return Case(tuple(several(draw, [piece, shape])), {"offset": offset})


@sample("diag_embed", dtypes=ALL)
@st.composite
def diag_embed(draw: st.DrawFn) -> Case:
    return Case((values(draw, draw(shapes(1, 2, empty=True))),), {"offset": draw(offsets)})
