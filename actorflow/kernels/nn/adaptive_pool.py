"""Adaptive pooling: as many windows as are asked for, as even as they can be, for every library.

It has not run on a card yet, only on numpy, `array_api_strict` and a stand-in for CuPy.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from actorflow.kernels.definition.axis_maps import AxisMap, through
from actorflow.kernels.definition.precision import in_float32
from actorflow.kernels.definition.registry import kernel
from actorflow.kernels.definition.size_cache import cache_by_size
from actorflow.kernels.nn.max_pool_portable import first_places
from actorflow.kernels.nn.sliding import Sizes, check_gradient
from actorflow.values.arrays import Array, Library
from actorflow.values.conv_shapes import spatial
from actorflow.values.windows import adaptive_window


def _cost(x: Array, *others: Array, size: Sizes, **_: Any) -> float:
    return 4.0 * float(x.size)


@cache_by_size(1 << 24)
def _means(length: int, count: int) -> AxisMap:
    """The mean of each of `count` windows along an axis of `length`."""
    starts, sizes = adaptive_window(length, count).spans()
    # Windows may overlap: each of their elements is a row of its own in the map.
    windows = np.repeat(np.arange(count), sizes)
    # Counted within each window, from where that starts.
    places = np.arange(windows.size) - np.repeat(np.cumsum(sizes) - sizes, sizes) + starts[windows]
    return AxisMap.of(windows, places, 1 / sizes[windows], count)


@cache_by_size(1 << 24)
def _shares(length: int, count: int) -> AxisMap:
    """What each place of the axis gives to the windows: the transpose of `_means`."""
    return _means(length, count).transposed(length)


def _axes(shape: Sizes, size: Sizes) -> list[tuple[int, int]]:
    """The length of each spatial axis and the windows along it."""
    spatial(shape, len(size))
    return list(zip(shape[1:-1], size, strict=True))


@kernel("adaptive_avg_pool", cost=_cost)
@in_float32
def adaptive_avg_pool(x: Array, *, size: Sizes, xp: Library = np) -> Array:
    """The mean of each of `size` windows; see `windows.adaptive_window`.

    Shapes:  x (n, h, w, c) -> (n, *size, c)
    Dtypes:  floating
    """
    # Axis by axis: the mean over a box is the mean of means, as all rows of a box are equally long.
    for axis, (length, count) in enumerate(_axes(x.shape, size), 1):
        x = through(x, axis, _means(length, count), xp)
    return x


@kernel("adaptive_avg_pool_grad", cost=_cost)
@in_float32
def adaptive_avg_pool_grad(dy: Array, x: Array, *, size: Sizes, xp: Library = np) -> Array:
    """Hands the gradient of every window to its elements, in equal shares; the shape is that of x."""
    axes = _axes(x.shape, size)
    wanted = (x.shape[0], *size, x.shape[-1])
    # A shape known late may not be that of the output.
    check_gradient(dy.shape, wanted)
    # The transposes in reverse order, as of any product of maps.
    for axis in range(len(size), 0, -1):
        dy = through(dy, axis, _shares(*axes[axis - 1]), xp)
    return dy


@kernel("adaptive_max_pool_places", cost=_cost)
def adaptive_max_pool_places(x: Array, *, size: Sizes, xp: Library = np) -> Array:
    """Where the first maximum of each of `size` windows lies, or its last NaN, along the rows of its plane.

    Shapes:  x (n, h, w, c) -> (n, *size, c)
    Dtypes:  integers or floating -> int64
    """
    windows = [(*adaptive_window(*both).spans(), 1) for both in _axes(x.shape, size)]
    wide = x.astype(np.float32) if x.dtype.itemsize == 2 else x
    return first_places(wide, windows, xp)


@kernel("global_max_pool")
def global_max_pool(x: Array, *, size: Sizes, keepdims: bool, xp: Library = np) -> Array:
    """The largest of all pixels, channel by channel.

    Shapes:  x (n, h, w, c) -> (n, c), or (n, 1, 1, c) with `keepdims`
    Dtypes:  integers or floating
    """
    for both in _axes(x.shape, size):
        adaptive_window(*both)  # refuses an empty axis
    return xp.max(x, axis=tuple(range(1, x.ndim - 1)), keepdims=keepdims)
