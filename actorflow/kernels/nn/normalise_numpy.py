"""Kernels of `ops.nn.normalise` for numpy: long inner loops, few temporary arrays, parts that fit a cache.

numpy runs one inner loop for each row of channels, and 32 channels are a short row. So where the
leading axes are folded, as batch norm does, several rows are laid side by side: the statistics of each
are summed in a lane of their own, and the lanes at the end. That is more accurate, too, since numpy
adds along the first axis one by one. Where the last axis is folded, as layer norm does, rows are long.

Measured, one thread, float32, µs, composed of ops / here: batch norm of 32x8x8x32 302 / 104, of
64x32x32x64 36,200 / 11,000. Layer norm, the kernel for every library / here: of 8x16x64 81 / 51, back
114 / 87; of 64x128x512 39,400 / 10,700, back 71,100 / 17,600, a third of which the parts save.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from actorflow.kernels.array.broadcast import sum_to_of_numpy
from actorflow.kernels.definition.registry import kernel
from actorflow.kernels.math.reduce import folded_size
from actorflow.kernels.nn import normalise as portable
from actorflow.kernels.nn.normalise import check_affine, normalise_cost, wide
from actorflow.values.arrays import Array

Axis = tuple[int, ...] | None

WIDTH = 2048  # elements of a row of lanes; from 512 to 4096 all is within a tenth
PART_BYTES = 256 * 1024  # of a part that stays in cache between two passes

_sum: Any = np.add.reduce  # Any: the stubs take no keepdims that is a variable


class NumpyNormalise:
    """An array as rows of `times` lanes, each as wide as one set of statistics."""

    def __init__(self, x: Array, kept: tuple[int, ...]) -> None:
        self.scratch = kept
        self.lane = prod(kept)
        # How many elements each statistic is of.
        self.count = x.size // self.lane
        self.times = 1
        # Twice as wide while that is whole: a row of lanes must end with a lane.
        while self.times * self.lane < WIDTH and self.count % (2 * self.times) == 0:
            self.times *= 2
        self.width = self.times * self.lane
        rows = self.count // self.times
        step = max(1, PART_BYTES // (x.itemsize * self.width))
        self.parts = [slice(i, min(i + step, rows)) for i in range(0, rows, step)]
        self.buffer = np.empty((min(step, rows), self.width), x.dtype)

    def rows(self, x: Array) -> Array:
        """The elements of `x`, one row of lanes after the other; a view where it is in C order."""
        return x.reshape(-1, self.width)

    def total(self) -> Array:
        """Zeros to sum rows in: in float64, since there may be many parts."""
        return np.zeros(self.width)

    def mean(self, total: Array) -> Array:
        """The sum of all lanes, divided by the number of elements that went into them."""
        mean: Array = _sum(total.reshape(self.times, self.lane), 0) / self.count
        return mean

    def each(self, values: Array) -> Array:
        """One row of lanes with the same values in each, in the dtype of the elements."""
        return np.tile(values.reshape(self.lane).astype(self.buffer.dtype, copy=False), self.times)

    def out(self, part: slice) -> Array:
        """A buffer for one part."""
        return self.buffer[: part.stop - part.start]


def _statistics_shape(x: Array, axis: Axis, affine: Sequence[Array]) -> tuple[int, ...] | None:
    """The shape of the statistics when exactly the leading axes are folded, and affine has that shape."""
    # Only leading axes: then what is kept lies side by side as a lane.
    axes = range(x.ndim) if axis is None else sorted(a % x.ndim for a in axis)
    kept = x.shape[len(axes) :]
    fits = list(axes) == list(range(len(axes))) and all(a.shape == kept for a in affine)
    return kept if fits else None


@kernel("normalise", only="numpy", cost=normalise_cost)
def normalise(
    x: Array, *affine: Array, axis: Axis, epsilon: float, centre: bool
) -> tuple[Array, Array, Array]:
    """(values, mean, variance); see `kernels.nn.normalise`.

    Shapes:  x any, affine (scale, offset), as far as there are any, broadcast to it.
    Dtypes:  floating; halves are computed in float32, and their statistics are float32.
    """
    # No axis to lay rows along.
    if x.ndim == 0 or x.size == 0:
        return portable.normalise(x, *affine, axis=axis, epsilon=epsilon, centre=centre)
    check_affine(x, affine)
    found, *parts = wide(x, *affine)
    kept = _statistics_shape(x, axis, affine)
    if kept is None:
        y, mean, variance = _over(found, parts, axis, epsilon, centre)
    else:
        y, mean, variance = _over_lanes(found, parts, NumpyNormalise(found, kept), epsilon, centre)
    return y.astype(x.dtype, copy=False), mean, variance


def _over_lanes(
    x: Array, affine: Sequence[Array], lanes: NumpyNormalise, epsilon: float, centre: bool
) -> tuple[Array, Array, Array]:
    rows = lanes.rows(x)
    rough, left, squares = np.zeros(lanes.lane), lanes.total(), lanes.total()
    # Step 1: a rough mean. Step 2, below, measures what it left.
    if centre:
        total = lanes.total()
        for part in lanes.parts:
            total += _sum(rows[part], 0)
        rough = lanes.mean(total)
    near = lanes.each(rough)
    for part in lanes.parts:
        far = np.subtract(rows[part], near, out=lanes.out(part))
        if centre:
            # What rounding left over, summed where the part is in cache anyway.
            left += _sum(far, 0)
        np.multiply(far, far, out=far)
        squares += _sum(far, 0)
    rest = lanes.mean(left)
    # The squares were taken about the rough mean: about the exact one they are less by rest².
    variance = lanes.mean(squares) - rest * rest
    # Step 3: scale, offset, rest of the mean and deviation become one factor and one term.
    slope = 1 / np.sqrt(variance + epsilon)
    if affine:
        slope *= affine[0].reshape(lanes.lane)
    move = -rest * slope
    if len(affine) > 1:
        move += affine[1].reshape(lanes.lane)
    y = np.empty(x.shape, x.dtype)
    out, slopes, moves = lanes.rows(y), lanes.each(slope), lanes.each(move)
    # Step 4: the second pass over x.
    for part in lanes.parts:
        far = np.subtract(rows[part], near, out=out[part])
        np.multiply(far, slopes, out=far)
        np.add(far, moves, out=far)
    shape = (1,) * (x.ndim - len(lanes.scratch)) + lanes.scratch
    mean = near[: lanes.lane] + rest
    return y, mean.astype(x.dtype).reshape(shape), variance.astype(x.dtype).reshape(shape)


def _parts(x: Array, axis: Axis) -> list[slice]:
    """Slices of the first axis whose elements fit a cache; one of all where that axis is folded."""
    per = x.nbytes // x.shape[0]
    # A folded first axis cannot be cut: each part would have statistics of its own.
    if axis is None or 0 in axis or -x.ndim in axis or x.nbytes < 2 * PART_BYTES:
        return [slice(0, x.shape[0])]
    step = max(1, PART_BYTES // per)
    return [slice(i, min(i + step, x.shape[0])) for i in range(0, x.shape[0], step)]


def _of(a: Array, part: slice, x: Array) -> Array:
    """The part of what broadcasts to x."""
    return a[part] if a.ndim == x.ndim and a.shape[0] > 1 else a


def _over(
    x: Array, affine: Sequence[Array], axis: Axis, epsilon: float, centre: bool
) -> tuple[Array, Array, Array]:
    y, parts = np.empty(x.shape, x.dtype), _parts(x, axis)
    if len(parts) == 1:
        return y, *_over_part(x, y, affine, axis, epsilon, centre)
    found = [
        _over_part(x[part], y[part], [_of(a, part, x) for a in affine], axis, epsilon, centre)
        for part in parts
    ]
    means, variances = zip(*found, strict=True)
    return y, np.concatenate(means), np.concatenate(variances)


def _over_part(
    x: Array, y: Array, affine: Sequence[Array], axis: Axis, epsilon: float, centre: bool
) -> tuple[Array, Array]:
    """Writes the values into y; gives mean and variance."""
    n, last = x.dtype.type(folded_size(x, axis)), axis in ((-1,), (x.ndim - 1,))
    mean = _sum(x, axis, keepdims=True) / n
    if centre:
        far = np.subtract(x, mean, out=y)
        if not last:  # there numpy adds pairwise, and what is left is as small as the digits of x
            rest = _sum(far, axis, keepdims=True) / n
            np.subtract(far, rest, out=far)
            mean += rest
    else:
        # Nothing was taken off.
        far, mean = x, np.zeros_like(mean)
    # vecdot makes no array of the squares.
    squares: Array = np.vecdot(far, far)[..., None] if last else _sum(far * far, axis, keepdims=True)
    variance = squares / n
    # In place where the values already are, or from x.
    np.multiply(far, 1 / np.sqrt(variance + epsilon), out=y)
    for part, join in zip(affine, (np.multiply, np.add), strict=False):
        join(y, part, out=y)
    return mean, variance


@kernel("normalise_grad", only="numpy", cost=normalise_cost)
def normalise_grad(
    dy: Array,
    x: Array,
    mean: Array,
    variance: Array,
    *affine: Array,
    axis: Axis,
    epsilon: float,
    centre: bool,
) -> Array | tuple[Array, ...]:
    """The gradients of the values for x, scale and offset; see `kernels.nn.normalise`.

    Shapes:  dy and x the same, the statistics broadcast to them -> those of x, scale and offset.
    Dtypes:  floating; halves are computed in float32.
    """
    if x.ndim == 0 or x.size == 0:
        return portable.normalise_grad(
            dy, x, mean, variance, *affine, axis=axis, epsilon=epsilon, centre=centre
        )
    check_affine(x, affine)
    found, g, *parts = wide(x, dy, *affine)
    kept, slope = _statistics_shape(x, axis, affine), 1 / np.sqrt(variance + epsilon)
    # Statistics that were given may have another shape than those that are folded here.
    if kept is None or mean.size != prod(kept):
        grads = _back(g, found, mean, slope, parts, axis, centre)
    else:
        grads = _back_lanes(g, found, mean, slope, parts, NumpyNormalise(found, kept), centre)
    made = tuple(a.astype(x.dtype, copy=False) for a in grads)
    return made if affine else made[0]


def _back_lanes(
    g: Array,
    x: Array,
    mean: Array,
    slope: Array,
    affine: Sequence[Array],
    lanes: NumpyNormalise,
    centre: bool,
) -> tuple[Array, ...]:
    rows, back = lanes.rows(x), lanes.rows(g)
    near, slope = lanes.each(mean), slope.reshape(lanes.lane)
    total, along = lanes.total(), lanes.total()
    # Step 1: both sums in one pass, while the part is in cache.
    for part in lanes.parts:
        far = np.subtract(rows[part], near, out=lanes.out(part))
        np.multiply(far, back[part], out=far)
        along += _sum(far, 0)
        total += _sum(back[part], 0)
    flat, steep = lanes.mean(total), lanes.mean(along)
    # Step 2: what is a number per lane, folded into factors.
    scaled = slope * affine[0].reshape(lanes.lane) if affine else slope
    # dx = scaled * (g - flat - (x - mean) * slope² * steep)
    gs, fars = lanes.each(scaled), lanes.each(scaled * slope * slope * steep)
    moves = lanes.each(scaled * flat)
    dx = np.empty(x.shape, x.dtype)
    out = lanes.rows(dx)
    # Step 3: dx from x and g, with the buffer for what is taken off.
    for part in lanes.parts:
        far = np.subtract(rows[part], near, out=lanes.out(part))
        np.multiply(far, fars, out=far)
        if centre:
            np.add(far, moves, out=far)
        np.multiply(back[part], gs, out=out[part])
        np.subtract(out[part], far, out=out[part])
    # Sums are wanted and not means.
    to_affine = (steep * slope, flat)[: len(affine)]
    return (dx, *((a * lanes.count).astype(x.dtype).reshape(lanes.scratch) for a in to_affine))


def _back(
    g: Array, x: Array, mean: Array, slope: Array, affine: Sequence[Array], axis: Axis, centre: bool
) -> tuple[Array, ...]:
    dx, parts = np.empty(x.shape, x.dtype), _parts(x, axis)
    if len(parts) == 1:
        return (dx, *_back_part(g, x, dx, (mean, slope, *affine), axis, centre))
    # Parts add up: each has seen some rows of what is shared.
    grads = [np.zeros(a.shape, a.dtype) for a in affine]
    for part in parts:
        pieces = [_of(a, part, x) for a in (mean, slope, *affine)]
        to_affine = _back_part(g[part], x[part], dx[part], pieces, axis, centre)
        for grad, more in zip(grads, to_affine, strict=True):
            # A scale as long as the first axis is cut with it; any other is one for all parts.
            piece = _of(grad, part, x)
            np.add(piece, more, out=piece)
    return (dx, *grads)


def _back_part(
    g: Array, x: Array, dx: Array, pieces: Sequence[Array], axis: Axis, centre: bool
) -> list[Array]:
    """Writes the gradient of x into dx; gives those of scale and offset for this part."""
    mean, slope, *affine = pieces
    n, last = x.dtype.type(folded_size(x, axis)), axis in ((-1,), (x.ndim - 1,))
    far = np.subtract(x, mean, out=dx)
    np.multiply(far, slope, out=far)
    grads: list[Array] = []
    if affine:
        grads.append(sum_to_of_numpy(g * far, affine[0]))
        grads.extend(sum_to_of_numpy(g, offset) for offset in affine[1:])
        g = g * affine[0]
    along: Array = np.vecdot(g, far)[..., None] if last else _sum(g * far, axis, keepdims=True)
    np.multiply(far, along / n, out=far)
    if centre:
        np.add(far, _sum(g, axis, keepdims=True) / n, out=far)
    np.subtract(g, far, out=far)
    np.multiply(far, slope, out=far)
    return grads
