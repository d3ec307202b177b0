"""Samples of the indexing ops: gathering, scattering, masks, partitions, sequences, blocks."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from hypothesis import strategies as st

from actorflow.values.arrays import NAMES
from tests.ops.samples import SHAPES, Case, bools, integers, sample, several, shapes, values
from tests.ops.samples_core import indexes

ALL = NAMES
NUMBERS = tuple(n for n in NAMES if n != "bool")
REAL = tuple(n for n in NUMBERS if not n.startswith("complex"))
INTEGERS = st.sampled_from(["int32", "int64", "int8", "uint8"])

Shape = tuple[int, ...]


def signed(draw: st.DrawFn, shape: Shape, size: int, dtype: str) -> np.ndarray:
    size = max(size, 1)  # where there is none, no index is drawn
    return integers(draw, shape, 0 if dtype == "uint8" else -size, size - 1, dtype)


# ---------------------------------------------------------------------- three ways to address


def rows(draw: st.DrawFn) -> tuple[Shape, np.ndarray, Shape, dict[str, Any]]:
    """Indices into slices along an axis: the shape of x, indices, that of what they pick, attributes."""
    shape = draw(shapes(1))
    axis = draw(st.integers(-len(shape), len(shape) - 1))
    inner = draw(st.sampled_from([s for s in SHAPES if len(s) < 3 and prod(s) <= 3]))
    indices = signed(draw, inner, shape[axis], draw(INTEGERS))
    return shape, indices, np.take(np.zeros(shape), indices, axis).shape, {"axis": axis}


def vectors(draw: st.DrawFn) -> tuple[Shape, np.ndarray, Shape, dict[str, Any]]:
    """Indices that are vectors; see `rows`."""
    shape = draw(shapes(empty=True))
    batch = draw(st.integers(0, min(1, len(shape))))
    depth = draw(st.integers(0, len(shape) - batch))
    named, dtype = shape[batch : batch + depth], draw(INTEGERS)
    inner = draw(st.sampled_from([(0,)] if 0 in named else [(), (2,), (3,), (0,), (1, 2)]))
    one = (*shape[:batch], *inner)
    parts = [signed(draw, one, size, dtype) for size in named]
    indices = np.stack(parts, -1) if parts else np.zeros((*one, 0), dtype)
    return shape, indices, (*one, *shape[batch + depth :]), {"batch_dims": batch}


def elements(draw: st.DrawFn) -> tuple[Shape, np.ndarray, Shape, dict[str, Any]]:
    """An index for each element along an axis; see `rows`."""
    shape = draw(shapes(1, empty=True))
    axis = draw(st.integers(-len(shape), len(shape) - 1))
    at = axis % len(shape)
    count = draw(st.integers(0, 3)) if shape[at] else 0
    picked = (*shape[:at], count, *shape[at + 1 :])
    return shape, signed(draw, picked, shape[at], draw(INTEGERS)), picked, {"axis": axis}


@sample("gather_nd", dtypes=ALL)
@st.composite
def gather_nd(draw: st.DrawFn) -> Case:
    shape, indices, _, attrs = vectors(draw)
    return Case((values(draw, shape), indices), attrs)


@sample("take_along_axis", dtypes=ALL)
@st.composite
def take_along_axis(draw: st.DrawFn) -> Case:
    shape, indices, _, attrs = elements(draw)
    return Case((values(draw, shape), indices), attrs)


def written(addressed: Any, **more: Any) -> st.SearchStrategy[Case]:
    @st.composite
    def cases(draw: st.DrawFn) -> Case:
        shape, indices, picked, attrs = addressed(draw)
        x, updates = several(draw, [shape, picked])
        return Case((x, indices, updates), {**attrs, **more})

    return cases()


for op, dtypes in (("update", ALL), ("add", NUMBERS), ("max", REAL), ("min", REAL)):
    sample(f"scatter_{op}", dtypes=dtypes)(lambda: written(rows))
    sample(f"scatter_nd_{op}", dtypes=dtypes)(lambda: written(vectors))
sample("put_along_axis", dtypes=ALL)(
    lambda: st.sampled_from(["update", "add", "max", "min"]).flatmap(lambda how: written(elements, how=how))
)


@sample("last_writes", dtypes=ALL)
@st.composite
def last_writes(draw: st.DrawFn) -> Case:
    name = draw(st.sampled_from(["rows", "vectors", "elements"]))
    addressed: Any = {"rows": rows, "vectors": vectors, "elements": elements}[name]
    shape, indices, picked, attrs = addressed(draw)
    updates, x = several(draw, [picked, shape])
    axis = attrs.get("axis", attrs.get("batch_dims"))
    return Case((updates, indices, x), {"addressed": name, "axis": axis})


# ------------------------------------------------------------------------ masks and partitions


def masked(draw: st.DrawFn) -> tuple[Shape, np.ndarray, int]:
    shape = draw(shapes(1, empty=True))
    axis = draw(st.integers(0, len(shape) - 1))
    end = draw(st.integers(axis + 1, len(shape)))
    return shape, bools(draw, shape[axis:end]), axis - draw(st.sampled_from([0, len(shape)]))


@sample("boolean_mask", dtypes=ALL)
@st.composite
def boolean_mask(draw: st.DrawFn) -> Case:
    shape, mask, axis = masked(draw)
    return Case((values(draw, shape), mask), {"axis": axis}, late=True)


@sample("boolean_mask_grad", dtypes=ALL)
@st.composite
def boolean_mask_grad(draw: st.DrawFn) -> Case:
    shape, mask, axis = masked(draw)
    chosen: Any = (*(slice(None),) * (axis % len(shape)), mask)
    piece = np.zeros(shape)[chosen].shape
    grad, x = several(draw, [piece, shape])
    return Case((grad, x, mask), {"axis": axis})


@sample("argwhere", dtypes=ALL)
@st.composite
def argwhere(draw: st.DrawFn) -> Case:
    x = values(draw, draw(shapes(empty=True)))
    return Case((np.where(bools(draw, x.shape), x, 0.0),), late=True)


@sample("slice_update", dtypes=ALL)
@st.composite
def slice_update(draw: st.DrawFn) -> Case:
    shape = draw(shapes(empty=True))
    index = draw(indexes(shape))
    plain: dict[Any, Any] = {"new": None, "...": ...}
    numpy_index = tuple(slice(*p[1:]) if isinstance(p, tuple) else plain.get(p, p) for p in index)
    return Case(tuple(several(draw, [shape, np.zeros(shape)[numpy_index].shape])), {"index": index})


@sample("row_numbers")
@st.composite
def row_numbers(draw: st.DrawFn) -> Case:
    rows, from_end = draw(st.integers(1, 4)), draw(st.booleans())
    ids = integers(draw, draw(shapes(empty=True)), -rows if from_end else 0, rows - 1)
    return Case((ids,), {"rows": rows, "what": "a table", "from_end": from_end})


@sample("dynamic_partition", dtypes=ALL)
@st.composite
def dynamic_partition(draw: st.DrawFn) -> Case:
    shape, count = draw(shapes(empty=True)), draw(st.integers(1, 3))
    partitions = integers(draw, shape[: draw(st.integers(0, len(shape)))], 0, count - 1)
    return Case((values(draw, shape), partitions), {"count": count}, late=True)


def stitched(draw: st.DrawFn) -> tuple[list[np.ndarray], list[Shape], Shape]:
    """Indices, the shapes of their data, and the shape of the result."""
    tail = draw(st.sampled_from([(), (2,), (0,), (1, 2)]))
    heads = draw(st.lists(st.sampled_from([(), (2,), (0,), (1, 2)]), min_size=1, max_size=3))
    indices = [integers(draw, h, 0, 3) for h in heads]
    rows = max((int(i.max(initial=-1)) + 1 for i in indices), default=0)
    return indices, [(*h, *tail) for h in heads], (rows, *tail)


@sample("dynamic_stitch", dtypes=ALL)
@st.composite
def dynamic_stitch(draw: st.DrawFn) -> Case:
    indices, data, _ = stitched(draw)
    return Case((*indices, *several(draw, data)), late=True)


@sample("dynamic_stitch_grad", dtypes=ALL)
@st.composite
def dynamic_stitch_grad(draw: st.DrawFn) -> Case:
    indices, data, whole = stitched(draw)
    grad, *values_of_data = several(draw, [whole, *data])
    return Case((grad, *indices, *values_of_data))


@sample("invert_permutation", dtypes=("int32",))
@st.composite
def invert_permutation(draw: st.DrawFn) -> Case:
    order = draw(st.permutations(range(draw(st.integers(0, 5)))))
    return Case((np.array(order, draw(st.sampled_from(["int32", "int64", "uint8"]))),))


@sample("reverse_sequence", dtypes=ALL)
@st.composite
def reverse_sequence(draw: st.DrawFn) -> Case:
    shape = draw(shapes(2, empty=True))
    axis, batch_axis = draw(st.permutations(range(len(shape))))[:2]
    lengths = integers(draw, (shape[batch_axis],), 0, shape[axis])
    back = draw(st.sampled_from([0, len(shape)]))
    return Case((values(draw, shape), lengths), {"axis": axis - back, "batch_axis": batch_axis})


# ------------------------------------------------------------------------------------- blocks


@sample("space_to_depth", dtypes=ALL)
@st.composite
def space_to_depth(draw: st.DrawFn) -> Case:
    block, n, h, w, c = (draw(st.integers(1, 2)) for _ in range(5))
    return Case((values(draw, (n - 1 if n + h == 3 else n, h * block, w * block, c)),), {"block": block})


@sample("depth_to_space", dtypes=ALL)
@st.composite
def depth_to_space(draw: st.DrawFn) -> Case:
    block, n, h, w, c = (draw(st.integers(1, 2)) for _ in range(5))
    return Case((values(draw, (n, h, w, c * block**2)),), {"block": block})


def blocks(draw: st.DrawFn) -> tuple[Shape, Shape, dict[str, Any]]:
    """The shapes of fine images and of the batch of coarse ones, and the attributes."""
    m = draw(st.integers(0, 2))
    n, tail = draw(st.integers(0, 2)), draw(st.sampled_from([(), (2,)]))
    block = tuple(draw(st.integers(1, 2)) for _ in range(m))
    coarse = tuple(draw(st.integers(1, 2)) for _ in range(m))
    margins = []
    for b, d in zip(block, coarse, strict=True):
        before = draw(st.integers(0, b * d))
        margins.append((before, draw(st.integers(0, b * d - before))))
    fine = tuple(b * d - sum(p) for b, d, p in zip(block, coarse, margins, strict=True))
    attrs = {"block": block, "margins": tuple(margins)}
    return (n, *fine, *tail), (n * prod(block), *coarse, *tail), attrs


@sample("space_to_batch", dtypes=ALL)
@st.composite
def space_to_batch(draw: st.DrawFn) -> Case:
    fine, _, attrs = blocks(draw)
    return Case((values(draw, fine),), attrs)


@sample("batch_to_space", dtypes=ALL)
@st.composite
def batch_to_space(draw: st.DrawFn) -> Case:
    _, coarse, attrs = blocks(draw)
    return Case((values(draw, coarse),), attrs)
