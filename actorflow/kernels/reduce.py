"""Kernels of `ops.reduce`: folding axes."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from actorflow.arrays import Array
from actorflow.kernels.registry import kernel
from actorflow.kernels.shape import view_cost

Axis = int | tuple[int, ...] | None

_maximum: Any = np.maximum.reduce  # Any: the stubs take no keepdims that is a variable
_minimum: Any = np.minimum.reduce


@kernel("mean")
def mean(x: Array, *, axis: Axis, keepdims: bool) -> Array:
    """The mean over `axis` in the dtype of `x`; float16 is summed in float32. NaN of no elements."""
    return np.mean(x, axis, keepdims=keepdims)


@kernel("count", cost=view_cost)
def count(x: Array, *, axis: Axis) -> Array:
    """The number of elements that folding `axis` folds into one, as a scalar in the dtype of `x`."""
    axes = range(x.ndim) if axis is None else (axis if isinstance(axis, tuple) else (axis,))
    return x.dtype.type(prod(x.shape[a] for a in axes))


@kernel("max")
def max(x: Array, *, axis: Axis, keepdims: bool) -> Array:
    """The largest element over `axis`; ValueError when there is none."""
    return _maximum(x, axis, keepdims=keepdims)


@kernel("min")
def min(x: Array, *, axis: Axis, keepdims: bool) -> Array:
    """The smallest element over `axis`; ValueError when there is none."""
    return _minimum(x, axis, keepdims=keepdims)


@kernel("argmax")
def argmax(x: Array, *, axis: int | None, keepdims: bool) -> Array:
    """The index of the largest element along `axis`, the first on ties, as int64."""
    return np.argmax(x, axis, keepdims=keepdims)
