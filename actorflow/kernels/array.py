"""Kernels of `ops.array`: choosing and joining elements."""

from __future__ import annotations

import builtins
from functools import lru_cache
from itertools import accumulate
from typing import Any

import numpy as np

from actorflow.arrays import Array, as_dtype
from actorflow.kernels.registry import kernel
from actorflow.kernels.shape import view_cost

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
    return x[_numpy_index(index)]


@kernel("slice_grad")
def slice_grad(grad: Array, like: Array, *, index: Index) -> Array:
    """Zeros in the shape of `like` with `grad` at `index`."""
    out = np.zeros(like.shape, grad.dtype)
    out[_numpy_index(index)] = grad
    return out


@kernel("concat")
def concat(*arrays: Array, axis: int) -> Array:
    """The arrays one after the other along `axis`."""
    return np.concatenate(arrays, axis)


@kernel("concat_grad", cost=view_cost)
def concat_grad(grad: Array, *likes: Array, axis: int) -> Array | tuple[Array, ...]:
    """`grad` cut along `axis` into views as large as `likes`."""
    ends = list(accumulate(like.shape[axis] for like in likes))
    pieces = np.split(grad, ends[:-1], axis)
    return tuple(pieces) if len(pieces) > 1 else pieces[0]


@kernel("gather")
def gather(params: Array, indices: Array, *, axis: int) -> Array:
    """The slices of `params` along `axis` that `indices` name; IndexError for one outside [-n, n)."""
    return np.take(params, indices, axis)


@kernel("gather_grad")
def gather_grad(grad: Array, params: Array, indices: Array, *, axis: int) -> Array:
    """Zeros in the shape of `params` with the slices of `grad` added at `indices`."""
    out = np.zeros(params.shape, grad.dtype)
    where = (builtins.slice(None),) * (axis % params.ndim)
    np.add.at(out, (*where, indices), grad)
    return out


@kernel("one_hot")
def one_hot(indices: Array, *, depth: int, dtype: str) -> Array:
    """A one at each index along a new last axis of `depth` zeros."""
    return (np.asarray(indices)[..., None] == np.arange(depth)).astype(as_dtype(dtype))
