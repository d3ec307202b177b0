"""Kernels of `ops.linalg.diagonal`: a diagonal is a strided slice of the flattened matrix."""

from __future__ import annotations

import builtins

import numpy as np

from actorflow.kernels.array.shape import view_cost
from actorflow.kernels.definition.registry import kernel
from actorflow.values.arrays import Array, Library


@kernel("tril")
def tril(x: Array, *, offset: int, xp: Library = np) -> Array:
    """Zeros right of the diagonal `offset`."""
    return xp.tril(x, k=offset)


@kernel("triu")
def triu(x: Array, *, offset: int, xp: Library = np) -> Array:
    """Zeros left of the diagonal `offset`."""
    return xp.triu(x, k=offset)


def _places(rows: int, columns: int, offset: int) -> builtins.slice:
    """Where the diagonal lies in the flattened matrix."""
    # A negative offset costs rows, a positive one columns.
    length = max(0, min(rows + min(offset, 0), columns - max(offset, 0)))
    if not length:
        return builtins.slice(0, 0)
    # One step right for each positive offset, a whole row down for each negative one.
    start = max(offset, 0) + max(-offset, 0) * columns
    # The last element counts, and one behind it is the end: no step into the next row.
    return builtins.slice(start, start + (length - 1) * (columns + 1) + 1, columns + 1)


@kernel("diagonal", cost=view_cost)
def diagonal(x: Array, *, offset: int) -> Array:
    """The diagonals of the last two axes; views of contiguous arrays."""
    *lead, rows, columns = x.shape
    return x.reshape((*lead, rows * columns))[..., _places(rows, columns, offset)]


@kernel("diagonal", only="numpy", cost=view_cost)
def diagonal_of_numpy(x: Array, *, offset: int) -> Array:
    """The diagonals of the last two axes; views of any array."""
    return np.diagonal(x, offset, -2, -1)


@kernel("diagonal_grad")
def diagonal_grad(grad: Array, like: Array, *, offset: int, xp: Library = np) -> Array:
    """Zeros in the shape of `like` with `grad` on a diagonal."""
    *lead, rows, columns = like.shape
    out = xp.zeros((*lead, rows * columns), dtype=grad.dtype)
    # What lies off the diagonal has no part in it: its gradient is zero.
    out[..., _places(rows, columns, offset)] = grad
    return out.reshape(like.shape)


@kernel("diag_embed")
def diag_embed(x: Array, *, offset: int, xp: Library = np) -> Array:
    """Square matrices with `x` on a diagonal."""
    side = x.shape[-1] + abs(offset)
    out = xp.zeros((*x.shape[:-1], side * side), dtype=x.dtype)
    out[..., _places(side, side, offset)] = x
    return out.reshape((*x.shape[:-1], side, side))
