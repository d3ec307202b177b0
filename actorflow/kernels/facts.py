"""Kernels of `ops.facts`: they look at the shape of an array, never at its elements."""

from __future__ import annotations

from math import prod

import numpy as np

from actorflow.arrays import Array, Library
from actorflow.errors import SpecError
from actorflow.kernels.registry import kernel
from actorflow.kernels.shape import view_cost
from actorflow.spec import Shape, merge, show


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
