"""Kernels of `ops.math.rounding`: nearly all of them are functions of the library."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from actorflow.kernels.definition.precision import in_float32
from actorflow.kernels.definition.registry import kernel, register_named
from actorflow.values.arrays import Array, Library

for _op in ("ceil", "trunc", "isnan", "isinf", "isfinite", "signbit", "copysign", "nextafter"):
    register_named(_op)


@kernel("round")
@in_float32
def round(x: Array, *, xp: Library = np) -> Array:
    """The nearest whole number, the even one of two."""
    return xp.round(x)


kernel("round", only="numpy")(np.rint)  # which numpy's round calls from Python


@kernel("nan_to_num")
def nan_to_num(
    x: Array, *, nan: float, posinf: float | None, neginf: float | None, xp: Library = np
) -> Array:
    """`x` with NaN and infinities replaced, by the ends of its dtype where None is given."""
    # numpy's finfo does not know bfloat16.
    widest = ml_dtypes.finfo if x.dtype.kind == "V" else xp.finfo
    above = float(widest(x.dtype).max) if posinf is None else posinf
    below = float(widest(x.dtype).min) if neginf is None else neginf
    # Before anything is replaced: a NaN turned into an infinity would count.
    infinite = xp.isinf(x)
    # As scalars of x's dtype: Python's float would widen halves.
    for where, value in ((xp.isnan(x), nan), (infinite & (x > 0), above), (infinite & (x < 0), below)):
        x = xp.where(where, x.dtype.type(value), x)
    return x
