"""Norms of arrays that neither overflow nor underflow, and arrays scaled down to one."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from actorflow.optim.elementwise import accumulator
from actorflow.values.arrays import Array

_SMALL, _LARGE = 1e-30, 1e30
"""Between these a factor is a normal number in float32, and a norm's square one in float64."""


@dataclass(frozen=True, slots=True)
class Norm:
    """The root of a sum of squares, as `scale * root`: the product may be more than a float holds.

    Attributes:
        scale: 1.0, or the largest magnitude of all elements where the squares would leave the range.
        root: The norm of the elements over the scale, summed in float64; NaN or infinity when one is.
    """

    scale: float
    root: float

    def within(self, limit: float) -> bool:
        """Tells whether the norm is at most `limit`; NaN is not."""
        # Divided and not multiplied: scale times root may be more than a float holds.
        return self.root <= limit / self.scale

    def over(self, other: Norm) -> float:
        """Returns this norm over another, which is not 0."""
        return self.scale / other.scale * (self.root / other.root)


def norm(arrays: Iterable[Array]) -> Norm:
    """Returns the norm of all elements of all arrays."""
    found = tuple(a for a in arrays if a.size)
    # Most need this one pass; what leaves the range is found by the result.
    with np.errstate(over="ignore", under="ignore"):
        root = math.sqrt(sum(float(np.sum(np.square(a, dtype=np.float64))) for a in found))
    # Outside of these squares have lost digits, or all of them.
    if _SMALL < root < _LARGE:
        return Norm(1.0, root)
    wide = (np.abs(a.astype(accumulator(a), copy=False)) for a in found)  # bfloat16's max would skip NaN
    largest = float(np.max([np.max(a) for a in wide])) if found else 0.0
    # Zeros, or NaN and infinity, which the caller tells by the root.
    if largest == 0 or not math.isfinite(largest):
        return Norm(1.0, largest)
    # At most 1 each: their squares fit.
    over = (np.divide(a, largest, dtype=np.float64) for a in found)
    with np.errstate(under="ignore"):
        return Norm(largest, math.sqrt(sum(float(np.sum(np.square(a))) for a in over)))


def scale_down(g: Array, length: Norm, limit: float) -> Array:
    """Returns `g * limit / norm` in a new array of its dtype; NaN as a whole when the norm is not finite.

    Half precision is multiplied in float32, and rounded once.
    """
    wide, root = accumulator(g), length.root
    # Not hidden: the whole gradient is wrong where one element is.
    if not math.isfinite(root):
        return np.full(g.shape, math.nan, g.dtype)
    factor = limit / root
    # The usual case: the factor is a normal number of the wide dtype.
    if length.scale == 1.0 and factor > _SMALL:
        out = np.empty(g.shape, wide)
        return np.multiply(g, factor, dtype=wide, out=out).astype(g.dtype, copy=False)
    # Divided first, then multiplied: the quotient of both may be too small a number.
    out = np.empty(g.shape, np.float64)
    small = np.divide(g, length.scale if length.scale != 1.0 else root, dtype=np.float64, out=out)
    np.multiply(small, factor if length.scale != 1.0 else limit, out=small)
    return small.astype(g.dtype)
