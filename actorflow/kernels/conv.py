"""Convolution and its two gradients on numpy: matrix products over windows (im2col), NHWC and HWIO.

The windows of a few images at a time are copied into one reused buffer, and one matrix product
takes them from there. Whole-batch im2col and image-by-image im2col are the two ends of that: the
first streams megabytes through memory, the second pays a Python loop per image. Both were
measured (one thread, float32, SAME, milliseconds, forward / filter gradient):

    |                         | batch       | image       | 512 KiB     |
    | 64 x 8 x 8 x 1 -> 16    | 0.17 / 0.16 | 0.38 / 0.42 | 0.17 / 0.18 |
    | 64 x 8 x 8 x 16 -> 32   | 0.78 / 0.82 | 0.80 / 0.89 | 0.80 / 0.60 |
    | 32 x 32 x 32 x 64 -> 64 | 54 / 55     | 34 / 36     | 27 / 28     |

The sums run in an order that depends on the shapes alone, so equal inputs give equal bits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from actorflow.arrays import Array
from actorflow.errors import SpecError
from actorflow.kernels.precision import in_float32
from actorflow.kernels.registry import kernel
from actorflow.spec import margins, show, windows

BUFFER_BYTES = 512 * 1024  # a quarter of the L2 cache it was measured on; 128 KiB to 2 MiB differ by 5 %


@dataclass(frozen=True, slots=True)
class Windows:
    """Where the windows of a filter lie on a batch of images."""

    height: int
    width: int
    rows: int
    columns: int
    top: int
    bottom: int
    left: int
    right: int
    strides: tuple[int, int]
    size: tuple[int, int]

    @property
    def plain(self) -> bool:
        """Tells whether every window is one pixel and every pixel is a window."""
        return self.size == (1, 1) and self.strides == (1, 1)

    def padded(self, x: Array) -> Array:
        """Returns `x` in C order with its zero margins; `x` itself when it has none."""
        if not (self.top or self.bottom or self.left or self.right):
            return np.ascontiguousarray(x)
        n, _, _, channels = x.shape
        out = np.zeros(self._padded_shape(n, channels), x.dtype)
        self.inside(out)[...] = x
        return out

    def blank(self, n: int, channels: int, dtype: Any) -> Array:
        """Returns zeros for `n` images with their margins."""
        return np.zeros(self._padded_shape(n, channels), dtype)

    def inside(self, padded: Array) -> Array:
        """Returns the view of the images without their margins."""
        return padded[:, self.top : self.top + self.height, self.left : self.left + self.width]

    def at(self, padded: Array, row: int, column: int) -> Array:
        """Returns the view of the pixel (`row`, `column`) of every window: (n, rows, columns, channels)."""
        down, right = self.strides
        return padded[:, row : row + self.rows * down : down, column : column + self.columns * right : right]

    def overlap(self, row: int, column: int) -> tuple[tuple[slice, ...], tuple[slice, ...]]:
        """Returns the windows whose pixel (`row`, `column`) lies on the image, and those pixels.

        Both index four axes; in the order of the windows they belong together one to one.
        """
        first, last, pixels = self._along(row - self.top, self.strides[0], self.rows, self.height)
        left, right, across = self._along(column - self.left, self.strides[1], self.columns, self.width)
        every = slice(None)
        return (every, slice(first, last), slice(left, right)), (every, pixels, across)

    @staticmethod
    def _along(offset: int, stride: int, count: int, size: int) -> tuple[int, int, slice]:
        """Returns the range of windows whose pixel at `offset` lies in [0, size), and the pixels."""
        first = max(0, -(offset // stride))
        last = max(first, min(count, (size - 1 - offset) // stride + 1))
        start = first * stride + offset
        return first, last, slice(start, start + max(0, (last - first - 1) * stride + 1), stride)

    def chunks(self, n: int, bytes_per_image: int) -> list[slice]:
        """Returns the images to take at once, so that their windows fit the buffer."""
        step = max(1, min(n, BUFFER_BYTES // max(bytes_per_image, 1)))
        return [slice(i, min(i + step, n)) for i in range(0, n, step)]

    def _padded_shape(self, n: int, channels: int) -> tuple[int, int, int, int]:
        return n, self.height + self.top + self.bottom, self.width + self.left + self.right, channels


@lru_cache(1024)
def windows_of(
    image: tuple[int, ...], size: tuple[int, int], strides: tuple[int, int], padding: str
) -> Windows:
    """Returns where windows of `size` lie on images of shape (n, height, width, channels).

    Raises:
        SpecError: when `image` has other axes, or is smaller than a window.
    """
    if len(image) != 4:
        message = f"images have the four axes (n, height, width, channels), got {show(image)}"
        raise SpecError(message)
    _, height, width, _ = image
    rows = windows(height, size[0], strides[0], padding)
    columns = windows(width, size[1], strides[1], padding)
    assert rows is not None
    assert columns is not None
    top, bottom = margins(height, size[0], strides[0], padding)
    left, right = margins(width, size[1], strides[1], padding)
    return Windows(height, width, rows, columns, top, bottom, left, right, strides, size)


@lru_cache(1024)
def laid(
    image: tuple[int, ...],
    filters: tuple[int, ...],
    dy: tuple[int, ...] | None,
    strides: tuple[int, int],
    padding: str,
) -> Windows:
    """Returns where filters lie on images; SpecError when the shapes, known late, do not fit."""
    if len(filters) != 4:
        message = f"filters have the four axes (height, width, in, out), got {show(filters)}"
        raise SpecError(message)
    at = windows_of(image, filters[:2], strides, padding)
    if image[3] != filters[2]:
        message = (
            f"images and filters need equal channels, got images {show(image)} and filters {show(filters)}"
        )
        raise SpecError(message)
    check_gradient(dy, (image[0], at.rows, at.columns, filters[3]))
    return at


def check_gradient(dy: tuple[int, ...] | None, wanted: tuple[int, ...]) -> None:
    """Raises SpecError unless a gradient has the shape of what it is for, or there is none."""
    if dy is not None and dy != wanted:
        message = f"the gradient of an output {show(wanted)} has its shape, got {show(dy)}"
        raise SpecError(message)


def _columns(x: Array, at: Windows) -> Iterator[tuple[slice, Array]]:
    """Yields (rows of the result, their windows as a matrix); each matrix lies in the same buffer."""
    padded = at.padded(x)
    n, channels = padded.shape[0], padded.shape[3]
    (high, wide), (down, right) = at.size, at.strides
    per_image, width = at.rows * at.columns, high * wide * channels
    # Not padded.strides: numpy calls an array contiguous whatever the stride of an axis of size 1.
    sc = padded.itemsize
    sw = channels * sc
    sh = padded.shape[2] * sw
    sn = padded.shape[1] * sh
    # The pixels of one window row lie side by side in memory, so that the copy below moves
    # runs of `wide * channels` elements. (as_strided would add 6 µs to the 20 of a tiny image.)
    shape = (n, at.rows, at.columns, high, wide * channels)
    view: Array = np.ndarray(shape, x.dtype, padded, strides=(sn, sh * down, sw * right, sh, sc))
    chunks = at.chunks(n, per_image * width * x.itemsize)
    if not chunks:
        return
    buffer = np.empty((chunks[0].stop, at.rows, at.columns, high, wide * channels), x.dtype)
    for images in chunks:
        taken = buffer[: images.stop - images.start]
        np.copyto(taken, view[images])
        yield slice(images.start * per_image, images.stop * per_image), taken.reshape(-1, width)


def _convolve(x: Array, w: Array, at: Windows) -> Array:
    high, wide, channels, filters = w.shape
    n = x.shape[0]
    matrix = w.reshape(high * wide * channels, filters)
    out = np.empty((n, at.rows, at.columns, filters), x.dtype)
    flat = out.reshape(-1, filters)
    if at.plain:
        np.matmul(x.reshape(-1, channels), matrix, out=flat)
        return out
    for rows, columns in _columns(x, at):
        np.matmul(columns, matrix, out=flat[rows])
    return out


def _flops(x: Array, w: Array, at: Windows) -> float:
    """One multiplication and one addition for every pixel of every window and filter."""
    return float(2 * x.shape[0] * at.rows * at.columns * w.size)


def conv2d_cost(x: Array, w: Array, *, strides: tuple[int, int], padding: str) -> float:
    """What `_flops` counts."""
    return _flops(x, w, laid(x.shape, w.shape, None, strides, padding))


def grad_input_cost(dy: Array, w: Array, x: Array, **attrs: Any) -> float:
    """What `_flops` counts."""
    return conv2d_cost(x, w, **attrs)


def grad_filter_cost(x: Array, dy: Array, w: Array, **attrs: Any) -> float:
    """What `_flops` counts."""
    return conv2d_cost(x, w, **attrs)


@kernel("conv2d", only="numpy", cost=conv2d_cost)
@in_float32
def conv2d(x: Array, w: Array, *, strides: tuple[int, int], padding: str) -> Array:
    """Cross-correlation of images with filters: `y[n,r,c,o] = sum x[n, r*s+i, c*s+j, k] * w[i,j,k,o]`.

    Shapes:  x (n, h, w, in), w (i, j, in, out) -> (n, rows, columns, out); see `spec.windows`.
    Dtypes:  floating, the same for both.
    Cost:    2*n*rows*columns*i*j*in*out flops; the result, a padded copy and the window buffer.
    Raises:  SpecError when shapes turn out not to fit, or an image smaller than a window.
    """
    return _convolve(x, w, laid(x.shape, w.shape, None, strides, padding))


@kernel("conv2d_grad_input", only="numpy", cost=grad_input_cost)
@in_float32
def conv2d_grad_input(dy: Array, w: Array, x: Array, *, strides: tuple[int, int], padding: str) -> Array:
    """Gradient of `sum(dy * conv2d(x, w))` with respect to `x`; of `x` only the shape counts.

    Shapes:  dy (n, rows, columns, out), w (i, j, in, out), x (n, h, w, in) -> that of x.
    Dtypes:  floating, the same for both.
    Cost:    that of conv2d.
    """
    at = laid(x.shape, w.shape, dy.shape, strides, padding)
    high, wide, channels, filters = w.shape
    n = dy.shape[0]
    if at.plain:
        return np.matmul(dy.reshape(-1, filters), w.reshape(channels, filters).T).reshape(x.shape)
    if strides == (1, 1) and filters <= 2 * channels:
        return _correlate_back(dy, w, at)
    # Elsewhere: one product gives the gradient of every window, then the windows are added where
    # they lie (col2im). Against the way above, milliseconds: 64x14x14x32->64 by 5x5 36 to 16,
    # 64x8x8x16->32 by 3x3 1.3 to 0.8; but 64x28x28x1->32 by 5x5 5 to 17.
    matrix = w.reshape(high * wide * channels, filters).T
    per_image = at.rows * at.columns
    padded = at.blank(n, channels, dy.dtype)
    flat = dy.reshape(n * per_image, filters)
    chunks = at.chunks(n, per_image * matrix.shape[1] * dy.itemsize)
    buffer = np.empty(((chunks[0].stop if chunks else 0) * per_image, matrix.shape[1]), dy.dtype)
    for images in chunks:
        taken = buffer[: (images.stop - images.start) * per_image]
        np.matmul(flat[images.start * per_image : images.stop * per_image], matrix, out=taken)
        grads = taken.reshape(-1, at.rows, at.columns, high, wide, channels)
        target = padded[images]
        for i in range(high):
            for j in range(wide):
                pixels = at.at(target, i, j)
                np.add(pixels, grads[:, :, :, i, j], out=pixels)
    return np.ascontiguousarray(at.inside(padded))


def _correlate_back(dy: Array, w: Array, at: Windows) -> Array:
    """For stride 1: the convolution of the widened `dy` with the filters turned by 180 degrees."""
    n, _, _, filters = dy.shape
    high, wide = at.size
    widened = np.zeros((n, at.height + high - 1, at.width + wide - 1, filters), dy.dtype)
    top, left = high - 1 - at.top, wide - 1 - at.left
    widened[:, top : top + at.rows, left : left + at.columns] = dy
    turned = np.ascontiguousarray(w[::-1, ::-1].transpose(0, 1, 3, 2))
    return _convolve(widened, turned, windows_of(widened.shape, at.size, (1, 1), "VALID"))


@kernel("conv2d_grad_filter", only="numpy", cost=grad_filter_cost)
@in_float32
def conv2d_grad_filter(x: Array, dy: Array, w: Array, *, strides: tuple[int, int], padding: str) -> Array:
    """Gradient of `sum(dy * conv2d(x, w))` with respect to `w`; of `w` only the shape counts.

    Shapes:  x (n, h, w, in), dy (n, rows, columns, out), w (i, j, in, out) -> that of w.
    Dtypes:  floating, the same for both.
    Cost:    that of conv2d.
    """
    at = laid(x.shape, w.shape, dy.shape, strides, padding)
    channels, filters = w.shape[2:]
    flat = dy.reshape(-1, filters)
    if at.plain:
        return np.matmul(x.reshape(-1, channels).T, flat).reshape(w.shape)
    out = np.zeros((w.size // filters if filters else 0, filters), x.dtype)
    part = np.empty_like(out)
    for rows, columns in _columns(x, at):
        np.matmul(columns.T, flat[rows], out=part)
        np.add(out, part, out=out)
    return out.reshape(w.shape)
