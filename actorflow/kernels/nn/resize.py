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

It has not run on a card yet, only on numpy, `array_api_strict` and a stand-in for CuPy.
"""

from __future__ import annotations

from collections.abc import Callable
from math import floor, isfinite
from typing import Any

import numpy as np

from actorflow.errors import SpecError
from actorflow.kernels.array.shape import shape_in
from actorflow.kernels.definition.axis_maps import AxisMap, through
from actorflow.kernels.definition.precision import in_float32
from actorflow.kernels.definition.registry import kernel
from actorflow.kernels.definition.size_cache import cache_by_size
from actorflow.values.arrays import Array, Library
from actorflow.values.conv_shapes import spatial
from actorflow.values.spec import show


def _coordinates(n: int, m: int, scale: float | None, mode: str) -> Array:
    """Where each of m elements lies on an axis of n; one rounding only where no factor was given."""
    # With a factor the length is a fraction, of which m is the whole part.
    length = m if scale is None else n * scale
    i = np.arange(m)
    if mode == "align_corners":
        # One element: there is no last one to align.
        return i * (n - 1) / (length - 1) if length > 1 else np.zeros(m)
    if mode == "asymmetric":
        return i * n / m if scale is None else i / scale
    if mode == "pytorch_half_pixel" and length == 1:
        return np.zeros(m)
    # In whole numbers until the division, so that a coordinate that is whole comes out whole.
    centre = ((2 * i + 1) * n - m) / (2 * m) if scale is None else (i + 0.5) / scale - 0.5
    if mode == "half_pixel_symmetric":
        return n / 2 * (1 - m / length) + centre
    return centre


_ROUND: dict[str, Callable[[Array], Array]] = {
    "floor": np.floor,
    "ceil": np.ceil,
    "prefer_floor": lambda c: np.ceil(c - 0.5),
    "prefer_ceil": lambda c: np.floor(c + 0.5),
}


def _linear(t: Array) -> Array:
    return np.maximum(0.0, 1 - np.abs(t))


def _cubic(t: Array, a: float) -> Array:
    t = np.abs(t)
    inner = ((a + 2) * t - (a + 3)) * t * t + 1
    outer = ((a * t - 5 * a) * t + 8 * a) * t - 4 * a
    return np.where(t <= 1, inner, np.where(t < 2, outer, 0.0))


@cache_by_size(1 << 26)
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
) -> AxisMap:
    """The map of one axis from n elements to m.

    Cost: some passes over all taps: 16,000 elements made 32,000 take 5 ms, one after the other 340 ms.
    """
    if not m:
        nothing = np.zeros(0, np.int64)
        return AxisMap.of(nothing, nothing, nothing, 0)
    # Only shrinking widens: enlarging passes nothing over.
    stretch = min(1.0, m / n if scale is None else scale) if antialias else 1.0
    reach = (2 if method == "cubic" else 1) / stretch
    # Beyond these an element is made of one end alone, wherever it lies.
    at = np.clip(_coordinates(n, m, scale, coordinates), -reach - 2, n + reach + 1)[:, None]
    if method == "nearest":
        places = np.clip(_ROUND[rounding](at), 0, n - 1).astype(np.int64)
        return AxisMap(places, np.ones(places.shape))
    # The taps that the kernel reaches, before the ends cut them.
    first, last = np.ceil(at - reach), np.floor(at + reach)

    def weights(places: Array) -> Array:
        t = (places - at) * stretch
        found = _cubic(t, cubic) if method == "cubic" else _linear(t)
        return np.where((places >= first) & (places <= last), found, 0.0)

    # As many columns for all elements; those that reach fewer have weights of 0.
    width = min(floor(2 * reach) + 1, n)
    # Moved inside, so that every column names an element that there is.
    places = np.clip(first, 0, n - width) + np.arange(width)
    found = weights(places)
    if not exclude_outside:  # elements beyond an end are the one at the end
        before, behind = max(0, -int(first.min(initial=0))), max(0, int(last.max(initial=0)) - n + 1)
        low, high = (np.sum(weights(end), axis=1) for end in (np.arange(-before, 0.0), n + np.arange(behind)))
        # INVARIANT: the first and the last column are where the ends lie, where they are reached at all.
        found[:, 0] += np.where(places[:, 0] == 0, low, 0.0)
        found[:, -1] += np.where(places[:, -1] == n - 1, high, 0.0)
    if antialias or exclude_outside:
        # Widened or cut weights do not sum up to 1.
        total = np.sum(found, axis=1, keepdims=True)
        end = np.clip(np.rint(at), 0, n - 1)  # of a coordinate so far out that nothing is left
        found = np.where(total != 0, found / np.where(total != 0, total, 1.0), places == end)
    elements = np.repeat(np.arange(m), width)
    return AxisMap.of(elements, places.astype(np.int64).reshape(-1), found.reshape(-1), m)


@cache_by_size(1 << 26)
def _back(n: int, *how: Any) -> AxisMap:
    """The transpose of `_taps`."""
    return _taps(n, *how).transposed(n)


_HOW = ("method", "coordinates", "rounding", "antialias", "exclude_outside", "cubic")


def _axes(
    x: tuple[int, ...], size: tuple[int, ...] | None, scale: tuple[float, ...] | None, **how: Any
) -> list[tuple[int, tuple[Any, ...]]]:
    """The spatial axes of images of shape x, those first that leave the fewest elements, and how."""
    spatial(x, len(size or scale or ()))
    found: list[tuple[float, int, tuple[Any, ...]]] = []
    for axis, n in enumerate(x[1:-1]):
        factor = None if scale is None else scale[axis]
        # A product of integers and a factor: ONNX rounds it down.
        m = size[axis] if size is not None else floor(n * factor)  # type: ignore[operator]
        if not n and m:
            message = f"resize has no element to take along an empty axis, got {show(x)}"
            raise SpecError(message)
        # The axis that shrinks the most comes first, so that the others have less to do.
        found.append((m / max(n, 1), axis + 1, (n, m, factor, *(how[name] for name in _HOW))))
    return [(axis, key) for _, axis, key in sorted(found, key=lambda f: f[:2])]


def _computed_attrs(x: tuple[int, ...], computed: tuple[Array, ...], attrs: dict[str, Any]) -> dict[str, Any]:
    """The attributes with the size and scale that were computed in the step: integers, floating numbers.

    Raises:
        SpecError: for a number of them that is not that of the spatial axes, and a size or scale that
            none can have.
    """
    found = dict(attrs)
    for given in computed:
        what = "size" if given.dtype.kind in "iu" else "scale"
        numbers = shape_in(given) if what == "size" else tuple(float(given[i]) for i in range(given.shape[0]))
        if len(numbers) != len(x) - 2:
            message = f"resize takes a {what} for each spatial axis of {show(x)}, got {numbers}"
            raise SpecError(message)
        if not all(n >= 0 if what == "size" else n > 0 and isfinite(n) for n in numbers):
            least = "not negative" if what == "size" else "positive"
            message = f"a {what} must be {least}, got {numbers} for images {show(x)}"
            raise SpecError(message)
        found[what] = numbers
    return found


def _cost(x: Array, *others: Array, **_: Any) -> float:
    return 16.0 * float(max(a.size for a in (x, *others)))


@kernel("resize", cost=_cost)
def resize(x: Array, *computed: Array, method: str, xp: Library = np, **attrs: Any) -> Array:
    """Images of another size; see `ops.nn.resize.resize`.

    Shapes:  x (n, h, w, c) -> (n, *size, c)
    Dtypes:  floating; any for "nearest"
    Cost:    along each axis a pass over the result for every element that one is made of.
    Raises:  SpecError when an axis turns out empty, or what was computed is no size or scale.
    """
    if computed:
        attrs = _computed_attrs(x.shape, computed, attrs)
    return (
        # Nearest takes elements as they are, of any dtype; the others weigh them, halves in float32.
        _resize(x, method=method, xp=xp, **attrs) if method != "nearest" else _move_axis(x, xp, method, attrs)
    )


@in_float32
def _resize(x: Array, *, method: str, xp: Library, **attrs: Any) -> Array:
    return _move_axis(x, xp, method, attrs)


def _move_axis(x: Array, xp: Library, method: str, attrs: dict[str, Any]) -> Array:
    for axis, key in _axes(x.shape, method=method, **attrs):
        x = through(x, axis, _taps(*key), xp)
    return x


@kernel("resize_grad", cost=_cost)
@in_float32
def resize_grad(dy: Array, x: Array, *computed: Array, xp: Library = np, **attrs: Any) -> Array:
    """The transpose of `resize`: each element of x gets what it gave, times the weight it gave it with.

    Shapes:  dy that of resize(x), x (n, h, w, c), which counts for nothing else -> that of x
    Dtypes:  floating, the same for both
    """
    axes = _axes(x.shape, **(_computed_attrs(x.shape, computed, attrs) if computed else attrs))
    wanted = list(x.shape)
    for axis, (_, m, *_how) in axes:
        wanted[axis] = m
    if dy.shape != tuple(wanted):
        message = f"the gradient of an output {show(tuple(wanted))} has its shape, got {show(dy.shape)}"
        raise SpecError(message)
    # Transposed, and so in reverse.
    for axis, key in reversed(axes):
        dy = through(dy, axis, _back(*key), xp)
    return dy
