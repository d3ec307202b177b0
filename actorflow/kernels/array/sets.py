"""Kernels of `ops.array.sets`.

Everything is found by sorting, in an order that does not depend on threads.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from actorflow.kernels.array.sort import comparable, sort_cost
from actorflow.kernels.definition.precision import in_float32
from actorflow.kernels.definition.registry import kernel
from actorflow.kernels.math.segment import SUM, fold
from actorflow.values.arrays import Array, Library

Found = tuple[Array, Array, Array, Array]


def _keys(x: Array) -> Array:
    """The elements of `x` in a row, as something that can be sorted."""
    flat = x.reshape(-1)
    # Bools and halves have no sort everywhere.
    return comparable(flat.astype(np.uint8) if x.dtype.kind == "b" else flat)


def _runs(ranked: Array, xp: Library) -> tuple[Array, Array, Array]:
    """Which sorted elements differ from the one before, where these lie, and how many equals each has."""
    n = ranked.shape[0]
    one = min(1, n)
    new = xp.concat([xp.arange(one) == 0, ranked[one:] != ranked[: n - one]], axis=0)
    (starts,) = xp.nonzero(new)
    ends = xp.concat([starts[one:], xp.full(one, n, dtype=starts.dtype)], axis=0)
    return new, starts, ends - starts


def _unique(x: Array, xp: Library) -> Found:
    """(values, first indices, inverse, counts) by a stable sort."""
    keys = _keys(x)
    # Only numpy has to be asked for a stable sort by that name.
    order = np.argsort(keys, kind="stable") if xp is np else xp.argsort(keys)
    new, starts, counts = _runs(xp.take(keys, order, axis=0), xp)
    firsts = xp.take(order, starts, axis=0)
    scan: Any = getattr(xp, "cumsum", None) or xp.cumulative_sum
    numbers = scan(new.astype(np.int64), axis=0) - 1
    # From the order of the sorted back to where each element lies.
    inverse = xp.take(numbers, xp.argsort(order), axis=0).reshape(x.shape)
    return xp.take(x.reshape(-1), firsts, axis=0), firsts, inverse, counts


@kernel("unique_values", cost=sort_cost)
def unique_values(x: Array, *, xp: Library = np) -> Array:
    """The values of `x`, each once, in ascending order."""
    return unique_counts(x, xp=xp)[0]


@kernel("unique_counts", cost=sort_cost)
def unique_counts(x: Array, *, xp: Library = np) -> tuple[Array, Array]:
    """The values of `x` and how often each occurs. Sorting values alone is several times faster."""
    ranked = xp.sort(_keys(x))
    _, starts, counts = _runs(ranked, xp)
    return xp.take(ranked, starts, axis=0).astype(x.dtype), counts


@kernel("unique_inverse", cost=sort_cost)
def unique_inverse(x: Array, *, xp: Library = np) -> tuple[Array, Array]:
    """The values of `x`, and for each element the number of its value."""
    values, _, inverse, _ = _unique(x, xp)
    return values, inverse


@kernel("unique_all", cost=sort_cost)
def unique_all(x: Array, *, xp: Library = np) -> Found:
    """The values of `x`, the first index of each, the number of each element's value, and counts."""
    return _unique(x, xp)


@kernel("nonzero")
def nonzero(x: Array, *, rank: int, xp: Library = np) -> Array | tuple[Array, ...]:
    """The indices of the elements that are not 0, along each axis."""
    found = xp.nonzero(x)
    return tuple(found) if rank > 1 else found[0]


def _length(x: Array, minlength: int, xp: Library) -> int:
    """The number of counts; ValueError for a negative number."""
    if not x.shape[0]:
        return minlength
    if int(xp.min(x)) < 0:
        message = f"bincount counts 0, 1, 2, …, got {int(xp.min(x))}"
        raise ValueError(message)
    return max(int(xp.max(x)) + 1, minlength)


@kernel("bincount", cost=sort_cost)
def bincount(x: Array, *weights: Array, minlength: int, xp: Library = np) -> Array:
    """How often each of 0, 1, … occurs, or the sum of the weights where it does."""
    length = _length(x, minlength, xp)
    if not weights:
        # Sorted, the border of each number says how many lie below it.
        borders = xp.searchsorted(xp.sort(x.astype(np.int64)), xp.arange(length + 1))
        return borders[1:] - borders[:-1]
    (given,) = weights
    return _weigh(given, x, length=length, xp=xp)


@in_float32
def _weigh(weights: Array, x: Array, *, length: int, xp: Library) -> Array:
    order = xp.argsort(x.astype(np.int64))
    return fold(xp.take(weights, order, axis=0), xp.take(x.astype(np.int64), order, axis=0), length, SUM, xp)


@kernel("bincount", only="numpy")
def bincount_of_numpy(x: Array, *weights: Array, minlength: int) -> Array:
    """How often each of 0, 1, … occurs, or the sum of the weights where it does, in float64 inside."""
    length = _length(x, minlength, np)
    if not weights:
        return np.bincount(x.astype(np.int64), minlength=length)
    (given,) = weights
    return np.bincount(x.astype(np.int64), given.astype(np.float64), length).astype(given.dtype)


@kernel("histogram", cost=sort_cost)
def histogram(
    x: Array, *, bins: int, range: tuple[float, float] | None, xp: Library = np
) -> tuple[Array, Array]:
    """Counts of equal bins and their edges, by looking for the edges among the sorted elements."""
    flat = comparable(x.reshape(-1))
    # In float64, as numpy has it: edges are no integers.
    flat = flat.astype(np.float64) if flat.dtype.kind in "iu" else flat
    low, high = range or _ends(flat, xp)
    # One value has no width: as numpy, half a unit on either side.
    if low == high:
        low, high = low - 0.5, high + 0.5
    edges = xp.linspace(low, high, bins + 1, dtype=flat.dtype)
    ordered = xp.sort(flat)
    below = xp.searchsorted(ordered, edges[:-1], side="left")
    # The last bin has both of its edges.
    last = xp.searchsorted(ordered, edges[-1:], side="right")
    borders = xp.concat([below, last], axis=0)
    return borders[1:] - borders[:-1], edges.astype(np.float64 if x.dtype.kind in "iu" else x.dtype)


def _ends(flat: Array, xp: Library) -> tuple[float, float]:
    """The smallest and the largest element, (0, 1) of none; ValueError when one is not finite."""
    if not flat.shape[0]:
        return 0.0, 1.0
    low, high = float(xp.min(flat)), float(xp.max(flat))
    if not math.isfinite(low) or not math.isfinite(high):
        message = f"a histogram needs a range when elements are not finite, got {low} to {high}"
        raise ValueError(message)
    return low, high
