"""Kernels of `ops.math.bits`: functions of the library, but for shifts by more than there are bits."""

from __future__ import annotations

import numpy as np

from actorflow.kernels.definition.registry import kernel, register_named
from actorflow.values.arrays import Array, Library

for _op in ("logical_xor", "bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_invert"):
    register_named(_op)

# numpy says what a shift by a negative number or by all bits gives; C, and so a card, does not.
kernel("bitwise_left_shift", only="numpy")(np.left_shift)
kernel("bitwise_right_shift", only="numpy")(np.right_shift)


@kernel("bitwise_left_shift")
def bitwise_left_shift(a: Array, b: Array, *, xp: Library = np) -> Array:
    """The bits a << b, and 0 where b is no number of places that there are."""
    # Never by more than there are places: C leaves open what that gives.
    places, possible = _places(a, b, xp)
    moved = a << places
    # One place more than the last clears every bit.
    return xp.where(possible, moved, moved << xp.ones_like(b))


@kernel("bitwise_right_shift")
def bitwise_right_shift(a: Array, b: Array, *, xp: Library = np) -> Array:
    """The bits a >> b, and the sign alone, 0 or -1, where b is no number of places that there are."""
    places, possible = _places(a, b, xp)
    moved = a >> places
    # One place more than the last leaves the sign alone.
    return xp.where(possible, moved, moved >> xp.ones_like(b))


def _places(a: Array, b: Array, xp: Library) -> tuple[Array, Array]:
    """B where it is one of the places, else the last place, and whether it is one."""
    last = b.dtype.type(8 * a.dtype.itemsize - 1)
    # Of unsigned b too: the first comparison is true of all then.
    possible = (b >= 0) & (b <= last)
    return xp.where(possible, b, last), possible
