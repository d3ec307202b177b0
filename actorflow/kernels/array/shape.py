"""Kernels of `ops.array.shape`: views under another shape; a copy only where no view can be."""

from __future__ import annotations

from typing import Any

import numpy as np

from actorflow.kernels.definition.registry import kernel
from actorflow.values.arrays import Array, Library


def view_cost(*arrays: Array, **attrs: Any) -> float:
    """What making a view costs, whatever its size."""
    return 1.0


def shape_in(sizes: Array) -> tuple[int, ...]:
    """The shape that a vector of integers is; reading it from a card waits for that."""
    return tuple(int(sizes[i]) for i in range(sizes.shape[0]))


@kernel("reshape", cost=view_cost)
def reshape(x: Array, sizes: Array | None = None, *, shape: tuple[int, ...] | None) -> Array:
    """The elements of `x` in row-major order under `shape`, in which one size may be -1.

    Without one the shape is `sizes`.
    """
    if sizes is not None:
        shape = shape_in(sizes)
    return x.reshape(shape)


@kernel("reshape_like", cost=view_cost)
def reshape_like(x: Array, like: Array) -> Array:
    """The elements of `x` under the shape of `like`."""
    return x.reshape(like.shape)


@kernel("transpose", cost=view_cost)
def transpose(x: Array, *, perm: tuple[int, ...] | None) -> Array:
    """The axes of `x` in the order `perm`, reversed when it is None."""
    return x.transpose(perm)


@kernel("expand_dims", cost=view_cost)
def expand_dims(x: Array, *, axis: int | tuple[int, ...], xp: Library = np) -> Array:
    """`x` with axes of size 1 at `axis` of the result."""
    return xp.expand_dims(x, axis=axis)


@kernel("squeeze", cost=view_cost)
def squeeze(x: Array, *, axis: int | tuple[int, ...] | None, xp: Library = np) -> Array:
    """`x` without the axes `axis`, which have size 1; without all such when it is None."""
    return xp.squeeze(x, axis=axis)
