"""Kernels of `ops.array.arrange`: elements in other places; views where they can be."""

from __future__ import annotations

from math import prod

import numpy as np

from actorflow.errors import SpecError
from actorflow.kernels.array.shape import view_cost
from actorflow.kernels.definition.precision import in_float32
from actorflow.kernels.definition.registry import kernel
from actorflow.values.arrays import Array, Library, whole
from actorflow.values.spec import show

Axis = int | tuple[int, ...] | None


@kernel("moveaxis", cost=view_cost)
def moveaxis(x: Array, *, source: tuple[int, ...], destination: tuple[int, ...], xp: Library = np) -> Array:
    """`x` with the axes `source` at `destination`."""
    return xp.moveaxis(x, source, destination)


@kernel("flip", cost=view_cost)
def flip(x: Array, *, axis: Axis, xp: Library = np) -> Array:
    """`x` backwards along `axis`, along all when it is None."""
    return whole(xp.flip(x, axis=axis))


@kernel("roll")
def roll(x: Array, *, shift: int | tuple[int, ...], axis: Axis, xp: Library = np) -> Array:
    """`x` with its elements `shift` places further along `axis`."""
    if axis == ():  # numpy broadcasts shifts and axes, and takes no empty ones
        return x
    return xp.roll(x, shift, axis=axis)


@kernel("tile")
def tile(x: Array, *, repetitions: tuple[int, ...], xp: Library = np) -> Array:
    """`x` set side by side, `repetitions[i]` times along axis i."""
    return xp.tile(x, repetitions)


@kernel("tile_grad")
@in_float32
def tile_grad(grad: Array, like: Array, *, repetitions: tuple[int, ...], xp: Library = np) -> Array:
    """`grad` summed over the copies that `tile` made of `like`."""
    rank = max(like.ndim, len(repetitions))
    dims = (*(1,) * (rank - like.ndim), *like.shape)
    times = (*(1,) * (rank - len(repetitions)), *repetitions)
    # Each axis of the result is a pair: which copy, and which element.
    apart = grad.reshape(tuple(n for pair in zip(times, dims, strict=True) for n in pair))
    return xp.sum(apart, axis=tuple(range(0, 2 * rank, 2)), dtype=grad.dtype).reshape(like.shape)


def cumulative_sum(x: Array, xp: Library) -> Array:
    """The sums of the first 1, 2, … elements of a vector; CuPy and numpy 2.0 lack the standard's name."""
    return xp.cumulative_sum(x) if hasattr(xp, "cumulative_sum") else xp.cumsum(x)


def _check_repeats(x: Array, repeats: Array, axis: int) -> None:
    if repeats.shape != (x.shape[axis],):
        message = (
            f"repeat takes a number for each element of axis {axis}, "
            f"got {show(repeats.shape)} for {show(x.shape)}"
        )
        raise SpecError(message)
    negative = repeats < 0
    if negative.any():
        message = f"repeats cannot be negative, got {repeats[negative][0]}"
        raise ValueError(message)


@kernel("repeat")
def repeat(
    x: Array,
    repeats_of_each: Array | None = None,
    *,
    repeats: int | tuple[int, ...] | None,
    axis: int,
    xp: Library = np,
) -> Array:
    """Each element several times along `axis`. A tensor of repeats makes a card wait for its sum."""
    if isinstance(repeats, int):
        return xp.repeat(x, repeats, axis=axis)
    if repeats is not None:
        # The numbers are known: the card need not be asked for them.
        origin = xp.asarray(np.repeat(np.arange(len(repeats)), repeats))
        return xp.take(x, origin, axis=axis)
    assert repeats_of_each is not None
    times = repeats_of_each.astype(np.int64)
    _check_repeats(x, times, axis)
    # Of no elements there is no last end.
    if not x.shape[axis]:
        return x
    ends = cumulative_sum(times, xp)
    # The element of each place is the first whose end lies behind it.
    origin = xp.searchsorted(ends, xp.arange(int(ends[-1]), dtype=ends.dtype), side="right")
    return xp.take(x, origin, axis=axis)


@kernel("repeat", only="numpy")
def repeat_of_numpy(
    x: Array, repeats_of_each: Array | None = None, *, repeats: int | tuple[int, ...] | None, axis: int
) -> Array:
    """Each element several times along `axis`."""
    if repeats is None:
        assert repeats_of_each is not None
        _check_repeats(x, repeats_of_each, axis)
        return np.repeat(x, repeats_of_each.astype(np.int64), axis)
    return np.repeat(x, repeats, axis)


@kernel("flatten", cost=view_cost)
def flatten(x: Array, *, start: int, stop: int) -> Array:
    """`x` with the axes from `start` to `stop` joined into one."""
    rank = max(x.ndim, 1)
    first, last = start % rank, stop % rank
    return x.reshape((*x.shape[:first], prod(x.shape[first : last + 1]), *x.shape[last + 1 :]))
