"""Kernels of `ops.array.select`: rows by conditions and numbers.

Sizes that depend on values make a card wait.
"""

from __future__ import annotations

from itertools import accumulate
from math import prod
from typing import Any

import numpy as np

from actorflow.errors import SpecError
from actorflow.kernels.array.indexing_rows import combine_rows, combine_rows_numpy, last_of_each, order_of
from actorflow.kernels.array.slicing import within
from actorflow.kernels.definition.registry import kernel
from actorflow.values.arrays import Array, Library
from actorflow.values.spec import show


def _check_mask(x: Array, mask: Array, axis: int) -> int:
    """Returns the axis counted from the front; SpecError unless the mask has the sizes of `x` from it on."""
    axis %= x.ndim
    if mask.shape != x.shape[axis : axis + mask.ndim]:
        message = (
            f"the mask of boolean_mask needs the sizes of x from axis {axis} on, "
            f"got {show(mask.shape)} for {show(x.shape)}"
        )
        raise SpecError(message)
    return axis


@kernel("boolean_mask")
def boolean_mask(x: Array, mask: Array, *, axis: int, xp: Library = np) -> Array:
    """What lies in `x` where `mask`, which covers axes from `axis` on, is true."""
    axis = _check_mask(x, mask, axis)
    lead, tail = x.shape[:axis], x.shape[axis + mask.ndim :]
    (chosen,) = xp.nonzero(mask.reshape(-1))
    return xp.take(x.reshape((*lead, prod(mask.shape), *tail)), chosen, axis=axis)


@kernel("boolean_mask_grad")
def boolean_mask_grad(grad: Array, x: Array, mask: Array, *, axis: int, xp: Library = np) -> Array:
    """Zeros in the shape of `x` with `grad` where `mask` is true."""
    axis = _check_mask(x, mask, axis)
    lead, tail = x.shape[:axis], x.shape[axis + mask.ndim :]
    flat = mask.reshape(-1)
    (chosen,) = xp.nonzero(flat)
    if grad.shape != (*lead, chosen.shape[0], *tail):
        message = f"the gradient of boolean_mask has its shape, got {show(grad.shape)}"
        raise SpecError(message)
    # `take` refuses an empty axis.
    if not chosen.shape[0]:
        return xp.zeros(x.shape, dtype=grad.dtype)
    # Which of the chosen each place is; places that were not chosen take any, and zeros below.
    found = xp.searchsorted(chosen, xp.arange(flat.shape[0], dtype=chosen.dtype), side="left")
    found = xp.where(found < chosen.shape[0], found, 0 * found)
    spread = xp.take(grad, found, axis=axis)
    here = flat.reshape((*(1,) * axis, flat.shape[0], *(1,) * len(tail)))
    return xp.where(here, spread, xp.zeros_like(spread)).reshape(x.shape)


@kernel("boolean_mask_grad", only="numpy")
def boolean_mask_grad_of_numpy(grad: Array, x: Array, mask: Array, *, axis: int) -> Array:
    """Zeros in the shape of `x` with `grad` where `mask` is true."""
    axis = _check_mask(x, mask, axis)
    out = np.zeros(x.shape, grad.dtype)
    chosen: Any = (*(slice(None),) * axis, np.asarray(mask))
    out[chosen] = grad
    return out


@kernel("argwhere")
def argwhere(x: Array, *, xp: Library = np) -> Array:
    """The places where `x` is not zero, int64 of shape (how many, its axes)."""
    flat = x.reshape(-1)
    # What is no bool is compared: the standard's `nonzero` takes numbers, but NaN is one.
    (found,) = xp.nonzero(flat if x.dtype.kind == "b" else flat != 0)
    columns = []
    for size in reversed(x.shape):
        columns.append(found % size)
        # From the last axis to the first: what is left counts those before.
        found = found // size
    if not columns:
        return xp.zeros((found.shape[0], 0), dtype=xp.int64)
    return xp.stack(columns[::-1], axis=-1).astype(np.int64)


@kernel("argwhere", only="numpy")
def argwhere_of_numpy(x: Array) -> Array:
    """The places where `x` is not zero, int64 of shape (how many, its axes)."""
    return np.argwhere(x)


def _check_numbers(numbers: Array, below: int | None, what: str) -> None:
    """Raises IndexError for a number that is negative, or not below `below`."""
    wrong = numbers < 0
    if below is not None:
        wrong = wrong | (numbers >= below)
    if wrong.any():
        bound = "" if below is None else f" or not below {below}"
        message = f"{what} {numbers[wrong][0]} is negative{bound}"
        raise IndexError(message)


