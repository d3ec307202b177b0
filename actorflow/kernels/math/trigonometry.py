"""Kernels of `ops.math.trigonometry`: functions of the library, but for the cardinal sine."""

from __future__ import annotations

from math import pi

import numpy as np

from actorflow.kernels.definition.precision import in_float32
from actorflow.kernels.definition.registry import kernel, register_named
from actorflow.values.arrays import Array, Library

for _op in (
    "sin", "cos", "tan", "asin", "acos", "atan", "atan2", "sinh", "cosh", "asinh", "acosh", "atanh",
):  # fmt: skip
    register_named(_op)


@kernel("sinc")
@in_float32
def sinc(x: Array, *, xp: Library = np) -> Array:
    """sin(πx)/(πx), 1 at 0."""
    angle = x * pi
    # 0/0 is computed and dropped.
    return xp.where(x == 0, 1, xp.sin(angle) / angle)
