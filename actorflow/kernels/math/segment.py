"""Kernels of `ops.math.segment`: rows folded by ids, in an order that does not depend on threads.

The rows of a segment lie side by side, those of unsorted ids after a stable sort. numpy folds them
by `reduceat`, and unsorted ones where they belong, one after the other. Other libraries have nothing
like it: log2(longest segment) passes let every row take in the one s places before it, if that is of
its segment, s = 1, 2, 4, …; the last row of a segment holds the whole then. (A scatter that adds
atomically would give other last digits in every run.)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from actorflow.kernels.array.indexing_rows import combine_rows_numpy
from actorflow.kernels.array.sort import sort_cost
from actorflow.kernels.definition.precision import in_float32
from actorflow.kernels.definition.registry import kernel
from actorflow.values.arrays import Array, Library


@dataclass(frozen=True, slots=True)
class _Fold:
    """A way to fold: the function of two rows, how `indexing_rows` calls it, what folding nothing gives."""

    function: str
    join: str
    nothing: Callable[[Array], Any]


def _least(x: Array) -> Any:
    return np.iinfo(f"{x.dtype.kind}{x.dtype.itemsize}").min if x.dtype.kind in "iu" else -math.inf


def _most(x: Array) -> Any:
    return np.iinfo(f"{x.dtype.kind}{x.dtype.itemsize}").max if x.dtype.kind in "iu" else math.inf


SUM = _Fold("add", "add", lambda x: 0)
PROD = _Fold("multiply", "multiply", lambda x: 1)
MAX = _Fold("maximum", "max", _least)
MIN = _Fold("minimum", "min", _most)


def fold(x: Array, ids: Array, k: int, way: _Fold, xp: Library) -> Array:
    """The rows of `x` folded by the sorted ids below k; those of negative ids are left out."""
    # Ids are sorted: a segment lies between two borders, and negative ids before the first.
    borders = xp.searchsorted(ids, xp.arange(k + 1))
    starts, ends = borders[:-1], borders[1:]
    filled = ends > starts
    # Segments without rows keep what folding nothing gives.
    nothing = xp.full((k, *x.shape[1:]), way.nothing(x), dtype=x.dtype)
    if not x.shape[0]:
        return nothing
    # reduceat takes borders, of filled segments alone: of an empty one it would give the row there.
    if xp is np:
        if x.size and k:
            nothing[filled] = getattr(np, way.function).reduceat(x, starts[filled], axis=0, dtype=x.dtype)
        return nothing
    if not k:
        return nothing
    longest, s = int(xp.max(ends - starts)), 1
    of_two = getattr(xp, way.function)
    wide = (slice(None), *(None,) * (x.ndim - 1))
    # INVARIANT: before pass s each row holds the fold of up to s rows of its segment that end with it.
    while s < longest:
        same = (ids[s:] == ids[:-s])[wide]
        own = x[s:, ...]
        # Equal ids s apart mean one segment, as they are sorted.
        x = xp.concat([x[:s, ...], xp.where(same, of_two(own, x[:-s, ...]), own)], axis=0)
        s *= 2
    # Empty segments ask for row 0, which the choice below drops.
    last = xp.take(x, xp.where(filled, ends - 1, xp.zeros_like(ends)), axis=0)
    return xp.where(filled[wide], last, nothing)


def _sorted_ids(op: str, ids: Array, number: int | None, xp: Library) -> tuple[Array, int]:
    """The ids as int64 and the number of segments; ValueError unless they are sorted and inside."""
    at = ids.astype(np.int64)
    n = at.shape[0]
    # Without a number as many as the last id says; ids are sorted, which is checked next.
    k = number if number is not None else (int(at[-1]) + 1 if n else 0)
    if not n:
        return at, max(k, 0)
    if xp.any(at[1:] < at[:-1]):
        # The first place that is wrong, for the message.
        i = int(xp.argmax((at[1:] < at[:-1]).astype(np.int64)))
        message = f"{op} needs sorted ids, got {int(at[i])} before {int(at[i + 1])} at row {i}"
        raise ValueError(message)
    # Sorted: the ends tell for all.
    if int(at[0]) < 0 or int(at[-1]) >= k:
        message = f"{op} needs ids in [0, {k}), got {int(at[0])} to {int(at[-1])}"
        raise ValueError(message)
    return at, k


def _below(op: str, ids: Array, k: int, xp: Library) -> Array:
    """The ids as int64; ValueError unless they are below k."""
    at = ids.astype(np.int64, copy=False)
    # Negative ids are allowed: their rows are left out.
    if at.shape[0] and int(xp.max(at)) >= k:
        message = f"{op} needs ids below {k}, got {int(xp.max(at))}"
        raise ValueError(message)
    return at


def _in_order(op: str, x: Array, ids: Array, k: int, xp: Library) -> tuple[Array, Array]:
    """The rows sorted by their ids, and these."""
    at = _below(op, ids, k, xp)
    # Stable by the array API's standard and in CuPy, so that the fold has one order in every run.
    order = xp.argsort(at)
    return xp.take(x, order, axis=0), xp.take(at, order, axis=0)


def _register(op: str, way: _Fold, mean: bool = False) -> None:
    """Registers the kernels of `op` for sorted and for unsorted ids."""

    def result(x: Array, ids: Array, k: int, xp: Library) -> Array:
        total = fold(x, ids, k, way, xp)
        if not mean:
            return total
        # The sizes again, from the borders; of an empty segment 0 / 1.
        at = xp.arange(k + 1)
        ends = xp.searchsorted(ids, at)
        sizes = xp.maximum(ends[1:] - ends[:-1], xp.asarray(1))
        return total / sizes[(slice(None), *(None,) * (x.ndim - 1))].astype(x.dtype)

    @kernel(op)
    @in_float32
    def of_sorted(x: Array, ids: Array, *, num_segments: int | None, xp: Library = np) -> Array:
        at, k = _sorted_ids(op, ids, num_segments, xp)
        return result(x, at, k, xp)

    @kernel(f"unsorted_{op}", cost=sort_cost)
    @in_float32
    def of_unsorted(x: Array, ids: Array, *, num_segments: int, xp: Library = np) -> Array:
        rows, at = _in_order(f"unsorted_{op}", x, ids, num_segments, xp)
        return result(rows, at, num_segments, xp)

    @kernel(f"unsorted_{op}", only="numpy")
    @in_float32
    def of_unsorted_by_numpy(x: Array, ids: Array, *, num_segments: int) -> Array:
        """Row by row where it belongs: 1,000,000 single float32 take 3 ms so, 250 ms after a sort."""
        at = _below(f"unsorted_{op}", ids, num_segments, np)
        # All negative ids mean the same.
        if at.size and at.min() < -1:
            at = np.maximum(at, -1)  # -1 is the last, and one segment more takes what is left out
        shape = num_segments + 1, math.prod(x.shape[1:])
        nothing = np.broadcast_to(np.asarray(way.nothing(x), x.dtype), shape)
        folded = combine_rows_numpy(nothing, at, x.reshape((x.shape[0], shape[1])), way.join)
        # Counted as they were folded, the segment of what is left out included.
        if mean:
            sizes = np.zeros(num_segments + 1, np.int64)
            np.add.at(sizes, at, 1)
            folded = folded / np.maximum(sizes, 1)[:, None].astype(x.dtype)
        # Without the one segment more.
        return folded[:num_segments].reshape((num_segments, *x.shape[1:]))


_register("segment_sum", SUM)
_register("segment_mean", SUM, mean=True)
_register("segment_prod", PROD)
_register("segment_max", MAX)
_register("segment_min", MIN)