@kernel("dynamic_partition")
def dynamic_partition(
    x: Array, partitions: Array, *, count: int, xp: Library = np
) -> Array | tuple[Array, ...]:
    """For each i below `count` what lies in `x` where `partitions` is i."""
    if x.shape[: partitions.ndim] != partitions.shape:
        message = (
            f"the partitions of dynamic_partition need the first sizes of x, "
            f"got {show(partitions.shape)} for {show(x.shape)}"
        )
        raise SpecError(message)
    flat = partitions.reshape(-1).astype(np.int64)
    _check_numbers(flat, count, "partition")
    rows = x.reshape((flat.shape[0], *x.shape[partitions.ndim :]))
    parts = [xp.take(rows, xp.nonzero(flat == i)[0], axis=0) for i in range(count)]
    return _outputs(parts)


@kernel("dynamic_stitch")
def dynamic_stitch(*indices_and_data: Array, xp: Library = np) -> Array:
    """One array whose row `indices[i][p]` is `data[i][p]`, zeros where no index points."""
    half = len(indices_and_data) // 2
    indices, data = indices_and_data[:half], indices_and_data[half:]
    tail = data[0].shape[indices[0].ndim :]
    for i, d in zip(indices, data, strict=True):
        if d.shape != (*i.shape, *tail):
            message = (
                f"dynamic_stitch needs data of shape {show((*i.shape, *tail))} for its indices, "
                f"got {show(d.shape)}"
            )
            raise SpecError(message)
    at = xp.concat([i.reshape(-1).astype(np.int64) for i in indices])
    _check_numbers(at, None, "index")
    count, width = int(xp.max(at)) + 1 if at.shape[0] else 0, prod(tail)
    sizes = [prod(i.shape) for i in indices]
    updates = xp.concat([d.reshape((n, width)) for n, d in zip(sizes, data, strict=True)], axis=0)
    rows = xp.zeros((count, width), dtype=updates.dtype)
    # numpy writes one after the other, so the last stays; the others by sorting.
    if xp is np:
        rows = combine_rows_numpy(rows, at, updates, "update")
    else:
        rows = combine_rows(rows, at, updates, "update", xp)
    return rows.reshape((count, *tail))


@kernel("dynamic_stitch_grad")
def dynamic_stitch_grad(grad: Array, *indices_and_data: Array, xp: Library = np) -> Array | tuple[Array, ...]:
    """The rows of `grad` at the indices, zeros for data that a later one replaced."""
    half = len(indices_and_data) // 2
    indices, data = indices_and_data[:half], indices_and_data[half:]
    at = xp.concat([i.reshape(-1).astype(np.int64) for i in indices])
    tail = grad.shape[1:]
    if not at.shape[0]:
        return _outputs([xp.zeros(d.shape, dtype=grad.dtype) for d in data])
    rows = xp.take(grad, within(at, grad.shape[0], xp), axis=0)
    # Data that a later one replaced had no effect.
    last = last_of_each(at, xp).reshape((at.shape[0], *(1,) * len(tail)))
    rows = xp.where(last, rows, xp.zeros_like(rows))
    ends = list(accumulate(prod(i.shape) for i in indices))
    starts = [0, *ends[:-1]]
    return _outputs([rows[a:e, ...].reshape(d.shape) for a, e, d in zip(starts, ends, data, strict=True)])


def _outputs(found: list[Array]) -> Array | tuple[Array, ...]:
    """One array or a tuple, as kernels give their outputs."""
    return found[0] if len(found) == 1 else tuple(found)


@kernel("invert_permutation")
def invert_permutation(x: Array, *, xp: Library = np) -> Array:
    """The permutation that undoes `x`; ValueError unless each of 0 … n-1 comes once."""
    at = x.astype(np.int64)
    order = order_of(at, xp)
    # Sorted, a permutation is 0, 1, 2 and so on.
    found = xp.take(at, order)
    wrong = found != xp.arange(at.shape[0], dtype=at.dtype)
    if wrong.any():
        message = (
            f"a permutation of {at.shape[0]} has 0 to {at.shape[0] - 1} once each, got {_first(found, at)}"
        )
        raise ValueError(message)
    return order.astype(x.dtype)


def _first(found: Array, at: Array) -> str:
    """What is wrong with sorted numbers that are no permutation: one outside, or one that comes twice."""
    for i in range(found.shape[0]):
        number = int(found[i])
        if not 0 <= number < at.shape[0]:
            return str(number)
        if i and int(found[i - 1]) == number:
            return f"{number} twice"
    return str(found)
