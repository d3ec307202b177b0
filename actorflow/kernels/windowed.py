"""Convolution for every library, one pixel of the window at a time, NHWC and HWIO.

A window that hangs over an edge is taken only where it lies on the image, so nothing is padded. The
passes come in one order, so equal inputs give equal bits, on a card too: no atomic additions.
Correct before fast: a 3x3 convolution is nine matrix products and nine passes over its result.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from actorflow.arrays import Array, Library
from actorflow.kernels.conv import (
    Windows,
    conv2d_cost,
    grad_filter_cost,
    grad_input_cost,
    laid,
)
from actorflow.kernels.precision import in_float32
from actorflow.kernels.registry import kernel

Pair = tuple[int, int]


def _pixels(at: Windows) -> Iterator[tuple[int, int, Any, Any]]:
    """Yields every pixel (row, column) of the window, the windows in which it lies, and where."""
    for i in range(at.size[0]):
        for j in range(at.size[1]):
            those, pixels = at.overlap(i, j)
            if all(part.start != part.stop for part in those[1:]):
                yield i, j, (*those, slice(None)), (*pixels, slice(None))


def _rows(x: Array) -> Array:
    """`x` as a matrix of its last axis."""
    return x.reshape((math.prod(x.shape[:-1]), x.shape[-1]))


@kernel("conv2d", cost=conv2d_cost)
@in_float32
def conv2d(x: Array, w: Array, *, strides: Pair, padding: str, xp: Library = np) -> Array:
    """Cross-correlation of images with filters; see `kernels.conv.conv2d`."""
    at = laid(x.shape, w.shape, None, strides, padding)
    out = xp.zeros((x.shape[0], at.rows, at.columns, w.shape[3]), dtype=x.dtype)
    for i, j, those, pixels in _pixels(at):
        target = out[those]
        out[those] = target + xp.matmul(_rows(x[pixels]), w[i, j, :, :]).reshape(target.shape)
    return out


@kernel("conv2d_grad_input", cost=grad_input_cost)
@in_float32
def conv2d_grad_input(
    dy: Array, w: Array, x: Array, *, strides: Pair, padding: str, xp: Library = np
) -> Array:
    """Gradient of `sum(dy * conv2d(x, w))` with respect to `x`; see `kernels.conv`."""
    at = laid(x.shape, w.shape, dy.shape, strides, padding)
    out = xp.zeros(x.shape, dtype=dy.dtype)
    for i, j, those, pixels in _pixels(at):
        target = out[pixels]
        out[pixels] = target + xp.matmul(_rows(dy[those]), w[i, j, :, :].T).reshape(target.shape)
    return out


@kernel("conv2d_grad_filter", cost=grad_filter_cost)
@in_float32
def conv2d_grad_filter(
    x: Array, dy: Array, w: Array, *, strides: Pair, padding: str, xp: Library = np
) -> Array:
    """Gradient of `sum(dy * conv2d(x, w))` with respect to `w`; see `kernels.conv`."""
    at = laid(x.shape, w.shape, dy.shape, strides, padding)
    out = xp.zeros(w.shape, dtype=x.dtype)
    for i, j, those, pixels in _pixels(at):
        out[i, j, :, :] = xp.matmul(_rows(x[pixels]).T, _rows(dy[those]))
    return out
