"""Kernels of `ops.sequence`: each sequence of a batch has its own length."""

from __future__ import annotations

import numpy as np

from actorflow.arrays import Array, Library
from actorflow.errors import SpecError
from actorflow.kernels.registry import kernel
from actorflow.spec import show


@kernel("reverse_sequence")
def reverse_sequence(x: Array, lengths: Array, *, axis: int, batch_axis: int, xp: Library = np) -> Array:
    """The first `lengths[b]` elements along `axis` backwards; IndexError for a length beyond the axis."""
    axis, batch_axis = axis % x.ndim, batch_axis % x.ndim
    size = x.shape[axis]
    if lengths.shape != (x.shape[batch_axis],):
        message = (
            f"reverse_sequence needs a length for each of axis {batch_axis}, "
            f"got {show(lengths.shape)} for {show(x.shape)}"
        )
        raise SpecError(message)
    lengths = lengths.astype(np.int64)
    wrong = (lengths < 0) | (lengths > size)
    if wrong.any():
        message = f"length {lengths[wrong][0]} is negative or longer than an axis of size {size}"
        raise IndexError(message)
    ends = lengths.reshape(tuple(d if i == batch_axis else 1 for i, d in enumerate(x.shape)))
    places = xp.arange(size, dtype=xp.int64).reshape(tuple(size if i == axis else 1 for i in range(x.ndim)))
    origin = xp.where(places < ends, ends - 1 - places, places)
    return xp.take_along_axis(x, xp.broadcast_to(origin, x.shape), axis=axis)
