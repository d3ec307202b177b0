"""Kernels of `ops.broadcast`: repeating and its adjoint, summing."""

from __future__ import annotations

from typing import Any

import numpy as np

from actorflow.arrays import Array
from actorflow.kernels.registry import kernel
from actorflow.kernels.shape import view_cost

_sum: Any = np.add.reduce  # Any: the stubs take no keepdims that is a variable


@kernel("broadcast_to", cost=view_cost)
def broadcast_to(x: Array, *, shape: tuple[int, ...]) -> Array:
    """`x` repeated to `shape`; a read-only view."""
    return np.broadcast_to(x, shape)


@kernel("broadcast_like", cost=view_cost)
def broadcast_like(x: Array, like: Array) -> Array:
    """`x` repeated to the shape of `like`; `x` itself where it has it, else a read-only view."""
    return x if x.shape == like.shape else np.broadcast_to(x, like.shape)


@kernel("sum")
def sum(x: Array, *, axis: int | tuple[int, ...] | None, keepdims: bool) -> Array:
    """The sum over `axis` in the dtype of `x`."""
    return _sum(x, axis, x.dtype, keepdims=keepdims)


@kernel("sum_to")
def sum_to(x: Array, like: Array) -> Array:
    """`x` summed over the axes along which `like` broadcasts to it; `x` itself where there are none.

    Shapes:  x (..., m, n), like (m, 1) -> (m, 1)
    """
    shape = like.shape
    if x.shape == shape:
        return x
    lead = x.ndim - len(shape)
    ones = tuple(lead + i for i, d in enumerate(shape) if d == 1 != x.shape[lead + i])
    total = _sum(x, (*range(lead), *ones), x.dtype, keepdims=True)
    return total.reshape(shape)
