"""Kernels of `ops.math.scan`: running along an axis.

Where a library has no running form of a function, it is made of log2(n) passes over the array: in
pass s every element takes in the one s places before it, s = 1, 2, 4, …
Source: Hillis and Steele, Data parallel algorithms, CACM 29 (1986).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from actorflow.kernels.definition.precision import in_float32
from actorflow.kernels.definition.registry import kernel
from actorflow.values.arrays import Array, Library


def along(axis: int, ndim: int, start: int | None, stop: int | None) -> tuple[slice, ...]:
    """The index of start:stop along `axis` of an array with `ndim` axes."""
    axis %= ndim
    return (*(slice(None),) * axis, slice(start, stop), *(slice(None),) * (ndim - axis - 1))


@kernel("cumulative_sum")
@in_float32
def cumulative_sum(x: Array, *, axis: int, include_initial: bool, xp: Library = np) -> Array:
    """The running sums along `axis` in the dtype of `x`, one more with `include_initial`."""
    scan = getattr(xp, "cumsum", None) or xp.cumulative_sum  # the older name is in every numpy and CuPy
    return _after(0, scan(x, axis=axis, dtype=x.dtype), axis, include_initial, xp)


@kernel("cumulative_prod")
@in_float32
def cumulative_prod(x: Array, *, axis: int, include_initial: bool, xp: Library = np) -> Array:
    """The running products along `axis` in the dtype of `x`, one more with `include_initial`."""
    scan = getattr(xp, "cumprod", None) or xp.cumulative_prod
    return _after(1, scan(x, axis=axis, dtype=x.dtype), axis, include_initial, xp)


def _after(first: int, y: Array, axis: int, wanted: bool, xp: Library) -> Array:
    """`y` with `first` put before it along `axis`, if that is wanted."""
    if not wanted:
        return y
    # `edge` is built from both sides of the axis, so it must not be negative.
    axis %= y.ndim
    edge = xp.full((*y.shape[:axis], 1, *y.shape[axis + 1 :]), first, dtype=y.dtype)
    return xp.concat([edge, y], axis=axis)


def _extreme(x: Array, axis: int, of_two: Callable[[Array, Array], Array], xp: Library) -> Array:
    n, s = x.shape[axis], 1
    # INVARIANT: before pass s each element holds the extreme of the s up to and with it.
    while s < n:
        head, tail, before = (x[along(axis, x.ndim, *ends)] for ends in ((None, s), (s, None), (None, -s)))
        x = xp.concat([head, of_two(tail, before)], axis=axis % x.ndim)
        s *= 2
    return x


@kernel("cumulative_max")
@in_float32
def cumulative_max(x: Array, *, axis: int, xp: Library = np) -> Array:
    """The largest so far along `axis`; NaN from the first NaN on."""
    return _extreme(x, axis, xp.maximum, xp)


@kernel("cumulative_min")
@in_float32
def cumulative_min(x: Array, *, axis: int, xp: Library = np) -> Array:
    """The smallest so far along `axis`; NaN from the first NaN on."""
    return _extreme(x, axis, xp.minimum, xp)


_maximum: Any = np.maximum.accumulate
_minimum: Any = np.minimum.accumulate


@kernel("cumulative_max", only="numpy")
@in_float32
def cumulative_max_of_numpy(x: Array, *, axis: int) -> Array:
    """The largest so far along `axis`; NaN from the first NaN on."""
    return _maximum(x, axis)


@kernel("cumulative_min", only="numpy")
@in_float32
def cumulative_min_of_numpy(x: Array, *, axis: int) -> Array:
    """The smallest so far along `axis`; NaN from the first NaN on."""
    return _minimum(x, axis)


def _passes(a: Array, b: Array, **attrs: Any) -> float:
    """Two multiplications and an addition for each element and pass."""
    passes: int = max(1, b.shape[attrs["axis"]]).bit_length()
    return 3.0 * float(b.size) * passes


@kernel("linear_recurrence", cost=_passes)
@in_float32
def linear_recurrence(a: Array, b: Array, *, axis: int, reverse: bool, xp: Library = np) -> Array:
    """r_k = a_k·r_(k-1) + b_k along `axis`, from the end when `reverse`.

    Cost:    log2(n) passes: two steps are one with the factor a_k·a_(k-1) and the term
             a_k·b_(k-1) + b_k.
    """
    n, s = b.shape[axis], 1
    axis %= b.ndim
    while s < n:
        ends = ((-s, None), (None, -s), (s, None)) if reverse else ((None, s), (s, None), (None, -s))
        edge, own, before = (along(axis, b.ndim, *e) for e in ends)
        joined = ([b[edge], a[own] * b[before] + b[own]], [a[edge], a[own] * a[before]])
        # The edge has nothing before it by so many places: it stays. In reverse it is the end.
        b, a = (xp.concat(pair[::-1] if reverse else pair, axis=axis) for pair in joined)
        s *= 2
    return b


_WIDE = 8  # elements a step, from which on a loop of steps is faster than passes over all


@kernel("linear_recurrence", only="numpy", cost=_passes)
@in_float32
def linear_recurrence_of_numpy(a: Array, b: Array, *, axis: int, reverse: bool) -> Array:
    """r_k = a_k·r_(k-1) + b_k along `axis`, from the end when `reverse`; step by step where steps are wide.

    1000 steps of 1000 float32 take 3 ms so, and 140 ms in passes. Narrow steps are taken side by side
    in √n stretches, then these one after the other: 1,000,000 single float32 take 25 ms so, 88 ms in passes.
    """
    n = b.shape[axis]
    # Narrow: the time goes into numpy's calls, one a step, so many steps are taken at once.
    if b.size < _WIDE * n:
        # Axis first and the order turned: below there is one direction and one axis.
        a, b = (np.moveaxis(x, axis, 0)[:: -1 if reverse else 1] for x in (a, b))
        found = _in_stretches(*(x.reshape((n, b.size // max(n, 1))) for x in (a, b)))
        found = found.reshape(b.shape)[:: -1 if reverse else 1]
        return np.ascontiguousarray(np.moveaxis(found, 0, axis))
    r = np.array(np.moveaxis(b, axis, 0), order="C")
    factors = np.ascontiguousarray(np.moveaxis(a, axis, 0))
    # The step that the others start from, the first or the last, holds b alone.
    steps, back = (range(n - 2, -1, -1), 1) if reverse else (range(1, n), -1)
    for k in steps:
        r[k] += factors[k] * r[k + back]
    return np.moveaxis(r, 0, axis)


_FEW = 64  # steps that are taken one after the other


def _in_stretches(a: Array, b: Array) -> Array:
    """The recurrence along axis 0 of two matrices."""
    n, width = b.shape
    if n <= _FEW:
        r = b.copy()
        for k in range(1, n):
            r[k] += a[k] * r[k - 1]
        return r
    # √n stretches of √n steps: as many calls for the steps as for the stretches.
    long = math.isqrt(n - 1) + 1
    count = -(-n // long)
    shape = count, long, width
    # Padded by steps r = 1·r + 0, which change nothing and are cut off at the end.
    factors, r = np.ones((count * long, width), a.dtype), np.zeros((count * long, width), b.dtype)
    factors[:n], r[:n] = a, b
    # (step, stretch, width): all stretches take a step at once. `factors` becomes their products so far.
    factors, r = (np.ascontiguousarray(x.reshape(shape).swapaxes(0, 1)) for x in (factors, r))
    # Each stretch as if nothing came before it; beside it, by what that would be multiplied.
    for k in range(1, long):
        r[k] += factors[k] * r[k - 1]
        factors[k] *= factors[k - 1]
    # The ends of the stretches are such a recurrence themselves; shorter, so it ends.
    before = _in_stretches(factors[-1], r[-1])[:-1]
    # What a stretch starts from, times the factors so far, is what it missed.
    r[:, 1:] += factors[:, 1:] * before
    return r.swapaxes(0, 1).reshape((count * long, width))[:n]
