"""Sizes of axes that may be open: numbers where they are known at load time, else scalars of the step.

What follows works on both, so that a builder says once how sizes make others. A number stays a number as
long as it can, since then the graph knows its shapes.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod as product_of
from typing import Any

from actorflow import ops
from actorflow.graph.builder import Tensor
from actorflow.values.arrays import DType

Extent = int | Tensor
"""A size, or what is computed of sizes: an int, or an int64 scalar that the step computes."""


def extent(x: Tensor, axis: int) -> Extent:
    """The size of an axis of `x`, whose rank is known."""
    size = (x.shape or ())[axis]
    return size if size is not None else ops.cast(ops.shape(x)[axis], "int64")


def extents(x: Tensor) -> tuple[Extent, ...]:
    """The sizes of all axes of `x`, whose rank is known."""
    return tuple(extent(x, axis) for axis in range(len(x.shape or ())))


def prod(sizes: Sequence[Extent]) -> Extent:
    """The product of sizes; 1 of none."""
    # Numbers at load time; what is computed comes behind.
    found: Extent = product_of(size for size in sizes if isinstance(size, int))
    for size in sizes:
        if isinstance(size, Tensor):
            # A factor of 1 needs no node.
            found = size if isinstance(found, int) and found == 1 else ops.multiply(size, found)
    return found


def plus(size: Extent, other: Extent) -> Extent:
    """The sum of two."""
    return size + other if isinstance(size, int) and isinstance(other, int) else ops.add(*_pair(size, other))


def minus(size: Extent, other: Extent) -> Extent:
    """The difference of two."""
    if isinstance(size, int) and isinstance(other, int):
        return size - other
    return ops.subtract(*_pair(size, other))


def quotient(size: Extent, by: Extent) -> Extent:
    """`size // by`, rounded down."""
    return size // by if isinstance(size, int) and isinstance(by, int) else ops.floor_divide(*_pair(size, by))


def least(size: Extent, other: Extent) -> Extent:
    """The smaller of two."""
    if isinstance(size, int) and isinstance(other, int):
        return min(size, other)
    return ops.minimum(*_pair(size, other))


def most(size: Extent, other: Extent) -> Extent:
    """The larger of two."""
    if isinstance(size, int) and isinstance(other, int):
        return max(size, other)
    return ops.maximum(*_pair(size, other))


def _pair(size: Extent, other: Extent) -> tuple[Tensor, Tensor]:
    return scalar(size), scalar(other)


def scalar(size: Extent) -> Tensor:
    """A size as an int64 scalar."""
    return ops.constant(size, "int64") if isinstance(size, int) else size


def number(size: Extent, dtype: DType) -> Any:
    """A size to compute with: a float, or a scalar of `dtype`."""
    return float(size) if isinstance(size, int) else ops.cast(size, dtype)


def vector(sizes: Sequence[Extent]) -> Tensor:
    """Sizes as an int64 vector."""
    if all(isinstance(size, int) for size in sizes):
        return ops.constant(tuple(sizes), "int64")
    return ops.stack([scalar(size) for size in sizes])


def dims(sizes: Sequence[Extent]) -> tuple[int | None, ...]:
    """What is known of a shape: None for what the step computes, and for a -1."""
    return tuple(size if isinstance(size, int) and size >= 0 else None for size in sizes)


def reshape(x: Tensor, sizes: Sequence[Extent]) -> Tensor:
    """`x` under a shape of these sizes, of which one may be -1: whatever is left."""
    computed = [i for i, size in enumerate(sizes) if isinstance(size, Tensor)]
    # One open size is what is left: the shape keeps its known ones.
    if len(computed) == 1 and -1 not in dims_or_rest(sizes):
        sizes = [-1 if i == computed[0] else size for i, size in enumerate(sizes)]
        computed = []
    if not computed:
        return ops.reshape(x, [size for size in sizes if isinstance(size, int)])
    return ops.ensure_shape(ops.reshape(x, vector(sizes)), dims(sizes))


def dims_or_rest(sizes: Sequence[Extent]) -> tuple[int | None, ...]:
    """The numbers among sizes, -1 for the one that is left; None for what the step computes."""
    return tuple(size if isinstance(size, int) else None for size in sizes)


def broadcast(x: Tensor, sizes: Sequence[Extent]) -> Tensor:
    """`x` repeated to a shape of these sizes."""
    if all(isinstance(size, int) for size in sizes):
        return ops.broadcast_to(x, [size for size in sizes if isinstance(size, int)])
    return ops.ensure_shape(ops.broadcast_to(x, vector(sizes)), dims(sizes))


def count_from(count: Extent, start: Extent = 0) -> Tensor:
    """The int64 vector start, start + 1, … of `count` elements."""
    if isinstance(count, int):
        steps = ops.arange(count, dtype="int64")
        return steps if isinstance(start, int) and start == 0 else ops.add(steps, start)
    # The bounds of arange are of one dtype.
    return ops.arange(scalar(start), ops.add(count, start), ops.constant(1, "int64"))


def slice_axis(x: Tensor, axis: int, count: Extent, start: Extent = 0) -> Tensor:
    """`count` elements of `x` along an axis, from `start` on, neither of them counted from behind."""
    if isinstance(count, int) and isinstance(start, int):
        index = [slice(None)] * len(x.shape or ())
        index[axis] = slice(start, start + count)
        return ops.slice(x, tuple(index))
    # `slice` takes numbers alone; places do for any.
    return ops.gather(x, count_from(count, start), axis)


def pad(x: Tensor, pairs: Sequence[tuple[Extent, Extent]], mode: str = "constant", value: Any = 0) -> Tensor:
    """`x` with margins before and behind along each axis, which may be below 0 and cut off then.

    What the margins of an axis hold is looked up at places that are computed: those of the element at the
    end ("edge"), of the mirrored axis ("reflect"), of the axis from its other end ("wrap"), or `value`.
    """
    for axis, (before, behind) in enumerate(pairs):
        # Nothing to add.
        if isinstance(before, int) and isinstance(behind, int) and before == behind == 0:
            continue
        size = extent(x, axis)
        # From so far before the first place, below 0, to behind the last.
        at = count_from(plus(plus(size, before), behind), minus(0, before))
        if mode == "reflect":
            # There and back without the ends twice.
            period = most(prod([2, minus(size, 1)]), 1)
            way = ops.remainder(at, period)
            # The way back counts down.
            kept = ops.minimum(way, ops.subtract(scalar(period), way))
        elif mode == "wrap":
            kept = ops.remainder(at, size)
        else:
            kept = ops.maximum(ops.minimum(at, minus(size, 1)), 0)
        y = ops.gather(x, kept, axis)
        if mode == "constant":
            inside = ops.logical_and(ops.greater_equal(at, 0), ops.less(at, size))
            inside = ops.reshape(inside, [-1 if i == axis else 1 for i in range(len(x.shape or ()))])
            y = ops.where(inside, y, ops.full_like(y, value))
        x = y
    return x
