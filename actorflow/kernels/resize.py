"""Resizing images, axis by axis: which elements each one of the result is made of, and their weights.

A coordinate says where element i of the result lies on the axis that it is made of, of n elements
resized to m by s = m / n. A factor that was given is s itself, and m then n * s, whole or not:

    half_pixel            (i + 1/2) / s - 1/2: the ends of both axes meet
    pytorch_half_pixel    the same, but 0 for m = 1
    half_pixel_symmetric  the same, moved so that the middles meet where m is no whole number
    align_corners         i * (n - 1) / (m - 1), 0 for m ≤ 1: the first and last elements meet
    asymmetric            i / s: the first elements meet

"nearest" takes the element that it rounds to; "linear" and "cubic" weigh the 2 or 4 around it, those
beyond an end being the element at the end. Cubic weights are those of Keys' convolution with `cubic`
as its coefficient. `antialias` widens the weights by 1/s where s < 1, so that no element is passed over.
`exclude_outside` leaves elements beyond the ends out, and divides by the sum of the weights left.

Source: R. Keys, Cubic convolution interpolation for digital image processing, IEEE Transactions on
Acoustics, Speech and Signal Processing 29 (1981); the names are those of ONNX's Resize.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import ceil, floor
from typing import Any

import numpy as np

from actorflow.arrays import Array, Library
from actorflow.errors import SpecError
from actorflow.images import spatial
from actorflow.kernels.precision import in_float32
from actorflow.kernels.registry import kernel
from actorflow.kernels.taps import Taps, back, through
from actorflow.spec import show


def _coordinate(i: int, n: int, m: int, scale: float | None, mode: str) -> float:
    """Where element i of m lies on an axis of n; one rounding only where no factor was given."""
    length = m if scale is None else n * scale
    if mode == "align_corners":
        return i * (n - 1) / (length - 1) if i and length > 1 else 0.0
    if mode == "asymmetric":
        return i * n / m if scale is None else i / scale
    if mode == "pytorch_half_pixel" and length == 1:
        return 0.0
    centre = ((2 * i + 1) * n - m) / (2 * m) if scale is None else (i + 0.5) / scale - 0.5
    if mode == "half_pixel_symmetric":
        return n / 2 * (1 - m / length) + centre
    return centre


_ROUND: dict[str, Callable[[float], int]] = {
    "floor": floor,
    "ceil": ceil,
    "prefer_floor": lambda c: ceil(c - 0.5),
    "prefer_ceil": lambda c: floor(c + 0.5),
}


def _linear(t: float) -> float:
    return max(0.0, 1 - abs(t))


def _cubic(t: float, a: float) -> float:
    t = abs(t)
    if t <= 1:
        return ((a + 2) * t - (a + 3)) * t * t + 1
    return ((a * t - 5 * a) * t + 8 * a) * t - 4 * a if t < 2 else 0.0


@lru_cache(1024)
def _taps(
    n: int,
    m: int,
    scale: float | None,
    method: str,
    coordinates: str,
    rounding: str,
    antialias: bool,
    exclude_outside: bool,
    cubic: float,
) -> Taps:
    """The map of one axis from n elements to m."""
    rows: list[dict[int, float]] = []
    stretch = min(1.0, m / n if scale is None else scale) if antialias else 1.0
    reach = (2 if method == "cubic" else 1) / stretch
    for i in range(m):
        at = _coordinate(i, n, m, scale, coordinates)
        if method == "nearest":
            rows.append({min(max(_ROUND[rounding](at), 0), n - 1): 1.0})
            continue
        row: dict[int, float] = {}
        for place in range(ceil(at - reach), floor(at + reach) + 1):
            if exclude_outside and not 0 <= place < n:
                continue
            t = (place - at) * stretch
            inside = min(max(place, 0), n - 1)
            row[inside] = row.get(inside, 0.0) + (_cubic(t, cubic) if method == "cubic" else _linear(t))
        if antialias or exclude_outside:
            total = sum(row.values())
            end = min(max(round(at), 0), n - 1)  # of a coordinate so far out that nothing is left
            row = {place: weight / total for place, weight in row.items()} if total else {end: 1.0}
        rows.append(row)
    return Taps.of(rows, n)


def _axes(
    x: tuple[int, ...], size: tuple[int, ...] | None, scale: tuple[float, ...] | None, **how: Any
) -> list[tuple[int, Taps]]:
    """The maps of the spatial axes of images of shape x, those first that leave the fewest elements."""
    spatial(x, len(size or scale or ()))
    found: list[tuple[float, int, Taps]] = []
    for axis, n in enumerate(x[1:-1]):
        factor = None if scale is None else scale[axis]
        m = size[axis] if size is not None else floor(n * factor)  # type: ignore[operator]
        if not n and m:
            message = f"resize has no element to take along an empty axis, got {show(x)}"
            raise SpecError(message)
        found.append((m / max(n, 1), axis + 1, _taps(n, m, factor, **how)))
    return [(axis, taps) for _, axis, taps in sorted(found, key=lambda f: f[:2])]


def _cost(x: Array, *others: Array, **_: Any) -> float:
    return 16.0 * float(max(a.size for a in (x, *others)))


@kernel("resize", cost=_cost)
def resize(x: Array, *, method: str, xp: Library = np, **attrs: Any) -> Array:
    """Images of another size; see `ops.resize.resize`.

    Shapes:  x (n, h, w, c) -> (n, *size, c)
    Dtypes:  floating; any for "nearest"
    Cost:    along each axis a pass over the result for every element that one is made of.
    Raises:  SpecError when an axis turns out empty.
    """
    return _resized(x, method=method, xp=xp, **attrs) if method != "nearest" else _moved(x, xp, method, attrs)


@in_float32
def _resized(x: Array, *, method: str, xp: Library, **attrs: Any) -> Array:
    return _moved(x, xp, method, attrs)


def _moved(x: Array, xp: Library, method: str, attrs: dict[str, Any]) -> Array:
    for axis, taps in _axes(x.shape, method=method, **attrs):
        x = through(x, axis, taps, xp)
    return x


@kernel("resize_grad", cost=_cost)
@in_float32
def resize_grad(dy: Array, x: Array, *, xp: Library = np, **attrs: Any) -> Array:
    """The transpose of `resize`: each element of x gets what it gave, times the weight it gave it with.

    Shapes:  dy that of resize(x), x (n, h, w, c), which counts for nothing else -> that of x
    Dtypes:  floating, the same for both
    """
    axes = _axes(x.shape, **attrs)
    wanted = list(x.shape)
    for axis, taps in axes:
        wanted[axis] = taps.forth.places.shape[0]
    if dy.shape != tuple(wanted):
        message = f"the gradient of an output {show(tuple(wanted))} has its shape, got {show(dy.shape)}"
        raise SpecError(message)
    for axis, taps in reversed(axes):
        dy = back(dy, axis, taps, xp)
    return dy
