"""Max-pooling for every library, one pixel of the window at a time, NHWC.

A window that hangs over an edge is taken only where it lies on the image, so nothing is padded. The
passes come in one order, so equal inputs give equal bits, on a card too: no atomic additions.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from actorflow.arrays import Array, Library
from actorflow.kernels.conv import Windows, check_gradient, windows_of
from actorflow.kernels.pool import Pair, pool_cost
from actorflow.kernels.registry import kernel


def _pixels(at: Windows) -> Iterator[tuple[int, int, Any, Any]]:
    """Yields every pixel (row, column) of the window, the windows in which it lies, and where."""
    for i in range(at.size[0]):
        for j in range(at.size[1]):
            those, pixels = at.overlap(i, j)
            if all(part.start != part.stop for part in those[1:]):
                yield i, j, (*those, slice(None)), (*pixels, slice(None))


def _maxima(x: Array, at: Windows, xp: Library) -> Array:
    out = xp.full((x.shape[0], at.rows, at.columns, x.shape[3]), -math.inf, dtype=x.dtype)
    for _, _, those, pixels in _pixels(at):
        out[those] = xp.maximum(out[those], x[pixels])
    return out


def _first_maxima(x: Array, at: Windows, xp: Library) -> Iterator[tuple[Any, Any, Array]]:
    """Yields for every pixel of the window (windows, pixels, where it is the first maximum)."""
    maxima = _maxima(x, at, xp)
    found = xp.zeros(maxima.shape, dtype=xp.bool)
    for _, _, those, pixels in _pixels(at):
        before = found[those]
        first = (x[pixels] == maxima[those]) & ~before
        found[those] = before | first
        yield those, pixels, first


@kernel("max_pool", cost=pool_cost)
def max_pool(x: Array, *, size: Pair, strides: Pair, padding: str, xp: Library = np) -> Array:
    """The largest element of every window; see `kernels.pool.max_pool`."""
    return _maxima(x, windows_of(x.shape, size, strides, padding), xp)


@kernel("max_pool_grad", cost=pool_cost)
def max_pool_grad(x: Array, dy: Array, *, size: Pair, strides: Pair, padding: str, xp: Library = np) -> Array:
    """Hands the gradient of every window to its first maximum; see `kernels.pool.max_pool_grad`."""
    at = windows_of(x.shape, size, strides, padding)
    check_gradient(dy.shape, (x.shape[0], at.rows, at.columns, x.shape[3]))
    out = xp.zeros(x.shape, dtype=dy.dtype)
    nothing = xp.zeros((1, 1, 1, 1), dtype=dy.dtype)
    for those, pixels, first in _first_maxima(x, at, xp):
        out[pixels] = out[pixels] + xp.where(first, dy[those], nothing)
    return out


@kernel("max_pool_gather", cost=pool_cost)
def max_pool_gather(
    x: Array, values: Array, *, size: Pair, strides: Pair, padding: str, xp: Library = np
) -> Array:
    """Takes from `values` where `x` has the first maximum of each window; see `kernels.pool`."""
    at = windows_of(x.shape, size, strides, padding)
    check_gradient(values.shape, x.shape)
    out = xp.zeros((x.shape[0], at.rows, at.columns, x.shape[3]), dtype=values.dtype)
    for those, pixels, first in _first_maxima(x, at, xp):
        out[those] = xp.where(first, values[pixels], out[those])
    return out
