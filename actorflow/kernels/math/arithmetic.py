"""Kernels of `ops.math.arithmetic`: the library's functions where it has them, else a few array calls."""

from __future__ import annotations

import numpy as np

from actorflow.kernels.definition.precision import in_float32
from actorflow.kernels.definition.registry import kernel, register_named
from actorflow.values.arrays import Array, Library

for _op in ("floor_divide", "remainder", "fmod", "hypot", "reciprocal"):
    register_named(_op)


@kernel("floor_divide", only="cupy")
@in_float32
def floor_divide_of_cupy(a: Array, b: Array, *, xp: Library = np) -> Array:
    """a/b rounded down, as numpy has it: CuPy rounds a/b first, so that its 1 // 0.1 is 10 and not 9."""
    # Integers are exact in CuPy.
    if a.dtype.kind in "iu":
        return xp.floor_divide(a, b)
    # The rest that fmod gives is exact, so that what is left of a is a multiple of b up to rounding.
    rest = xp.fmod(a, b)
    # rint takes off the rounding of the division; one less where the rest belongs below.
    whole = xp.rint((a - rest) / b - _is_below(rest, b))
    # b = 0 keeps a/b, infinite or NaN, and a zero has the sign of the quotient, as in numpy.
    return xp.where(b == 0, a / b, xp.where(whole == 0, xp.copysign(whole, a / b), whole))


@kernel("remainder", only="cupy")
@in_float32
def remainder_of_cupy(a: Array, b: Array, *, xp: Library = np) -> Array:
    """What rounding a/b down leaves, exact as in numpy: CuPy takes floor(a/b)·b from a."""
    if a.dtype.kind in "iu":
        return xp.remainder(a, b)
    rest = xp.fmod(a, b)
    # fmod has the sign of a; Python's rest, and numpy's, that of b.
    rest = xp.where(_is_below(rest, b), rest + b, rest)
    # A zero too has the sign of b.
    return xp.where(rest == 0, xp.copysign(rest, b), rest)


def _is_below(rest: Array, b: Array) -> Array:
    """Whether the rest of a division rounded towards zero is one of a division rounded up."""
    return (rest != 0) & ((rest < 0) != (b < 0))


@kernel("positive")
def positive(x: Array) -> Array:
    """`x` itself."""
    return x


@kernel("squared_difference")
@in_float32
def squared_difference(a: Array, b: Array, *, xp: Library = np) -> Array:
    """(a - b)², elementwise."""
    return xp.square(a - b)


@kernel("multiply_no_nan")
def multiply_no_nan(a: Array, b: Array, *, xp: Library = np) -> Array:
    """a·b, but 0 where b is 0."""
    # inf · 0 and NaN · 0 are computed, and dropped by the choice.
    product = a * b
    return xp.where(b == 0, xp.zeros_like(product), product)


@kernel("divide_no_nan")
def divide_no_nan(a: Array, b: Array, *, xp: Library = np) -> Array:
    """a/b, but 0 where b is 0."""
    # As above: x / 0 is computed and dropped.
    quotient = a / b
    return xp.where(b == 0, xp.zeros_like(quotient), quotient)


@kernel("clip")
def clip(x: Array, low: Array, high: Array, *, xp: Library = np) -> Array:
    """`x` between the bounds; the upper one wins where it is the lower one, NaN stays NaN."""
    # ORDER: the upper bound last, so that it wins. maximum and minimum pass NaN on.
    return xp.minimum(xp.maximum(x, low), high)


@kernel("lerp")
@in_float32
def lerp(a: Array, b: Array, t: Array, *, xp: Library = np) -> Array:
    """The mix a + t·(b - a), counted from the nearer end, so that both ends are exact."""
    way = b - a
    # At t = 1 the first form would give a + (b - a), which rounding may keep from b.
    return xp.where(t < 0.5, a + t * way, b - (1 - t) * way)


@kernel("rsqrt")
@in_float32
def rsqrt(x: Array, *, xp: Library = np) -> Array:
    """1/√x, elementwise, rounded twice."""
    return 1 / xp.sqrt(x)
