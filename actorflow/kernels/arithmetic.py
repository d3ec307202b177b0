"""Kernels of `ops.arithmetic`: the library's functions where it has them, else a few array calls."""

from __future__ import annotations

import numpy as np

from actorflow.arrays import Array, Library
from actorflow.kernels.precision import in_float32
from actorflow.kernels.registry import kernel, named

for _op in ("floor_divide", "remainder", "fmod", "hypot", "reciprocal"):
    named(_op)


@kernel("positive")
def positive(x: Array) -> Array:
    """`x` itself."""
    return x


@kernel("squared_difference")
def squared_difference(a: Array, b: Array, *, xp: Library = np) -> Array:
    """(a - b)², elementwise."""
    return xp.square(a - b)


@kernel("multiply_no_nan")
def multiply_no_nan(a: Array, b: Array, *, xp: Library = np) -> Array:
    """a·b, but 0 where b is 0."""
    product = a * b
    return xp.where(b == 0, xp.zeros_like(product), product)


@kernel("divide_no_nan")
def divide_no_nan(a: Array, b: Array, *, xp: Library = np) -> Array:
    """a/b, but 0 where b is 0."""
    quotient = a / b
    return xp.where(b == 0, xp.zeros_like(quotient), quotient)


@kernel("clip")
def clip(x: Array, low: Array, high: Array, *, xp: Library = np) -> Array:
    """`x` between the bounds; the upper one wins where it is the lower one, NaN stays NaN."""
    return xp.minimum(xp.maximum(x, low), high)


@kernel("lerp")
@in_float32
def lerp(a: Array, b: Array, t: Array, *, xp: Library = np) -> Array:
    """A + t·(b - a), counted from the nearer end, so that both ends are exact."""
    way = b - a
    return xp.where(t < 0.5, a + t * way, b - (1 - t) * way)


@kernel("rsqrt")
@in_float32
def rsqrt(x: Array, *, xp: Library = np) -> Array:
    """1/√x, elementwise, rounded twice."""
    return 1 / xp.sqrt(x)
