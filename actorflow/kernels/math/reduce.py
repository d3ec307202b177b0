"""Kernels of `ops.math.reduce`: folding axes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from actorflow.kernels.array.shape import view_cost
from actorflow.kernels.definition.precision import in_float32, is_half
from actorflow.kernels.definition.registry import kernel
from actorflow.values.arrays import Array, Library
from actorflow.values.spec import show

Axis = int | tuple[int, ...] | None

_add: Any = np.add.reduce  # Any: the stubs take no keepdims that is a variable
_maximum: Any = np.maximum.reduce
_minimum: Any = np.minimum.reduce


@kernel("mean")
@in_float32
def mean(x: Array, *, axis: Axis, keepdims: bool, xp: Library = np) -> Array:
    """The mean over `axis` in the dtype of `x`, halves in float32. NaN of no elements."""
    x = divisible(x)
    # The mean of nothing is NaN in the dtype of a sum, without the warning that libraries give.
    if not x.size and not folded_size(x, axis):
        return xp.full_like(xp.sum(x, axis=axis, keepdims=keepdims), math.nan)
    return xp.mean(x, axis=axis, keepdims=keepdims)


@kernel("mean", only="numpy")
def mean_of_numpy(x: Array, *, axis: Axis, keepdims: bool) -> Array:
    """The mean over `axis` in the dtype of `x`, halves in float32. NaN of no elements."""
    if not x.size:  # np.mean would warn, by a way that errstate does not stop
        return np.full_like(_add(divisible(x), axis, keepdims=keepdims), np.nan)
    if is_half(x.dtype):
        return np.mean(x, axis, np.float32, keepdims=keepdims).astype(x.dtype)
    return np.mean(x, axis, keepdims=keepdims)


def divisible(x: Array) -> Array:
    """`x`, integers as float64."""
    return x.astype(np.float64) if x.dtype.kind in "iu" else x


@kernel("count", cost=view_cost)
def count(x: Array, *, axis: Axis, xp: Library = np) -> Array:
    """How many elements folding `axis` folds into one, 0-d in the dtype of `x`, float32 for halves."""
    # float32 for halves, which hold no whole number above 2048, or 256.
    return xp.asarray(folded_size(x, axis), dtype=xp.float32 if is_half(x.dtype) else x.dtype)


@kernel("count", only="numpy", cost=view_cost)
def count_of_numpy(x: Array, *, axis: Axis) -> Array:
    """How many elements folding `axis` folds into one, in the dtype of `x`, float32 for halves."""
    return (np.float32 if is_half(x.dtype) else x.dtype.type)(folded_size(x, axis))


def folded_size(x: Array, axis: Axis) -> int:
    """The number of elements that folding `axis` folds into one."""
    axes = range(x.ndim) if axis is None else (axis if isinstance(axis, tuple) else (axis,))
    return math.prod(x.shape[a] for a in axes)


def check_some(op: str, x: Array, axis: Axis) -> None:
    """Raises ValueError when folding `axis` folds no elements."""
    # The size is asked first: it is free, and hardly ever 0.
    if not x.size and not folded_size(x, axis):
        message = f"{op} needs at least one element to fold, got axis {axis} of {show(x.shape)}"
        raise ValueError(message)


@kernel("max")
def max(x: Array, *, axis: Axis, keepdims: bool, xp: Library = np) -> Array:
    """The largest element over `axis`; ValueError when there is none."""
    check_some("max", x, axis)
    return xp.max(x, axis=axis, keepdims=keepdims)


@kernel("max", only="numpy")
def max_of_numpy(x: Array, *, axis: Axis, keepdims: bool) -> Array:
    """The largest element over `axis`; ValueError when there is none."""
    check_some("max", x, axis)
    return _maximum(x, axis, keepdims=keepdims)


@kernel("min")
def min(x: Array, *, axis: Axis, keepdims: bool, xp: Library = np) -> Array:
    """The smallest element over `axis`; ValueError when there is none."""
    check_some("min", x, axis)
    return xp.min(x, axis=axis, keepdims=keepdims)


@kernel("min", only="numpy")
def min_of_numpy(x: Array, *, axis: Axis, keepdims: bool) -> Array:
    """The smallest element over `axis`; ValueError when there is none."""
    check_some("min", x, axis)
    return _minimum(x, axis, keepdims=keepdims)


@kernel("argmax")
def argmax(x: Array, *, axis: int | None, keepdims: bool, xp: Library = np) -> Array:
    """The index of the largest element along `axis`, the first on ties, as int64; ValueError of none."""
    check_some("argmax", x, axis)
    return xp.argmax(x, axis=axis, keepdims=keepdims)


@kernel("argmin")
def argmin(x: Array, *, axis: int | None, keepdims: bool, xp: Library = np) -> Array:
    """The index of the smallest element along `axis`, the first on ties, as int64; ValueError of none."""
    check_some("argmin", x, axis)
    return xp.argmin(x, axis=axis, keepdims=keepdims)


@kernel("prod")
@in_float32
def prod(x: Array, *, axis: Axis, keepdims: bool, xp: Library = np) -> Array:
    """The product over `axis` in the dtype of `x`; that of none is 1."""
    # Libraries would widen small integers.
    return xp.prod(x, axis=axis, dtype=x.dtype, keepdims=keepdims)


@kernel("any")
def any(x: Array, *, axis: Axis, keepdims: bool, xp: Library = np) -> Array:
    """Whether an element over `axis` is not 0; False of none."""
    return xp.any(x, axis=axis, keepdims=keepdims)


@kernel("all")
def all(x: Array, *, axis: Axis, keepdims: bool, xp: Library = np) -> Array:
    """Whether every element over `axis` is not 0; True of none."""
    return xp.all(x, axis=axis, keepdims=keepdims)


@kernel("count_nonzero")
def count_nonzero(x: Array, *, axis: Axis, keepdims: bool, xp: Library = np) -> Array:
    """How many elements over `axis` are not 0, as int64."""
    ones = (x if x.dtype.kind == "b" else x != 0).astype(np.int64)
    return xp.sum(ones, axis=axis, dtype=ones.dtype, keepdims=keepdims)


@kernel("count_nonzero", only="numpy")
def count_nonzero_of_numpy(x: Array, *, axis: Axis, keepdims: bool) -> Array:
    """How many elements over `axis` are not 0, as int64."""
    # numpy counts bits without making an array.
    if axis is None and not keepdims:
        return np.int64(np.count_nonzero(x))
    return _add(x.astype(np.bool_), axis, np.int64, keepdims=keepdims)
