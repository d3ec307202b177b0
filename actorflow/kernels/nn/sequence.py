"""Kernels of `ops.nn.sequence`: each sequence of a batch has its own length."""

from __future__ import annotations

import numpy as np

from actorflow.errors import SpecError
from actorflow.kernels.definition.registry import kernel
from actorflow.values.arrays import Array, Library
from actorflow.values.spec import show


@kernel("reverse_sequence")
def reverse_sequence(x: Array, lengths: Array, *, axis: int, batch_axis: int, xp: Library = np) -> Array:
    """The first `lengths[b]` elements along `axis` backwards; IndexError for a length beyond the axis."""
    axis, batch_axis = axis % x.ndim, batch_axis % x.ndim
    size = x.shape[axis]
    lengths = _check_lengths(x, lengths, axis, batch_axis)
    ends = lengths.reshape(tuple(d if i == batch_axis else 1 for i, d in enumerate(x.shape)))
    places = xp.arange(size, dtype=xp.int64).reshape(tuple(size if i == axis else 1 for i in range(x.ndim)))
    # Behind the length elements stay where they are.
    origin = xp.where(places < ends, ends - 1 - places, places)
    return xp.take_along_axis(x, xp.broadcast_to(origin, x.shape), axis=axis)


_LONG = 1024  # elements of a sequence, from which on one copy for each is faster than an index of all


@kernel("reverse_sequence", only="numpy")
def reverse_sequence_of_numpy(x: Array, lengths: Array, *, axis: int, batch_axis: int) -> Array:
    """The same. Long sequences are turned one by one, of short ones all elements are taken at once.

    100 of 100 x 100 float32 take 0.6 ms, 4.6 with an index of all.
    """
    axis, batch_axis = axis % x.ndim, batch_axis % x.ndim
    lengths = _check_lengths(x, lengths, axis, batch_axis)
    ends = (batch_axis, axis), (0, 1)
    # Rows of the batch first and the axis second: views.
    rows = np.moveaxis(x, *ends)
    if x.size >= _LONG * lengths.size:
        out = np.array(x, order="C")
        turned = np.moveaxis(out, *ends)
        for i, length in enumerate(lengths.tolist()):
            turned[i, :length] = rows[i, :length][::-1]
        return out
    count, size, *rest = rows.shape
    places = np.arange(size)
    origin = np.where(places < lengths[:, None], lengths[:, None] - 1 - places, places)
    # Rows lie behind each other: an index counts from the first.
    origin += np.arange(count)[:, None] * size
    taken = np.take(rows.reshape((count * size, *rest)), origin.reshape(-1), axis=0)
    return np.moveaxis(taken.reshape(rows.shape), *ends[::-1])


def _check_lengths(x: Array, lengths: Array, axis: int, batch_axis: int) -> Array:
    """The lengths as int64; SpecError unless there are enough of them, IndexError for one beyond the axis."""
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
    return lengths
