"""Maps indices to rows: each way of addressing becomes rows of a matrix and one number for each index.

An array of n places with w elements each is seen as a matrix (n, w), and k indices as k numbers in
[0, n), checked. Then gathering takes rows and scattering combines rows, whatever the indices mean:

    rows      an index along one axis names a slice, as in `gather`
    vectors   the last axis of the indices names the place, as in `gather_nd`
    elements  an index for each element along one axis, as in `take_along_axis`

On a card the check of the indices waits for it; CuPy would wrap an index outside round in silence.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

import numpy as np

from actorflow.errors import SpecError
from actorflow.kernels.array.slicing import within
from actorflow.kernels.definition.precision import is_half
from actorflow.values.arrays import Array, Library
from actorflow.values.spec import show

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class IndexedRows:
    """An array's places and which of them indices name.

    Attributes:
        count: n, how many places there are.
        at: The places that the indices name, int64 in [0, n), a vector.
        shape: The shape of what is gathered there, and of updates that are scattered.
        to_rows: The array as a matrix (n, w).
        from_rows: A matrix (n, w) as the array.
        updates: What is gathered as a matrix (k, w).
        gathered: A matrix (k, w) as what is gathered.
    """

    count: int
    at: Array
    shape: Shape
    to_rows: Callable[[Array], Array]
    from_rows: Callable[[Array], Array]
    updates: Callable[[Array], Array]
    gathered: Callable[[Array], Array]

    def check(self, op: str, updates: Array) -> None:
        """Raises SpecError unless `updates` has the shape of what is gathered."""
        if updates.shape != self.shape:
            message = f"{op} needs updates of shape {show(self.shape)}, got {show(updates.shape)}"
            raise SpecError(message)


def of_rows(x: Array, indices: Array, axis: int, xp: Library) -> IndexedRows:
    """The slices along `axis`."""
    axis %= x.ndim
    n, lead, tail = x.shape[axis], x.shape[:axis], x.shape[axis + 1 :]
    width, inner = prod(lead) * prod(tail), indices.ndim
    behind, front = tuple(range(axis, axis + inner)), tuple(range(inner))
    return IndexedRows(
        count=n,
        at=within(indices, n, xp).reshape(-1),
        shape=(*lead, *indices.shape, *tail),
        to_rows=lambda a: xp.moveaxis(a, axis, 0).reshape((n, width)),
        from_rows=lambda r: xp.moveaxis(r.reshape((n, *lead, *tail)), 0, axis),
        updates=lambda u: xp.moveaxis(u, behind, front).reshape((indices.size, width)),
        gathered=lambda r: xp.moveaxis(r.reshape((*indices.shape, *lead, *tail)), front, behind),
    )


def of_vectors(x: Array, indices: Array, batch: int, xp: Library) -> IndexedRows:
    """The places that the last axis of `indices` names, in each of the leading `batch` axes."""
    depth = indices.shape[-1]
    if depth > x.ndim - batch or x.shape[:batch] != indices.shape[:-1][:batch]:
        message = (
            f"indices name at most the axes of x after {batch} batch axes, "
            f"got {show(indices.shape)} for {show(x.shape)}"
        )
        raise SpecError(message)
    lead, named, tail = x.shape[:batch], x.shape[batch : batch + depth], x.shape[batch + depth :]
    one = indices.shape[:-1]
    inner = prod(one[batch:])
    at = xp.zeros(one, dtype=xp.int64)
    # A place is counted as in a flat array, axis by axis.
    for axis, size in enumerate(named):
        at = at * size + within(indices[..., axis], size, xp)
    at = at.reshape((prod(lead), inner))
    # Each batch has its own stretch of places.
    at = at + (xp.arange(prod(lead), dtype=xp.int64) * prod(named))[:, None]
    n, width = prod(lead) * prod(named), prod(tail)
    return IndexedRows(
        count=n,
        at=at.reshape(-1),
        shape=(*one, *tail),
        to_rows=lambda a: a.reshape((n, width)),
        from_rows=lambda r: r.reshape(x.shape),
        updates=lambda u: u.reshape((prod(one), width)),
        gathered=lambda r: r.reshape((*one, *tail)),
    )


def of_elements(x: Array, indices: Array, axis: int, xp: Library) -> IndexedRows:
    """The elements along `axis`, one for each element of `indices`."""
    check_elements(x, indices, axis)
    n, lines = x.shape[axis], prod(d for i, d in enumerate(x.shape) if i != axis % x.ndim)
    moved = xp.moveaxis(indices, axis, -1)
    at = within(moved, n, xp).reshape((lines, indices.shape[axis]))
    # Each line has its own stretch of places.
    at = (at + (xp.arange(lines, dtype=xp.int64) * n)[:, None]).reshape(-1)
    rest = moved.shape[:-1]
    return IndexedRows(
        count=lines * n,
        at=at,
        shape=indices.shape,
        to_rows=lambda a: xp.moveaxis(a, axis, -1).reshape((lines * n, 1)),
        from_rows=lambda r: xp.moveaxis(r.reshape((*rest, n)), -1, axis),
        updates=lambda u: xp.moveaxis(u, axis, -1).reshape((indices.size, 1)),
        gathered=lambda r: xp.moveaxis(r.reshape(moved.shape), -1, axis),
    )


def check_elements(x: Array, indices: Array, axis: int) -> None:
    """Raises SpecError unless the two shapes are equal but along `axis`."""
    kept = [s[: axis % len(s)] + s[axis % len(s) + 1 :] for s in (x.shape, indices.shape)]
    if x.ndim != indices.ndim or kept[0] != kept[1]:
        message = (
            f"the indices need the sizes of x beside axis {axis}, "
            f"got {show(indices.shape)} for {show(x.shape)}"
        )
        raise SpecError(message)


# --------------------------------------------------------------------------- combining rows


def combine_rows(rows: Array, at: Array, updates: Array, how: str, xp: Library) -> Array:
    """`rows` with `updates` combined into the rows `at`: "update" (the last wins), "add", "max", "min".

    Halves are added up in float32 and rounded once.

    Cost:    a sort of k indices and log2(the largest number of updates of one row) passes over them.
    """
    if not at.shape[0] or not rows.shape[0]:
        return rows
    if how == "add" and is_half(rows.dtype):
        return combine_rows(_wide(rows), at, _wide(updates), how, xp).astype(rows.dtype)
    # Sorted, folded by doubling, and taken where each row lies: no scatter at all, so the result is the same
    # in every run, on a card too, whose atomic additions come in any order.
    order = order_of(at, xp)
    at, updates = xp.take(at, order), xp.take(updates, order, axis=0)
    join = {"add": xp.add, "max": xp.maximum, "min": xp.minimum}.get(how)
    if join is not None:
        updates = _fold(at, updates, join, xp)
    numbers = xp.arange(rows.shape[0], dtype=at.dtype)
    # The last update of each row, which holds the sum of all before it.
    last = xp.searchsorted(at, numbers, side="right") - 1
    # Rows without updates look at any: they are left out below.
    last = xp.where(last < 0, 0 * last, last)
    hit = (xp.take(at, last) == numbers)[:, None]
    found = xp.take(updates, last, axis=0)
    return xp.where(hit, found if join is None else join(rows, found), rows)


def order_of(at: Array, xp: Library) -> Array:
    """The order that sorts the places and keeps that of equal ones."""
    k = at.shape[0]
    # Each place is made different by its position, so that a sort need not be stable: libraries ask for a
    # stable one by different names.
    return xp.argsort(at * k + xp.arange(k, dtype=at.dtype))


def _fold(at: Array, updates: Array, join: Callable[[Array, Array], Array], xp: Library) -> Array:
    """Each update joined with those before it of the same place; `at` is sorted."""
    step, k = 1, at.shape[0]
    while step < k:
        same = at[step:] == at[: k - step]
        if not same.any():  # then no two lie further apart
            break
        # By doubling: after step s each has joined with the s before it.
        joined = join(updates[: k - step, :], updates[step:, :])
        later = xp.where(same[:, None], joined, updates[step:, :])
        updates = xp.concat([updates[:step, :], later], axis=0)
        step *= 2
    return updates


_CHUNK = 1 << 17  # elements whose index is written out at a time: 1 MiB


def combine_rows_numpy(rows: Array, at: Array, updates: Array, how: str) -> Array:
    """As `combine_rows`, and "multiply"; the updates of a row one after the other, halves in float32."""
    if how in ("add", "multiply") and is_half(rows.dtype):
        return combine_rows_numpy(_wide(rows), at, _wide(updates), how).astype(rows.dtype)
    # Many single float32 are added in float64, for nearly the same: 1,000,000 take 2.7 ms, not 1.7.
    if how == "add" and rows.shape[1] == 1 and rows.dtype == np.float32 and at.size >= rows.shape[0]:
        sums = rows.astype(np.float64, order="C")
        for start in range(0, at.size, _CHUNK):
            chunk = slice(start, start + _CHUNK)
            # Some at a time: their indices and values are copies.
            np.add.at(sums.reshape(-1), at[chunk], updates[chunk, 0].astype(np.float64))
        return sums.astype(np.float32)
    out = rows.copy()
    if how == "update":
        out[at] = updates
        return out
    join, flat, width = _JOIN[how], out.reshape(-1), rows.shape[1]
    if width == 1:
        join.at(flat, at, updates[:, 0])
        return out
    # numpy's fast loops of `ufunc.at` are for one index and one number, so every element gets its index:
    # 50,000 rows of 16 float32 take 2.6 ms so, 13 ms by `np.add.at(out, at, updates)`.
    columns, step = np.arange(width), max(1, _CHUNK // max(width, 1))
    for start in range(0, at.size, step):
        chunk = slice(start, start + step)
        join.at(flat, (at[chunk, None] * width + columns).reshape(-1), updates[chunk].reshape(-1))
    return out


def _wide(rows: Array) -> Array:
    return rows.astype(np.float32)


_JOIN: dict[str, np.ufunc] = {
    "add": np.add,
    "multiply": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
}


def last_of_each(at: Array, xp: Library) -> Array:
    """Whether an index is the last that names its place, for each of them."""
    if not at.shape[0]:
        return at == at
    order = order_of(at, xp)
    at = xp.take(at, order)
    end = xp.concat([at[1:] != at[:-1], xp.ones(1, dtype=xp.bool)])
    # Back in the order in which they came.
    return xp.take(end, xp.argsort(order))
