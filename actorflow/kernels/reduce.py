"""Kernels of `ops.reduce`: folding axes."""

from __future__ import annotations

import math
from math import prod
from typing import Any

import numpy as np

from actorflow.arrays import Array, Library
from actorflow.kernels.precision import in_float32
from actorflow.kernels.registry import kernel
from actorflow.kernels.shape import view_cost
from actorflow.spec import show

Axis = int | tuple[int, ...] | None

_add: Any = np.add.reduce  # Any: the stubs take no keepdims that is a variable
_maximum: Any = np.maximum.reduce
_minimum: Any = np.minimum.reduce


@kernel("mean")
@in_float32
def mean(x: Array, *, axis: Axis, keepdims: bool, xp: Library = np) -> Array:
    """The mean over `axis` in the dtype of `x`, halves in float32. NaN of no elements."""
    if not x.size and not _folded(x, axis):
        return xp.full_like(xp.sum(x, axis=axis, keepdims=keepdims), math.nan)
    return xp.mean(x, axis=axis, keepdims=keepdims)


@kernel("mean", only="numpy")
def mean_of_numpy(x: Array, *, axis: Axis, keepdims: bool) -> Array:
    """The mean over `axis` in the dtype of `x`; float16 is summed in float32. NaN of no elements."""
    if not x.size:  # np.mean would warn, by a way that errstate does not stop
        return np.full_like(_add(x, axis, keepdims=keepdims), np.nan)
    return np.mean(x, axis, keepdims=keepdims)


@kernel("count", cost=view_cost)
def count(x: Array, *, axis: Axis, xp: Library = np) -> Array:
    """The number of elements that folding `axis` folds into one, 0-d in the dtype of `x`."""
    return xp.asarray(_folded(x, axis), dtype=x.dtype)


@kernel("count", only="numpy", cost=view_cost)
def count_of_numpy(x: Array, *, axis: Axis) -> Array:
    """The number of elements that folding `axis` folds into one, as a scalar in the dtype of `x`."""
    return x.dtype.type(_folded(x, axis))


def _folded(x: Array, axis: Axis) -> int:
    axes = range(x.ndim) if axis is None else (axis if isinstance(axis, tuple) else (axis,))
    return prod(x.shape[a] for a in axes)


def _check_some(op: str, x: Array, axis: Axis) -> None:
    if not x.size and not _folded(x, axis):
        message = f"{op} needs at least one element to fold, got axis {axis} of {show(x.shape)}"
        raise ValueError(message)


@kernel("max")
def max(x: Array, *, axis: Axis, keepdims: bool, xp: Library = np) -> Array:
    """The largest element over `axis`; ValueError when there is none."""
    _check_some("max", x, axis)
    return xp.max(x, axis=axis, keepdims=keepdims)


@kernel("max", only="numpy")
def max_of_numpy(x: Array, *, axis: Axis, keepdims: bool) -> Array:
    """The largest element over `axis`; ValueError when there is none."""
    _check_some("max", x, axis)
    return _maximum(x, axis, keepdims=keepdims)


@kernel("min")
def min(x: Array, *, axis: Axis, keepdims: bool, xp: Library = np) -> Array:
    """The smallest element over `axis`; ValueError when there is none."""
    _check_some("min", x, axis)
    return xp.min(x, axis=axis, keepdims=keepdims)


@kernel("min", only="numpy")
def min_of_numpy(x: Array, *, axis: Axis, keepdims: bool) -> Array:
    """The smallest element over `axis`; ValueError when there is none."""
    _check_some("min", x, axis)
    return _minimum(x, axis, keepdims=keepdims)


@kernel("argmax")
def argmax(x: Array, *, axis: int | None, keepdims: bool, xp: Library = np) -> Array:
    """The index of the largest element along `axis`, the first on ties, as int64; ValueError of none."""
    _check_some("argmax", x, axis)
    return xp.argmax(x, axis=axis, keepdims=keepdims)
