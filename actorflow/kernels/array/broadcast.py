"""Kernels of `ops.array.broadcast`: repeating and its adjoint, summing."""

from __future__ import annotations

from typing import Any

import numpy as np

from actorflow.kernels.array.shape import shape_in, view_cost
from actorflow.kernels.definition.precision import in_float32, is_half
from actorflow.kernels.definition.registry import kernel
from actorflow.values.arrays import Array, Library

Axis = int | tuple[int, ...] | None

_sum: Any = np.add.reduce  # Any: the stubs take no keepdims that is a variable


@kernel("broadcast_to", cost=view_cost)
def broadcast_to(
    x: Array, sizes: Array | None = None, *, shape: tuple[int, ...] | None, xp: Library = np
) -> Array:
    """`x` repeated to `shape`, or without one to `sizes`; a read-only view."""
    if sizes is not None:
        shape = shape_in(sizes)
    return xp.broadcast_to(x, shape)


@kernel("broadcast_like", cost=view_cost)
def broadcast_like(x: Array, like: Array, *, xp: Library = np) -> Array:
    """`x` repeated to the shape of `like`; `x` itself where it has it, else a read-only view."""
    return x if x.shape == like.shape else xp.broadcast_to(x, like.shape)


@kernel("sum")
@in_float32
def sum(x: Array, *, axis: Axis, keepdims: bool, xp: Library = np) -> Array:
    """The sum over `axis` in the dtype of `x`, halves in float32; of bools, whether one is true."""
    if x.dtype == bool:
        return xp.any(x, axis=axis, keepdims=keepdims)
    return xp.sum(x, axis=axis, dtype=x.dtype, keepdims=keepdims)


@kernel("sum", only="numpy")
def sum_of_numpy(x: Array, *, axis: Axis, keepdims: bool) -> Array:
    """The sum over `axis` in the dtype of `x`, halves in float32."""
    dtype = x.dtype
    if is_half(dtype):
        # numpy widens them a few thousand at a time: a million bfloat16 take 490 µs, 6.6 ms in bfloat16.
        return _sum(x, axis, np.float32, keepdims=keepdims).astype(dtype)
    return _sum(x, axis, dtype, keepdims=keepdims)


@kernel("sum_to")
def sum_to(x: Array, like: Array, *, xp: Library = np) -> Array:
    """`x` summed over the axes along which `like` broadcasts to it; `x` itself where there are none.

    Shapes:  x (..., m, n), like (m, 1) -> (m, 1)
    """
    return (
        x
        if x.shape == like.shape
        else sum(x, axis=_broadcast_axes(x, like), keepdims=True, xp=xp).reshape(like.shape)
    )


@kernel("sum_to", only="numpy")
def sum_to_of_numpy(x: Array, like: Array) -> Array:
    """`x` summed over the axes along which `like` broadcasts to it; `x` itself where there are none.

    Shapes:  x (..., m, n), like (m, 1) -> (m, 1)
    """
    shape = like.shape
    if x.shape == shape:
        return x
    return sum_of_numpy(x, axis=_broadcast_axes(x, like), keepdims=True).reshape(shape)


def _broadcast_axes(x: Array, like: Array) -> tuple[int, ...]:
    """Returns the axes of `x` along which `like` is repeated to its shape."""
    lead = x.ndim - like.ndim
    return (*range(lead), *(lead + i for i, d in enumerate(like.shape) if d == 1 != x.shape[lead + i]))
