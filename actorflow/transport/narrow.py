"""float32 as bfloat16 and back: half the bytes, for links where the rest does not matter.

The lower 16 bits of each number are cut off, and come back as zeros, as section 5.5 of TensorFlow's
white paper has it. So for normal numbers |x - x'| / |x| < 2**-7, x' is never further from 0 than x, and
narrowing x' again changes nothing. Infinities stay; a NaN stays one, though it may be another.
"""

from __future__ import annotations

import numpy as np

from actorflow.arrays import Array

NARROW_BYTES = 4096
"""Bytes from which an array is worth it: below, a message costs the same whatever its size."""

FLOAT32 = np.dtype("<f4")
HALF = np.dtype("<u2")

_MAGNITUDE, _INFINITY, _QUIET = 0x7FFF, 0x7F80, 0x0040


def narrowed(array: Array) -> Array:
    """Returns the upper halves of an array of float32, in C order and one dimension: a copy."""
    halves = array.ravel().view(HALF)
    upper = np.ascontiguousarray(halves[1::2])
    ends = (upper & _MAGNITUDE) == _INFINITY
    if ends.any():  # a NaN whose payload is cut off would be an infinity
        upper[ends & (halves[::2] != 0)] |= _QUIET
    return upper


def widened(upper: Array) -> Array:
    """Returns the float32 array of one dimension whose upper halves these are: a copy."""
    made = np.zeros(2 * len(upper), HALF)
    made[1::2] = upper
    return made.view(FLOAT32)
