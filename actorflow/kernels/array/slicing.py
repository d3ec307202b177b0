"""Kernels of `ops.array.slicing`: choosing and joining elements."""

from __future__ import annotations

import builtins
from functools import lru_cache
from itertools import accumulate
from typing import Any

import numpy as np

from actorflow.errors import SpecError
from actorflow.kernels.array.shape import view_cost
from actorflow.kernels.definition.registry import kernel
from actorflow.values.arrays import Array, Library, as_dtype, whole
from actorflow.values.spec import show

Index = tuple[Any, ...]

_PARTS = {"new": None, "...": Ellipsis}


@lru_cache(maxsize=4096)
def _numpy_index(index: Index) -> tuple[Any, ...]:
    """The index that the attribute spells; cached, for nodes ask at every firing."""
    return tuple(
        builtins.slice(*part[1:]) if isinstance(part, tuple) else _PARTS.get(part, part) for part in index
    )


@kernel("slice", cost=view_cost)
def slice(x: Array, *, index: Index) -> Array:
    """`x[index]`, a view."""
    return whole(x[_numpy_index(index)])


@kernel("slice_grad")
def slice_grad(grad: Array, like: Array, *, index: Index, xp: Library = np) -> Array:
    """Zeros in the shape of `like` with `grad` at `index`."""
    out = xp.zeros(like.shape, dtype=grad.dtype)
    out[_numpy_index(index)] = grad
    return out


@kernel("slice_update")
def slice_update(x: Array, part: Array, *, index: Index, xp: Library = np) -> Array:
    """A copy of `x` in which `x[index]` is `part`."""
    out = xp.asarray(x).copy()  # of CuPy, asarray makes no copy itself
    place = _numpy_index(index)
    # numpy would repeat a part of size 1.
    if out[place].shape != part.shape:
        message = f"slice_update needs a part of shape {show(out[place].shape)}, got {show(part.shape)}"
        raise SpecError(message)
    out[place] = part
    return out


@kernel("concat")
def concat(*arrays: Array, axis: int, xp: Library = np) -> Array:
    """The arrays one after the other along `axis`."""
    return xp.concat(arrays, axis=axis)


@kernel("concat_grad", cost=view_cost)
def concat_grad(grad: Array, *likes: Array, axis: int) -> Array | tuple[Array, ...]:
    """`grad` cut along `axis` into views as large as `likes`."""
    ends = list(accumulate(like.shape[axis] for like in likes))
    before = (builtins.slice(None),) * (axis % grad.ndim)
    after = (builtins.slice(None),) * (grad.ndim - len(before) - 1)
    pieces = [
        grad[(*before, builtins.slice(a, b), *after)] for a, b in zip([0, *ends[:-1]], ends, strict=True)
    ]
    return tuple(pieces) if len(pieces) > 1 else pieces[0]


def _picked(params: Array, indices: Array, *, axis: int) -> float:
    """Elements moved: the cost of a few rows does not grow with the table."""
    n = params.shape[axis]
    return float(indices.size * (params.size // n + 1)) if n else 0.0


@kernel("gather", cost=_picked)
def gather(params: Array, indices: Array, *, axis: int, xp: Library = np) -> Array:
    """The slices of `params` along `axis` that `indices` name; IndexError for one outside [-n, n).

    The check waits for the card; CuPy would wrap such an index round.
    """
    axis %= params.ndim
    flat = within(indices, params.shape[axis], xp).reshape(-1)
    taken = xp.take(params, flat, axis=axis)
    return taken.reshape((*params.shape[:axis], *indices.shape, *params.shape[axis + 1 :]))


def within(indices: Array, n: int, xp: Library, *, from_end: bool = True) -> Array:
    """Returns the indices as int64 in [0, n), counted from the start; IndexError for one that names nothing.

    Those in [-n, 0) count from the end, unless `from_end` is False.
    """
    at = indices.astype(np.int64, copy=False)
    if xp is np and at.size and at.min() >= 0 and at.max() < n:
        return at  # two passes that write nothing: 1,000,000 take 0.5 ms and not 25
    wrong = (at < (-n if from_end else 0)) | (at >= n)
    if indices.dtype == xp.uint64:  # what int64 cannot hold has become negative
        wrong = wrong | (at < 0)
    if wrong.any():
        place = tuple(int(along[0]) for along in xp.nonzero(wrong)) if wrong.ndim else ()
        message = f"index {int(indices[wrong][0])} is out of bounds for an axis of size {n}"
        message += f", at {place} of the indices" if place else ""
        raise IndexError(message)
    return xp.where(at < 0, at + n, at)


def row_indices(indices: Array, count: int) -> Array:
    """Returns indices of the host as int64 in [0, count), checked as `gather` checks them."""
    return within(indices, count, np)


@kernel("row_numbers")
def row_numbers(ids: Array, *, rows: int, what: str, from_end: bool, xp: Library = np) -> Array:
    """The ids as int64 in [0, rows); SpecError naming `what`, one that is no row, and its place.

    The check waits for the card.
    """
    try:
        return within(ids, rows, xp, from_end=from_end)
    except IndexError as error:
        message = f"{what} has no such row: {error}"
        raise SpecError(message) from None


@kernel("gather", only="numpy", cost=_picked)
def gather_of_numpy(params: Array, indices: Array, *, axis: int) -> Array:
    """The slices of `params` along `axis` that `indices` name; IndexError for one outside [-n, n)."""
    if indices.dtype == np.uint64:  # numpy would wrap those above 2**63 to negative ones
        indices = within(indices, params.shape[axis], np)
    try:
        return whole(np.take(params, indices, axis))
    except IndexError:
        within(indices, params.shape[axis], np)  # says where
        raise


@kernel("one_hot")
def one_hot(indices: Array, *, depth: int, dtype: str, xp: Library = np) -> Array:
    """A one at each index along a new last axis of `depth` zeros."""
    return (xp.asarray(indices)[..., None] == xp.arange(depth)).astype(as_dtype(dtype))
