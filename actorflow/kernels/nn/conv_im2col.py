"""Convolution and its gradients on numpy: matrix products over windows (im2col), channels last.

The windows of a few images, or of a part of one, are copied into one reused buffer, and one matrix
product a group takes them from there. Whole-batch im2col and image-by-image im2col are the two ends
of that: the first streams megabytes through memory, the second pays a Python loop per image. Both
were measured (one thread, float32, SAME, milliseconds, forward / filter gradient):

    |                         | batch       | image       | 512 KiB     |
    | 64 x 8 x 8 x 1 -> 16    | 0.17 / 0.16 | 0.38 / 0.42 | 0.17 / 0.18 |
    | 64 x 8 x 8 x 16 -> 32   | 0.78 / 0.82 | 0.80 / 0.89 | 0.80 / 0.60 |
    | 32 x 32 x 32 x 64 -> 64 | 54 / 55     | 34 / 36     | 27 / 28     |

The sums run in an order that depends on the shapes alone, so equal inputs give equal bits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import product
from math import prod
from typing import Any, NamedTuple

import numpy as np

from actorflow.kernels.definition.precision import in_float32
from actorflow.kernels.definition.registry import kernel
from actorflow.kernels.nn import conv_depthwise as depthwise
from actorflow.kernels.nn.conv import (
    conv_cost,
    filter_windows,
    grad_filter_cost,
    grad_input_cost,
    pad_images,
    transpose_cost,
    transposed_shape,
)
from actorflow.kernels.nn.sliding import Sizes, Windows, windows_of
from actorflow.values.arrays import Array
from actorflow.values.windows import Padding

BUFFER_BYTES = 512 * 1024  # a quarter of the L2 cache it was measured on; 128 KiB to 2 MiB differ by 5 %
WHOLE = 8  # an image whose windows fill more buffers is cut


class WindowBlock(NamedTuple):
    """Windows taken at once: where they are in the view, which rows they make, and how they are laid."""

    at: tuple[int | slice, ...]
    rows: slice
    size: int
    windows: Sizes
    matrix: Sizes


class WindowOrder(NamedTuple):
    """How windows are taken from images: the view of all of them, and the blocks that fit the buffer.

    The view has the axes (groups, n, …windows, …pixels, channels of a group), the first one only
    when there are several groups; the matrix of a block (groups, windows, width) likewise. A block
    is `step` elements of `axis`, which are `below` windows each.
    """

    groups: Sizes
    lengths: Sizes  # (n, …windows)
    pixels: Sizes  # (…pixels, channels of a group)
    strides: Sizes
    offset: int
    axis: int
    below: int
    step: int
    reused: Sequence[WindowBlock] | None

    def view(self, padded: Array) -> Array:
        """Returns every window of contiguous images with their rims, without a copy."""
        shape = self.groups + self.lengths + self.pixels
        # As as_strided, which would add 6 µs to the 20 of a tiny image.
        view: Array = np.ndarray(shape, padded.dtype, padded, self.offset, self.strides)
        return view

    def buffer(self, dtype: Any) -> Array:
        """Returns room for the windows of one block."""
        # As long as the largest block; smaller ones take its start.
        return np.empty(prod(self.groups) * self.step * self.below * prod(self.pixels), dtype)

    def blocks(self) -> Iterable[WindowBlock]:
        """Returns all windows, in their order."""
        return self._blocks() if self.reused is None else self.reused

    def _blocks(self) -> Iterator[WindowBlock]:
        every, several = (slice(None),) * len(self.groups), prod(self.groups)
        length, rest, width = self.lengths[self.axis], self.lengths[self.axis + 1 :], prod(self.pixels)
        start = 0
        for outer in product(*map(range, self.lengths[: self.axis])):
            for low in range(0, length if self.below else 0, self.step):
                # The last block of an axis is shorter.
                taken = min(self.step, length - low)
                count = taken * self.below
                yield WindowBlock(
                    (*every, *outer, slice(low, low + taken)),
                    slice(start, start + count),
                    several * count * width,
                    (*self.groups, taken, *rest, *self.pixels),
                    (*self.groups, count, width),
                )
                start += count


@lru_cache(1024)
def taking(
    at: Windows, n: int, channels: int, itemsize: int, groups: int, behind: bool, buffer_bytes: int
) -> WindowOrder:
    """Returns how the windows of `n` contiguous images are taken, in blocks that fit the buffer.

    Images are kept whole up to eight buffers; larger ones are cut along their axes. Their groups lie
    `behind` each other, (groups, n, …, channels of a group), or beside each other as they come.
    """
    each = channels // groups
    pixel_bytes = (each if behind else channels) * itemsize
    steps = [prod(at.grown[axis + 1 :]) * pixel_bytes for axis in range(len(at.grown))]
    image_bytes = prod(at.grown) * pixel_bytes
    # Where the first window begins in the images with their rims.
    first = sum((a.rim[0] - a.before) * step for a, step in zip(at.axes, steps, strict=True))
    # ORDER: (groups, n, …windows, …pixels of a window, channels), as the view has them.
    strides = (
        *((n * image_bytes if behind else each * itemsize,) if groups > 1 else ()),
        image_bytes,
        *(step * a.stride for step, a in zip(steps, at.axes, strict=True)),
        *(step * a.dilation for step, a in zip(steps, at.axes, strict=True)),
        itemsize,
    )
    lengths, pixels = (n, *at.counts), (*at.size, each)
    window_bytes = max(groups * prod(pixels) * itemsize, 1)
    # Whole images, unless one alone fills the buffer many times: then rows of windows, and so on inwards.
    axis, below = 0, prod(at.counts)
    while below * window_bytes > WHOLE * buffer_bytes and axis < len(at.counts):
        axis += 1
        below //= lengths[axis]
    # At least one, even when that is larger than the buffer.
    step = max(1, min(lengths[axis], buffer_bytes // max(below * window_bytes, 1)))
    # An empty view must not begin outside of its array.
    offset = first if prod(lengths) * prod(pixels) else 0
    how = WindowOrder(_front(groups), lengths, pixels, strides, offset, axis, below, step, None)
    # Kept with the cached order, unless they are many.
    few = prod(lengths[:axis]) * (lengths[axis] // step + 1) <= 64
    return how._replace(reused=tuple(how.blocks())) if few else how


def _front(groups: int) -> Sizes:
    """Returns the axes before all others."""
    return (groups,) if groups > 1 else ()


def _columns(x: Array, at: Windows, groups: int) -> Iterator[tuple[slice, Array]]:
    """Yields (rows of the result, their windows as a matrix a group); each lies in the same buffer."""
    # Groups behind each other make of a window runs as long as its rows, at the cost of a transposed
    # copy; channels that are alone gain less than that. Milliseconds forward, 16x28x28 by 3x3 -> 64 in
    # 16 groups, behind / beside: of 16 channels 4.5 / 3.4, of 32 channels 7.7 / 13.8, of 64 7.9 / 13.7.
    behind = x.shape[-1] > groups
    how = taking(at, x.shape[0], x.shape[-1], x.itemsize, groups, behind, BUFFER_BYTES)
    view, buffer = how.view(pad_images(x, at, groups if behind else 1)), how.buffer(x.dtype)
    for block in how.blocks():
        taken = buffer[: block.size]
        # The one copy: the windows as rows of a matrix.
        np.copyto(taken.reshape(block.windows), view[block.at])
        yield block.rows, taken.reshape(block.matrix)


def _by_group(flat: Array, groups: int) -> Array:
    """The view (groups, rows, channels of a group) of a matrix (rows, channels); itself for one group."""
    if groups == 1:
        return flat
    rows, channels = flat.shape
    return flat.reshape(rows, groups, channels // groups).transpose(1, 0, 2)


def _flat(y: Array) -> Array:
    """`y` as a matrix of its last axis."""
    return y.reshape(prod(y.shape[:-1]), y.shape[-1])


def _convolve(x: Array, w: Array, at: Windows, groups: int) -> Array:
    out = np.empty((x.shape[0], *at.counts, w.shape[-1]), x.dtype)
    flat = _flat(out)
    # A window of one pixel at every pixel: the images are the matrix already.
    if at.plain and groups == 1:
        np.matmul(_flat(x), _flat(w), out=flat)
    elif depthwise.fits(w, groups):
        depthwise.convolve(x, w, at, out)
    else:
        matrices = _by_group(_flat(w), groups)
        for rows, columns in _columns(x, at, groups):
            np.matmul(columns, matrices, out=_by_group(flat[rows], groups))
    return out


@kernel("conv", only="numpy", cost=conv_cost)
@in_float32
def conv(x: Array, w: Array, *, strides: Sizes, padding: Padding, dilations: Sizes, groups: int) -> Array:
    """Cross-correlation of images with filters: `y[n,r,c,o] = sum x[n, r*s+i*d, c*s+j*d, k] * w[i,j,k,o]`.

    Shapes:  x (n, …, in), w (…, in / groups, out) -> (n, …, out); see `conv_shapes.conv_shape`.
    Dtypes:  floating, the same for both.
    Cost:    2*n*windows*pixels*in/groups*out flops; the result, a padded copy and the window buffer.
    Raises:  SpecError when shapes turn out not to fit, or an image smaller than a window.
    """
    return _convolve(
        x, w, filter_windows(x.shape, w.shape, None, strides, padding, dilations, groups), groups
    )


@kernel("conv_grad_input", only="numpy", cost=grad_input_cost)
@in_float32
def conv_grad_input(
    dy: Array, w: Array, x: Array, *, strides: Sizes, padding: Padding, dilations: Sizes, groups: int
) -> Array:
    """Gradient of `sum(dy * conv(x, w))` with respect to `x`; of `x` only the shape counts.

    Shapes:  dy (n, …, out), w (…, in / groups, out), x (n, …, in) -> that of x.
    Dtypes:  floating, the same for both.
    Cost:    that of conv.
    """
    return _back(
        dy, w, filter_windows(x.shape, w.shape, dy.shape, strides, padding, dilations, groups), groups
    )


@kernel("conv_transpose", only="numpy", cost=transpose_cost)
@in_float32
def conv_transpose(
    x: Array, w: Array, *, strides: Sizes, padding: Padding, dilations: Sizes, groups: int
) -> Array:
    """The convolution back: what `conv_grad_input` gives for the images that `x` is the convolution of.

    Shapes:  x (n, …, in), w (…, out / groups, in) -> (n, …, out); see `conv_transpose_shape`.
    Dtypes:  floating, the same for both.
    Cost:    that of the convolution that makes x.
    Raises:  SpecError when shapes turn out not to fit.
    """
    made = transposed_shape(x.shape, w.shape, strides, padding, dilations, groups)
    return _back(x, w, filter_windows(made, w.shape, x.shape, strides, padding, dilations, groups), groups)


def _back(dy: Array, w: Array, at: Windows, groups: int) -> Array:
    n, (channels, filters) = dy.shape[0], w.shape[-2:]
    # Images without pixels: there is nothing to lay windows on.
    if not prod(at.image):
        return np.zeros((n, *at.image, channels * groups), dy.dtype)
    if at.plain and groups == 1:
        return np.matmul(_flat(dy), w.reshape(channels, filters).T).reshape(n, *at.image, channels)
    if depthwise.fits(w, groups):
        return depthwise.back(dy, w, at, groups)
    # With strides dy would have to be spread with zeros; with many more filters than channels the windows of
    # dy cost more than the additions, as the last number below shows.
    if all(a.stride == 1 for a in at.axes) and filters <= 2 * channels * groups:
        return _correlate_back(dy, w, at, groups)
    # Elsewhere: one product gives the gradient of every window, then the windows are added where
    # they lie (col2im). Against the way above, milliseconds: 64x14x14x32->64 by 5x5 36 to 16,
    # 64x8x8x16->32 by 3x3 1.3 to 0.8; but 64x28x28x1->32 by 5x5 5 to 17.
    matrices = _by_group(_flat(w), groups).swapaxes(-1, -2)
    # Here groups lie behind each other in any case: of 16 channels in 16 groups 3.4, beside 5.6.
    whole = np.zeros((*_front(groups), n, *at.grown, channels), dy.dtype)
    how = taking(at, n, channels * groups, dy.itemsize, groups, True, BUFFER_BYTES)
    view, buffer, flat = how.view(whole), how.buffer(dy.dtype), _flat(dy)
    for block in how.blocks():
        taken = buffer[: block.size]
        np.matmul(_by_group(flat[block.rows], groups), matrices, out=taken.reshape(block.matrix))
        grads = taken.reshape(block.windows)
        there = view[block.at]
        # The windows of one place lie apart, so the addition in place sees each pixel once.
        for place in at.places():
            index: Any = (..., *place, slice(None))
            np.add(there[index], grads[index], out=there[index])
    # The rims were room for what hangs over; nobody wants their gradients.
    if groups == 1:
        return np.ascontiguousarray(whole[at.inside])
    return np.moveaxis(whole[:, *at.inside], 0, -2).reshape(n, *at.image, channels * groups)


def _correlate_back(dy: Array, w: Array, at: Windows, groups: int) -> Array:
    """For stride 1: the convolution of the widened `dy` with the filters turned by 180 degrees."""
    # Step 1: every spatial axis backwards.
    turned = w[(slice(None, None, -1),) * len(at.size)]
    channels, filters = w.shape[-2:]
    if groups > 1:
        # Step 2: filters become channels and channels filters, group by group.
        turned = turned.reshape(*at.size, channels, groups, filters // groups)
    turned = np.ascontiguousarray(turned.swapaxes(-1, -3 if groups > 1 else -2))
    back = turned.reshape(*at.size, filters // groups, groups * channels)
    return _convolve(dy, back, _flip_filters(dy.shape, at), groups)


@lru_cache(1024)
def _flip_filters(dy: Sizes, at: Windows) -> Windows:
    """Returns where the turned filters lie on `dy`, widened so that every pixel of the image has a window."""
    # Widened by the reach of a filter less one, so that the first pixel has a window that ends at it.
    padding = tuple((a.reach - 1 - a.before, a.size - a.count + a.before) for a in at.axes)
    return windows_of(dy, at.size, (1,) * len(at.axes), padding, tuple(a.dilation for a in at.axes))


@kernel("conv_grad_filter", only="numpy", cost=grad_filter_cost)
@in_float32
def conv_grad_filter(
    x: Array, dy: Array, w: Array, *, strides: Sizes, padding: Padding, dilations: Sizes, groups: int
) -> Array:
    """Gradient of `sum(dy * conv(x, w))` with respect to `w`; of `w` only the shape counts.

    Shapes:  x (n, …, in), dy (n, …, out), w (…, in / groups, out) -> that of w.
    Dtypes:  floating, the same for both.
    Cost:    that of conv.
    """
    at = filter_windows(x.shape, w.shape, dy.shape, strides, padding, dilations, groups)
    flat = _flat(dy)
    # As forward: the images are the matrix.
    if at.plain and groups == 1:
        return np.matmul(_flat(x).T, flat).reshape(w.shape)
    if depthwise.fits(w, groups):
        return depthwise.grad_filter(x, dy, w.shape, at)
    out = np.zeros(w.shape, x.dtype)
    sums = _by_group(_flat(out), groups)
    # One buffer for the product of each block, then added: matmul cannot add to its output.
    part = np.empty_like(sums)
    for rows, columns in _columns(x, at, groups):
        np.matmul(columns.swapaxes(-1, -2), _by_group(flat[rows], groups), out=part)
        np.add(sums, part, out=sums)
    return out
