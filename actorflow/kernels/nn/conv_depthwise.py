"""Convolutions whose groups have one channel, on numpy: a pass over the images a pixel of the window.

A matrix product of one channel has nothing to sum but the window, and would copy every window for it.
The passes go along rows of pixels, for which filters are repeated, so that an inner loop is long.
Measured (one thread, float32, 3x3, SAME, milliseconds, forward / to the input / to the filters):

    |                               | matrix products | passes          |
    | 16x28x28x64 -> 64             | 27 / 20 / 16    | 7.6 / 10 / 6.4  |
    | 16x28x28x64 -> 64, strides 2  | 5.3 / 16 / 6.7  | 2.8 / 3.5 / 2.0 |
    | 16x28x28x64 -> 128            | 19 / 83 / 22    | 15 / 26 / 15    |
    | 16x28x28x16 -> 64             | 6.8 / 9.2 / 6.1 | 6.5 / 9.7 / 6.0 |
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np

from actorflow.kernels.nn.conv import pad_images
from actorflow.kernels.nn.sliding import Sizes, Windows
from actorflow.values.arrays import Array

BLOCK_BYTES = 256 * 1024
"""Images are taken a few at a time, so that the passes over their windows stay in the cache."""


def fits(w: Array, groups: int) -> bool:
    """Tells whether filters are of that kind; of three or more a channel, matrix products are as fast."""
    return groups > 1 and w.shape[-2] == 1 and w.shape[-1] <= 2 * groups


def convolve(x: Array, w: Array, at: Windows, out: Array) -> None:
    """Writes `conv(x, w)` to `out`."""
    # The length of a row of the result, which one pass takes as its inner loop.
    filters, long = w.shape[-1], at.counts[-1] * w.shape[-1]
    out[...] = 0
    for images in _images(out):
        part = pad_images(_repeat_channels(x[images], filters), at)
        # One buffer for the products of every place.
        target = _in_rows(out[images])
        room = np.empty_like(target)
        for place, there in _windows(at):
            # The filters once for each pixel of a row.
            weights = np.tile(w[place][0], long // max(filters, 1))
            np.multiply(_in_rows(part[there]), weights, out=room)
            np.add(target, room, out=target)


def back(dy: Array, w: Array, at: Windows, channels: int) -> Array:
    """Returns the gradient of `sum(dy * conv(x, w))` for `x`, which has so many channels."""
    filters, long = w.shape[-1], at.counts[-1] * w.shape[-1]
    out = np.empty((dy.shape[0], *at.image, channels), dy.dtype)
    # With rims, so that no window hangs over an edge while gradients are added.
    for images in _images(dy):
        grads = _in_rows(np.ascontiguousarray(dy[images]))
        target = np.zeros((grads.shape[0], *at.grown, filters), dy.dtype)
        room = np.empty_like(grads)
        for place, there in _windows(at):
            weights = np.tile(w[place][0], long // max(filters, 1))
            np.multiply(grads, weights, out=room)
            pixels = target[there]
            np.add(pixels, room.reshape(pixels.shape), out=pixels)
        inside = target[at.inside]
        # Several filters went along one channel: their gradients are summed.
        if filters != channels:
            inside = inside.reshape(*inside.shape[:-1], channels, filters // channels).sum(axis=-1)
        out[images] = inside
    return out


def grad_filter(x: Array, dy: Array, shape: Sizes, at: Windows) -> Array:
    """Returns the gradient of `sum(dy * conv(x, w))` for `w` of that shape."""
    filters = shape[-1]
    out = np.zeros(shape, x.dtype)
    for images in _images(dy):
        part = pad_images(_repeat_channels(x[images], filters), at)
        grads = _in_rows(np.ascontiguousarray(dy[images]))
        room = np.empty_like(grads)
        for place, there in _windows(at):
            np.multiply(_in_rows(part[there]), grads, out=room)
            # First down the rows, then across the pixels of a row: both are long loops of numpy.
            rows = room.reshape(prod(room.shape[:-1]), room.shape[-1]).sum(axis=0)
            out[place][0] += rows.reshape(at.counts[-1], filters).sum(axis=0)
    return out


def _images(y: Array) -> list[slice]:
    """Returns the images whose windows `y` are taken at once."""
    step = max(1, BLOCK_BYTES // max(prod(y.shape[1:]) * y.itemsize, 1))
    return [slice(first, min(first + step, y.shape[0])) for first in range(0, y.shape[0], step)]


def _repeat_channels(x: Array, filters: int) -> Array:
    """Every channel as often as it has filters."""
    times = filters // max(x.shape[-1], 1)
    return x if times == 1 else np.repeat(x, times, axis=-1)


def _windows(at: Windows) -> Iterator[tuple[Sizes, Any]]:
    """Yields every pixel of a window, and where it lies in all windows of images with their rims."""
    for place in at.places():
        there = [slice(None)]
        for a, k in zip(at.axes, place, strict=True):
            # Rims make every place of the window a plain slice: the first one is at the rim less what hangs
            # over.
            first = a.rim[0] - a.before + k * a.dilation
            there.append(slice(first, first + (a.count - 1) * a.stride + 1, a.stride))
        yield place, tuple(there)


def _in_rows(y: Array) -> Array:
    """`y` with the channels of a row of pixels as one axis; a view where the pixels are neighbours."""
    return y.reshape(*y.shape[:-2], y.shape[-2] * y.shape[-1])
