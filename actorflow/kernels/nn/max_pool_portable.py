"""Pooling for every library: maxima, where they lie, and means, one place of the window at a time.

A window that hangs over an edge is taken only where it lies on the image, so nothing is padded. The
passes come in one order, so equal inputs give equal bits, on a card too: no atomic additions.

It has not run on a card yet, only on numpy, `array_api_strict` and a stand-in for CuPy.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Iterator, Sequence
from functools import reduce
from typing import Any

import numpy as np

from actorflow.kernels.definition.precision import in_float32
from actorflow.kernels.definition.registry import kernel
from actorflow.kernels.definition.size_cache import cache_by_size
from actorflow.kernels.nn.sliding import Windows, check_gradient, pool_cost, slides
from actorflow.values.arrays import Array, Library
from actorflow.values.windows import SlidingWindow

# -------------------------------------------------------------------------------------- maxima


def least(dtype: Any, xp: Library) -> float:
    """The number that no element of `dtype` is below."""
    return int(xp.iinfo(dtype).min) if dtype.kind in "iu" else -math.inf


def _maxima(x: Array, at: Windows, xp: Library) -> Array:
    out = xp.full(at.pooled, least(x.dtype, xp), dtype=x.dtype)
    # maximum passes NaN on.
    for _, those, pixels in at.pieces():
        out[those] = xp.maximum(out[those], x[pixels])
    return out


def _first_maxima(x: Array, at: Windows, xp: Library) -> Iterator[tuple[Any, Any, Array]]:
    """Yields for every place of the window (windows, pixels, where it is the first maximum or last NaN)."""
    best = xp.zeros(at.pooled, dtype=x.dtype)
    place = xp.full(at.pooled, -1, dtype=xp.int32)
    for k, (_, those, pixels) in enumerate(at.pieces()):
        value, before = x[pixels], place[those]
        # Strictly larger: of equal ones the first counts. A NaN is unequal to itself and counts whenever it
        # comes.
        later = (before < 0) | (value > best[those]) | (value != value)
        best[those] = xp.where(later, value, best[those])
        place[those] = xp.where(later, xp.full((1,) * x.ndim, k, dtype=xp.int32), before)
    # A second round: the place of a window is certain only when all have been seen.
    for k, (_, those, pixels) in enumerate(at.pieces()):
        yield those, pixels, place[those] == k


@kernel("max_pool", cost=pool_cost)
def max_pool(x: Array, *, xp: Library = np, **attrs: Any) -> Array:
    """The largest element of every window; see `kernels.nn.max_pool.max_pool`."""
    return _maxima(x, slides(x.shape, **attrs), xp)


@kernel("max_pool_grad", cost=pool_cost)
@in_float32
def max_pool_grad(x: Array, dy: Array, *, xp: Library = np, **attrs: Any) -> Array:
    """Hands the gradient of every window to its first maximum; see `kernels.nn.max_pool.max_pool_grad`."""
    at = slides(x.shape, **attrs)
    check_gradient(dy.shape, at.pooled)
    out = xp.zeros(x.shape, dtype=dy.dtype)
    nothing = xp.zeros((1,) * x.ndim, dtype=dy.dtype)
    for those, pixels, first in _first_maxima(x, at, xp):
        out[pixels] = out[pixels] + xp.where(first, dy[those], nothing)
    return out


@kernel("max_pool_gather", cost=pool_cost)
def max_pool_gather(x: Array, values: Array, *, xp: Library = np, **attrs: Any) -> Array:
    """Takes from `values` where `x` has its first maxima; see `kernels.nn.max_pool.max_pool_gather`."""
    at = slides(x.shape, **attrs)
    check_gradient(values.shape, x.shape)
    out = xp.zeros(at.pooled, dtype=values.dtype)
    for those, pixels, first in _first_maxima(x, at, xp):
        out[those] = xp.where(first, values[pixels], out[those])
    return out


# ------------------------------------------------------------------------ where the maxima lie


Spans = tuple[Array, Array, int]
"""The windows along an axis: the first place of each, how many it has, and how far these lie apart."""


def first_places(x: Array, windows: Sequence[Spans], xp: Library) -> Array:
    """The place in its plane of the first maximum, or last NaN, of each window.

    `windows` says for each spatial axis where they lie, none of them empty. Axis by
    axis, the last first: the first maximum of each row, then the first row with the largest; the last
    NaN likewise. So the passes are the sum of a window's sizes, not their product.

    Shapes:  x (n, h, w, c) -> (n, rows, columns, c)
    Dtypes:  integers or floating -> int64
    """
    best, where = x, None
    steps = [math.prod(x.shape[axis + 1 : -1]) for axis in range(1, x.ndim - 1)]
    # The last axis first, so that among equal rows the first one wins.
    for axis in range(len(windows), 0, -1):
        best, where = _first_along(best, where, axis, windows[axis - 1], steps[axis - 1], xp)
    assert where is not None
    return where


def _first_along(
    x: Array, where: Array | None, axis: int, windows: Spans, step: int, xp: Library
) -> tuple[Array, Array]:
    """The first maximum along one axis, and its place: what `where` says there, moved by the axis' own."""
    best, place = x, xp.zeros((1,) * x.ndim, dtype=xp.int64)
    starts, sizes, apart = windows
    for k in range(int(sizes.max(initial=0))):
        index = xp.asarray(starts + np.minimum(k, sizes - 1) * apart)  # the last one again: no change
        value = xp.take(x, index, axis=axis)
        # Places are counted in the plane: this axis' index times the elements of the axes behind it.
        at = (index * step).reshape((-1, *(1,) * (x.ndim - axis - 1)))
        if where is not None:
            at = at + xp.take(where, index, axis=axis)
        if not k:
            best, place = value, at
            continue
        later = (value > best) | (value != value)  # NaN is the largest, and the last of them counts
        best, place = xp.where(later, value, best), xp.where(later, at, place)
    return best, xp.broadcast_to(place, best.shape)


