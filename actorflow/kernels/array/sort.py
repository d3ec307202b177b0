"""Kernels of `ops.array.sort`. NaN counts as the largest number.

bfloat16 is sorted as float32: numpy's own order of it has no place for NaN.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from actorflow.kernels.definition.precision import in_float32
from actorflow.kernels.definition.registry import elements, kernel
from actorflow.kernels.math.scan import along
from actorflow.values.arrays import Array, Library
from actorflow.values.spec import show


def sort_cost(*arrays: Array, **_: Any) -> float:
    """About log2(n) comparisons for each element."""
    return 4.0 * elements(*arrays) * 16


def comparable(x: Array) -> Array:
    """`x`, halves as float32: the order is the same."""
    return x.astype(np.float32) if x.dtype.itemsize == 2 and x.dtype.kind not in "biu" else x


@kernel("sort", cost=sort_cost)
@in_float32
def sort(x: Array, *, axis: int, descending: bool, xp: Library = np) -> Array:
    """The elements in order along `axis`."""
    if not x.size:  # there is nothing that Thrust, behind CuPy, must be asked for
        return x
    y = xp.sort(x, axis=axis)
    return xp.flip(y, axis=axis) if descending else y


@kernel("argsort", cost=sort_cost)
def argsort(x: Array, *, axis: int, descending: bool, xp: Library = np) -> Array:
    """The indices that sort `x` along `axis`, stable; the sort of CuPy always is."""
    if xp is np:
        return argsort_of_numpy(x, axis=axis, descending=descending)
    return _order(comparable(x), axis, descending, xp, lambda y: xp.argsort(y, axis=axis))


@kernel("argsort", only="numpy", cost=sort_cost)
def argsort_of_numpy(x: Array, *, axis: int, descending: bool) -> Array:
    """The indices that sort `x` along `axis`, stable."""
    return _order(comparable(x), axis, descending, np, lambda y: np.argsort(y, axis, kind="stable"))


def _order(x: Array, axis: int, descending: bool, xp: Library, ascending: Any) -> Array:
    """The indices that sort `x`; descending ones come from sorting backwards: equals keep theirs."""
    if not x.size:  # there is nothing that Thrust, behind CuPy, must be asked for
        return xp.zeros(x.shape, dtype=xp.int64)
    if not descending:
        return ascending(x)
    # Backwards, so that equals keep their order in what is then turned round.
    order = xp.flip(ascending(xp.flip(x, axis=axis)), axis=axis)
    return x.shape[axis] - 1 - order


@kernel("topk", cost=sort_cost)
def topk(x: Array, *, k: int, axis: int, largest: bool, xp: Library = np) -> tuple[Array, Array]:
    """The first k in descending order along `axis`, and where they lie."""
    if x.shape[axis] < k:
        message = f"topk needs k elements along axis {axis}, got {show(x.shape)} and k={k}"
        raise ValueError(message)
    first = argsort(x, axis=axis, descending=largest, xp=xp)[along(axis, x.ndim, 0, k)]
    return xp.take_along_axis(x, first, axis=axis), first


@kernel("topk", only="numpy")
def topk_of_numpy(x: Array, *, k: int, axis: int, largest: bool) -> tuple[Array, Array]:
    """The first k in descending order along `axis`, and where they lie."""
    n = x.shape[axis]
    # Few to choose from: sorting all is as fast.
    if n < 4 * k or not k:
        return topk(x, k=k, axis=axis, largest=largest)
    keys = np.moveaxis(comparable(x), axis, -1)
    rows = keys.reshape(-1, n)
    chosen = _choose(rows, k, largest)
    where = np.nonzero(chosen)[1].reshape(len(rows), k)
    order = argsort_of_numpy(np.take_along_axis(rows, where, 1), axis=1, descending=largest)
    first = np.take_along_axis(where, order, 1).reshape(*keys.shape[:-1], k)
    first = np.moveaxis(first, -1, axis)
    return np.take_along_axis(x, first, axis), first


def _choose(rows: Array, k: int, largest: bool) -> Array:
    """Which k elements of each row come first in order; of equals the first."""
    at = rows.shape[1] - k if largest else k - 1
    # A partition finds the last of them; then only the k are sorted: 19 ms for 10 of a million float32, 150
    # ms by sorting all.
    last = np.partition(rows, at, 1)[:, at, None]
    before, equal = (rows > last if largest else rows < last), rows == last
    # NaN counts as the largest, and compares with nothing.
    if rows.dtype.kind == "f":
        nan, last_nan = np.isnan(rows), np.isnan(last)
        before |= nan & ~last_nan if largest else ~nan & last_nan
        equal |= nan & last_nan
    # Of equals the first: so many as are missing.
    left = k - np.count_nonzero(before, axis=1, keepdims=True)
    return before | (equal & (np.cumsum(equal, 1) <= left))


@kernel("in_top_k")
def in_top_k(predictions: Array, targets: Array, *, k: int, xp: Library = np) -> Array:
    """Whether fewer than k of a row are larger than that of its target."""
    classes = predictions.shape[-1]
    at = targets.astype(np.int64)
    inside = (at >= 0) & (at < classes)
    if not classes:
        return inside
    x = comparable(predictions)
    # A target outside has no prediction: any will do, and it counts for nothing below.
    own = xp.take_along_axis(x, xp.where(inside, at, xp.zeros_like(at))[..., None], axis=-1)
    larger = xp.sum((x > own).astype(np.int64), axis=-1)
    found = inside & (larger < k)
    return found & xp.isfinite(own[..., 0]) if x.dtype.kind == "f" else found


@kernel("searchsorted")
def searchsorted(x1: Array, x2: Array, *, side: str, xp: Library = np) -> Array:
    """Where the elements of `x2` go into the sorted `x1`."""
    return xp.searchsorted(comparable(x1), comparable(x2), side=side)
