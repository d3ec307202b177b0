"""Kernels of `ops.math.complex`."""

from __future__ import annotations

import numpy as np

from actorflow.kernels.array.shape import view_cost
from actorflow.kernels.definition.registry import kernel, register_named
from actorflow.values.arrays import Array, Library

register_named("real", cost=view_cost)
register_named("imag", cost=view_cost)
register_named("conj")


@kernel("complex")
def complex(a: Array, b: Array, *, xp: Library = np) -> Array:
    """The number of the parts a and b; a + b·i would make NaN of an infinite b."""
    # Written part by part.
    a, b = xp.broadcast_arrays(a, b)
    made = xp.empty(a.shape, dtype=xp.complex64 if a.dtype.itemsize == 4 else xp.complex128)
    made.real = a
    made.imag = b
    return made
