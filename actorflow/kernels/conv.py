"""Where the windows of filters lie on images, of one, two or three spatial axes; what convolutions cost.

The kernels are in `conv_blocks` (numpy) and `conv_portable` (every library).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from math import prod
from typing import Any

import numpy as np

from actorflow.arrays import Array
from actorflow.errors import SpecError
from actorflow.spec import (
    Padding,
    along,
    conv_shape,
    conv_transpose_shape,
    image_axes,
    margins,
    show,
    windows,
)

Sizes = tuple[int, ...]
Part = tuple[slice, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Windows:
    """Where the windows of a filter lie on a batch of images; every tuple has one entry a spatial axis.

    Made by `windows_of`, once for each use: it is a key by what it is, not by what it holds.

    Attributes:
        image: The sizes of the images.
        counts: How many windows there are.
        size: The elements of a window, which lie `dilation` apart.
        before: How far the first window hangs over the edge; below 0 it begins inside.
        rims: How many zeros there are before and after images so that all windows lie inside.
        grown: The sizes of the images with their rims.
        inside: Where the images lie in those.
    """

    image: Sizes
    counts: Sizes
    size: Sizes
    strides: Sizes
    dilation: Sizes
    before: Sizes
    rims: tuple[tuple[int, int], ...]
    grown: Sizes
    inside: Part

    @property
    def rows(self) -> int:
        """How many windows there are along the first axis."""
        return self.counts[0]

    @property
    def columns(self) -> int:
        """How many windows there are along the second axis."""
        return self.counts[1]

    @property
    def top(self) -> int:
        """How far windows hang over the edge of the first axis."""
        return self.before[0]

    @property
    def left(self) -> int:
        """How far windows hang over the edge of the second axis."""
        return self.before[1]

    @property
    def plain(self) -> bool:
        """Tells whether every window is one pixel and every pixel is a window."""
        return (
            prod(self.size) == 1
            and set(self.strides) == {1}
            and self.counts == self.image
            and not any(self.before)
        )

    def padded(self, x: Array, groups: int = 1) -> Array:
        """Returns `x` of numpy in C order with its rims of zeros; `x` itself when it has none.

        Several groups lie behind each other: (groups, n, …, channels of a group).
        """
        if groups == 1:
            if self.grown == self.image:
                return np.ascontiguousarray(x)
            out = np.zeros((x.shape[0], *self.grown, x.shape[-1]), x.dtype)
            out[self.inside] = x
            return out
        each = x.shape[-1] // groups
        out = np.zeros((groups, x.shape[0], *self.grown, each), x.dtype)
        out[:, *self.inside] = np.moveaxis(x.reshape(*x.shape[:-1], groups, each), -2, 0)
        return out

    def places(self) -> Iterator[Sizes]:
        """Yields every pixel of a window, row by row."""
        return product(*map(range, self.size))

    def overlap(self, *place: int) -> tuple[Part, Part]:
        """Returns the windows whose pixel at `place` lies on the image, and those pixels.

        Both index all axes but the channels; in the order of the windows they belong together one
        to one.
        """
        windows_there, pixels = [slice(None)], [slice(None)]
        for axis, i in enumerate(place):
            offset = i * self.dilation[axis] - self.before[axis]
            first, last, those = _along(offset, self.strides[axis], self.counts[axis], self.image[axis])
            windows_there.append(slice(first, last))
            pixels.append(those)
        return tuple(windows_there), tuple(pixels)


def _along(offset: int, stride: int, count: int, size: int) -> tuple[int, int, slice]:
    """Returns the range of windows whose pixel at `offset` lies in [0, size), and the pixels."""
    first = min(count, max(0, -(offset // stride)))
    last = max(first, min(count, (size - 1 - offset) // stride + 1))
    start = first * stride + offset if last > first else 0
    return first, last, slice(start, start + max(0, (last - first - 1) * stride + 1), stride)


@lru_cache(1024)
def windows_of(
    image: Sizes, size: Sizes, strides: Sizes, padding: Padding, dilation: Sizes | None = None
) -> Windows:
    """Returns where windows of `size` lie on images of shape (n, …, channels).

    Raises:
        SpecError: when `image` has other axes, or is smaller than a window.
    """
    sizes = image_axes(image, len(strides))[1:-1]
    apart = dilation or (1,) * len(strides)
    counts, before, rims = [], [], []
    for axis, (length, high, stride, step) in enumerate(zip(sizes, size, strides, apart, strict=True)):
        assert length is not None
        count = windows(length, high, stride, along(padding, axis), step)
        assert count is not None
        over = margins(length, high, stride, along(padding, axis), step)[0]
        end = (count - 1) * stride + (high - 1) * step + 1 - over if count else 0
        counts.append(count)
        before.append(over)
        rims.append((max(over, 0), max(end - length, 0)))
    inner = image[1:-1]
    grown = tuple(low + length + high for length, (low, high) in zip(inner, rims, strict=True))
    inside = tuple(slice(low, low + length) for length, (low, _) in zip(inner, rims, strict=True))
    return Windows(
        inner,
        tuple(counts),
        size,
        strides,
        apart,
        tuple(before),
        tuple(rims),
        grown,
        (slice(None), *inside),
    )


@lru_cache(1024)
def laid(
    image: Sizes,
    filters: Sizes,
    dy: Sizes | None,
    strides: Sizes,
    padding: Padding,
    dilation: Sizes,
    groups: int,
) -> Windows:
    """Returns where filters lie on images; SpecError when the shapes, known late, do not fit."""
    wanted = conv_shape(image, filters, strides, padding, dilation, groups)
    check_gradient(dy, wanted)  # type: ignore[arg-type]  # of known shapes it is known
    return windows_of(image, filters[:-2], strides, padding, dilation)


@lru_cache(1024)
def unfolded(
    y: Sizes, filters: Sizes, strides: Sizes, padding: Padding, dilation: Sizes, groups: int
) -> Sizes:
    """Returns the shape of what a transposed convolution makes of images of shape `y`, known late."""
    return conv_transpose_shape(y, filters, strides, padding, dilation, groups)  # type: ignore[return-value]


def check_gradient(dy: Sizes | None, wanted: Sizes) -> None:
    """Raises SpecError unless a gradient has the shape of what it is for, or there is none."""
    if dy is not None and dy != wanted:
        message = f"the gradient of an output {show(wanted)} has its shape, got {show(dy)}"
        raise SpecError(message)


def conv_cost(x: Array, w: Array, **attrs: Any) -> float:
    """One multiplication and one addition for every pixel of every window and filter."""
    at = laid(x.shape, w.shape, None, **attrs)
    return float(2 * x.shape[0] * prod(at.counts) * w.size)


def grad_input_cost(dy: Array, w: Array, x: Array, **attrs: Any) -> float:
    """What `conv_cost` counts."""
    return conv_cost(x, w, **attrs)


def grad_filter_cost(x: Array, dy: Array, w: Array, **attrs: Any) -> float:
    """What `conv_cost` counts."""
    return conv_cost(x, w, **attrs)


def transpose_cost(y: Array, w: Array, **attrs: Any) -> float:
    """What `conv_cost` counts, for the convolution that makes `y`."""
    unfolded(y.shape, w.shape, **attrs)
    return float(2 * prod(y.shape[:-1]) * w.size)