@kernel("max_pool_places", cost=pool_cost)
def max_pool_places(x: Array, *, xp: Library = np, **attrs: Any) -> Array:
    """Where `max_pool` finds the element of each window, counted along the rows of its plane."""
    at = slides(x.shape, **attrs)
    # Without windows along an axis no step would shorten it.
    if 0 in at.pooled:
        return xp.zeros(at.pooled, dtype=xp.int64)
    wide = x.astype(np.float32) if x.dtype.itemsize == 2 else x
    return first_places(wide, [_spans(a) for a in at.axes], xp)


def _spans(at: SlidingWindow) -> Spans:
    first, sizes = at.lying()
    # Where windows hang over, they begin at their first place that lies on the image.
    starts = np.arange(at.count) * at.stride - at.before + first * at.dilation
    return starts.astype(np.int64), sizes.astype(np.int64), at.dilation


# --------------------------------------------------------------------------------------- means


def mean_cost(x: Array, *others: Array, size: tuple[int, ...], **attrs: Any) -> float:
    """An addition for each place of a window along each axis."""
    return float(x.size * sum(size))


def _slice(axis: int, ndim: int, part: builtins.slice) -> tuple[builtins.slice, ...]:
    return (*(builtins.slice(None),) * axis, part, *(builtins.slice(None),) * (ndim - axis - 1))


def _sum_windows(x: Array, axis: int, at: SlidingWindow, xp: Library) -> Array:
    """The sum of each window along `axis`."""
    out = xp.zeros((*x.shape[:axis], at.count, *x.shape[axis + 1 :]), dtype=x.dtype)
    for k in at.reaching():
        windows, places = at.overlap(k)
        # A place may lie on the image for no window.
        if windows.start != windows.stop:
            those = _slice(axis, x.ndim, windows)
            out[those] += x[_slice(axis, x.ndim, places)]
    return out


def _spread_windows(dy: Array, axis: int, at: SlidingWindow, xp: Library) -> Array:
    """Each window's element added to all of its places along `axis`: the transpose of `_sum_windows`."""
    out = xp.zeros((*dy.shape[:axis], at.size, *dy.shape[axis + 1 :]), dtype=dy.dtype)
    for k in at.reaching():
        windows, places = at.overlap(k)
        if windows.start != windows.stop:
            those = _slice(axis, dy.ndim, places)
            out[those] += dy[_slice(axis, dy.ndim, windows)]
    return out


@cache_by_size(1 << 24)
def _elements(at: Windows, margin: bool) -> Array:
    """How many elements each window is divided by, with axes for images and channels, or all of them, 0-d."""
    # Counted by axis: the number of elements of a window is their product.
    counts = [np.asarray(a.counts(margin), np.float64) for a in at.axes]
    # One number for all windows, when none hangs over: a scalar divides faster than an array.
    if all(c.size and (c == c[0]).all() for c in counts):
        return np.asarray(math.prod(float(c[0]) for c in counts))
    return reduce(np.multiply.outer, counts)[None, ..., None]


def _divide(x: Array, at: Windows, count_include_pad: bool, divisor: int | None, xp: Library) -> Array:
    """The sums of windows over what they are divided by."""
    if divisor is not None:
        return x if divisor == 1 else x / x.dtype.type(divisor)
    counts = _elements(at, count_include_pad)
    # As a scalar of x's dtype, which widens nothing.
    return x / (xp.asarray(counts).astype(x.dtype) if counts.ndim else x.dtype.type(counts))


@kernel("avg_pool", cost=mean_cost)
@in_float32
def avg_pool(
    x: Array, *, count_include_pad: bool, divisor: int | None, xp: Library = np, **attrs: Any
) -> Array:
    """The mean of every window, channel by channel.

    Shapes:  x (n, h, w, c) -> (n, rows, columns, c); see `windows.sliding_window`.
    Dtypes:  floating.
    Cost:    an addition for each place of a window along each axis: windows are summed axis by axis.
    Raises:  SpecError when an image turns out smaller than a window.
    """
    at = slides(x.shape, **attrs)
    for axis, one in enumerate(at.axes, 1):
        # Sums of sums: a window of 3 × 3 takes 6 additions and not 9.
        x = _sum_windows(x, axis, one, xp)
    return _divide(x, at, count_include_pad, divisor, xp)


@kernel("avg_pool_grad", cost=mean_cost)
@in_float32
def avg_pool_grad(
    dy: Array, x: Array, *, count_include_pad: bool, divisor: int | None, xp: Library = np, **attrs: Any
) -> Array:
    """Hands the gradient of every window to its elements, in equal shares.

    Shapes:  dy (n, rows, columns, c), x (n, h, w, c), which counts for nothing else -> that of x.
    Dtypes:  floating, the same for both.
    """
    at = slides(x.shape, **attrs)
    check_gradient(dy.shape, at.pooled)
    # Divided first: the elements are fewer here than after they are spread.
    dy = _divide(dy, at, count_include_pad, divisor, xp)
    for axis in range(len(at.axes), 0, -1):
        dy = _spread_windows(dy, axis, at.axes[axis - 1], xp)
    return dy
