"""Where filters lie on images, of one, two or three spatial axes; what convolutions cost.

The kernels are in `conv_im2col` (numpy) and `conv_portable` (every library).
"""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from actorflow.kernels.nn.sliding import Sizes, Windows, check_gradient, windows_of
from actorflow.values.arrays import Array
from actorflow.values.conv_shapes import conv_shape, conv_transpose_shape
from actorflow.values.windows import Padding


@lru_cache(1024)
def filter_windows(
    image: Sizes,
    filters: Sizes,
    dy: Sizes | None,
    strides: Sizes,
    padding: Padding,
    dilations: Sizes,
    groups: int,
) -> Windows:
    """Returns where filters lie on images; SpecError when the shapes, known late, do not fit."""
    wanted = conv_shape(image, filters, strides, padding, dilations, groups)
    # Of shapes that were known late; the cache keeps those that fit.
    check_gradient(dy, wanted)  # type: ignore[arg-type]  # of known shapes it is known
    return windows_of(image, filters[:-2], strides, padding, dilations)


@lru_cache(1024)
def transposed_shape(
    y: Sizes, filters: Sizes, strides: Sizes, padding: Padding, dilations: Sizes, groups: int
) -> Sizes:
    """Returns the shape of what a transposed convolution makes of images of shape `y`, known late."""
    return conv_transpose_shape(y, filters, strides, padding, dilations, groups)  # type: ignore[return-value]


def pad_images(x: Array, at: Windows, groups: int = 1) -> Array:
    """Returns `x` of numpy in C order with the rims of zeros of its windows; `x` itself when it has none.

    Several groups lie behind each other: (groups, n, …, channels of a group).
    """
    if groups == 1:
        # No rims: the images themselves, if they lie in order.
        if at.grown == at.image:
            return np.ascontiguousarray(x)
        out = np.zeros((x.shape[0], *at.grown, x.shape[-1]), x.dtype)
        out[at.inside] = x
        return out
    each = x.shape[-1] // groups
    out = np.zeros((groups, x.shape[0], *at.grown, each), x.dtype)
    # Groups behind each other: a row of a window is one run of memory.
    out[:, *at.inside] = np.moveaxis(x.reshape(*x.shape[:-1], groups, each), -2, 0)
    return out


def conv_cost(x: Array, w: Array, **attrs: Any) -> float:
    """One multiplication and one addition for every pixel of every window and filter."""
    at = filter_windows(x.shape, w.shape, None, **attrs)
    return float(2 * x.shape[0] * prod(at.counts) * w.size)


def grad_input_cost(dy: Array, w: Array, x: Array, **attrs: Any) -> float:
    """What `conv_cost` counts."""
    return conv_cost(x, w, **attrs)


def grad_filter_cost(x: Array, dy: Array, w: Array, **attrs: Any) -> float:
    """What `conv_cost` counts."""
    return conv_cost(x, w, **attrs)


def transpose_cost(y: Array, w: Array, **attrs: Any) -> float:
    """What `conv_cost` counts, for the convolution that makes `y`."""
    transposed_shape(y.shape, w.shape, **attrs)
    return float(2 * prod(y.shape[:-1]) * w.size)
