"""Convolution and its gradients for every library, one pixel of the window at a time, channels last.

A window that hangs over an edge is taken only where it lies on the image, so nothing is padded. The
passes come in one order, so equal inputs give equal bits, on a card too: no atomic additions.
Correct before fast: a 3x3 convolution is nine matrix products and nine passes over its result; the
groups go through each product together, and those of one channel are multiplied element by element.

It has not run on a card yet, only on numpy, `array_api_strict` and a stand-in for CuPy.
"""

from __future__ import annotations

import math

import numpy as np

from actorflow.kernels.definition.precision import in_float32
from actorflow.kernels.definition.registry import kernel
from actorflow.kernels.nn.conv import (
    conv_cost,
    filter_windows,
    grad_filter_cost,
    grad_input_cost,
    transpose_cost,
    transposed_shape,
)
from actorflow.kernels.nn.sliding import Sizes, Windows
from actorflow.values.arrays import Array, Library
from actorflow.values.windows import Padding


def _by_group(x: Array, groups: int) -> Array:
    """`x` as a matrix of the channels for each group: (groups, everything before, channels of a group)."""
    rows, each = math.prod(x.shape[:-1]), x.shape[-1] // groups
    return x.reshape((rows, groups, each)).transpose((1, 0, 2))


def _together(product: Array, shape: tuple[int, ...]) -> Array:
    """The product of every group beside each other."""
    return product.transpose((1, 0, 2)).reshape(shape)


def _single(w: Array, groups: int) -> bool:
    """Tells whether a group is one channel and one filter: then products are elementwise."""
    return groups > 1 and w.shape[-2] == 1 and w.shape[-1] == groups


@kernel("conv", cost=conv_cost)
@in_float32
def conv(
    x: Array, w: Array, *, strides: Sizes, padding: Padding, dilations: Sizes, groups: int, xp: Library = np
) -> Array:
    """Cross-correlation of images with filters; see `kernels.nn.conv_im2col.conv`."""
    at = filter_windows(x.shape, w.shape, None, strides, padding, dilations, groups)
    out = xp.zeros((x.shape[0], *at.counts, w.shape[-1]), dtype=x.dtype)
    for place, those, pixels in at.pieces():
        if _single(w, groups):
            product = x[pixels] * w[*place, ...]
        else:
            product = xp.matmul(_by_group(x[pixels], groups), _by_group(w[*place, ...], groups))
            product = _together(product, out[those].shape)
        out[those] = out[those] + product
    return out


def _back(dy: Array, w: Array, at: Windows, groups: int, xp: Library) -> Array:
    out = xp.zeros((dy.shape[0], *at.image, w.shape[-2] * groups), dtype=dy.dtype)
    for place, those, pixels in at.pieces():
        # As forward, with windows and pixels exchanged.
        if _single(w, groups):
            product = dy[those] * w[*place, ...]
        else:
            turned = _by_group(w[*place, ...], groups).transpose((0, 2, 1))
            product = _together(xp.matmul(_by_group(dy[those], groups), turned), out[pixels].shape)
        out[pixels] = out[pixels] + product
    return out


@kernel("conv_grad_input", cost=grad_input_cost)
@in_float32
def conv_grad_input(
    dy: Array,
    w: Array,
    x: Array,
    *,
    strides: Sizes,
    padding: Padding,
    dilations: Sizes,
    groups: int,
    xp: Library = np,
) -> Array:
    """Gradient of `sum(dy * conv(x, w))` with respect to `x`; see `kernels.nn.conv_im2col`."""
    at = filter_windows(x.shape, w.shape, dy.shape, strides, padding, dilations, groups)
    return _back(dy, w, at, groups, xp)


@kernel("conv_transpose", cost=transpose_cost)
@in_float32
def conv_transpose(
    x: Array, w: Array, *, strides: Sizes, padding: Padding, dilations: Sizes, groups: int, xp: Library = np
) -> Array:
    """The convolution back; see `kernels.nn.conv_im2col.conv_transpose`."""
    made = transposed_shape(x.shape, w.shape, strides, padding, dilations, groups)
    return _back(
        x, w, filter_windows(made, w.shape, x.shape, strides, padding, dilations, groups), groups, xp
    )


@kernel("conv_grad_filter", cost=grad_filter_cost)
@in_float32
def conv_grad_filter(
    x: Array,
    dy: Array,
    w: Array,
    *,
    strides: Sizes,
    padding: Padding,
    dilations: Sizes,
    groups: int,
    xp: Library = np,
) -> Array:
    """Gradient of `sum(dy * conv(x, w))` with respect to `w`; see `kernels.nn.conv_im2col`."""
    at = filter_windows(x.shape, w.shape, dy.shape, strides, padding, dilations, groups)
    out = xp.zeros(w.shape, dtype=x.dtype)
    for place, those, pixels in at.pieces():
        if _single(w, groups):
            # One channel and one filter: a sum over all pixels, and no product.
            out[*place, ...] = xp.sum(x[pixels] * dy[those], axis=tuple(range(dy.ndim - 1)))[None, :]
        else:
            columns = _by_group(x[pixels], groups).transpose((0, 2, 1))
            product = xp.matmul(columns, _by_group(dy[those], groups))
            out[*place, ...] = _together(product, (w.shape[-2], w.shape[-1]))
    return out
