"""Kernels of `ops.array.shape_queries`: they look at the shape of an array, never at its elements."""

from __future__ import annotations

from math import prod

import numpy as np

from actorflow.errors import SpecError
from actorflow.kernels.array.shape import view_cost
from actorflow.kernels.definition.registry import kernel
from actorflow.values.arrays import Array, Library
from actorflow.values.spec import Shape, merge, show


@kernel("shape", cost=view_cost)
def shape(x: Array, *, xp: Library = np) -> Array:
    """The sizes, as int32."""
    return xp.asarray(x.shape, dtype=xp.int32)


@kernel("size", cost=view_cost)
def size(x: Array, *, xp: Library = np) -> Array:
    """The number of elements, as int32."""
    return xp.asarray(prod(x.shape), dtype=xp.int32)


@kernel("rank", cost=view_cost)
def rank(x: Array, *, xp: Library = np) -> Array:
    """The number of axes, as int32."""
    return xp.asarray(x.ndim, dtype=xp.int32)


@kernel("common_length", cost=view_cost)
def common_length(*xs: Array, xp: Library = np) -> Array:
    """The first size of all, as int32; SpecError unless it is the same."""
    sizes = [x.shape[:1] for x in xs]
    if sizes.count(sizes[0]) != len(sizes) or not sizes[0]:
        shapes = ", ".join(show(x.shape) for x in xs)
        message = f"tensors that are gone over together have as many rows each, got {shapes}"
        raise SpecError(message)
    return xp.asarray(sizes[0][0], dtype=xp.int32)


@kernel("ensure_shape", cost=view_cost)
def ensure_shape(x: Array, *, shape: Shape, holder: str = "") -> Array:
    """`x` itself; SpecError when its shape does not fit."""
    try:
        merge(shape, x.shape)
    except SpecError:
        who = f"{holder} must hold" if holder else "ensure_shape needs a shape that fits"
        message = f"{who} {show(shape)}, got {show(x.shape)}"
        raise SpecError(message) from None
    return x
