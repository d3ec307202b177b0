"""Kernels of `ops.nn.activation`; halves are computed in float32."""

from __future__ import annotations

from math import pi, sqrt

import numpy as np

from actorflow.kernels.definition.precision import in_float32
from actorflow.kernels.definition.registry import elements, kernel
from actorflow.kernels.math.elementwise import sigmoid
from actorflow.kernels.math.special_erf import erfc
from actorflow.values.arrays import Array, Library


@kernel("leaky_relu")
@in_float32
def leaky_relu(x: Array, *, slope: float, xp: Library = np) -> Array:
    """The number x where it is positive, else slope·x: the larger of the two while the slope is at most 1.

    Choosing by a mask would branch on what nobody can predict: 388 µs for 65,536 float32 against 19.
    """
    if slope == 0:
        return xp.maximum(x, 0)  # infinity times 0 is NaN
    # With a slope above 1 it is the smaller of the two.
    return xp.maximum(x, x * slope) if slope <= 1 else xp.minimum(x, x * slope)


@kernel("hardtanh")
@in_float32
def hardtanh(x: Array, *, low: float, high: float, xp: Library = np) -> Array:
    """The number x kept between the two; NaN stays NaN."""
    return xp.clip(x, low, high)


@kernel("hardsigmoid")
@in_float32
def hardsigmoid(x: Array, *, slope: float, xp: Library = np) -> Array:
    """slope·x + 1/2, kept between 0 and 1."""
    return xp.clip(x * slope + 0.5, 0, 1)


@kernel("hardswish")
@in_float32
def hardswish(x: Array, *, xp: Library = np) -> Array:
    """The number x times (x/6 + 1/2 kept between 0 and 1)."""
    return x * xp.clip(x * (1 / 6) + 0.5, 0, 1)


@kernel("elu")
@in_float32
def elu(x: Array, *, alpha: float, scale: float, rate: float, xp: Library = np) -> Array:
    """scale·x where x > 0, else scale·alpha·(e^(rate·x) - 1).

    The sum of both, one of which is always 0: 82 µs for 65,536 float32 against 375 with a mask.
    """
    # Both are kept inside their half before anything grows: expm1 of a large x would overflow.
    return xp.maximum(x, 0) * scale + xp.expm1(xp.minimum(x, 0) * rate) * (scale * alpha)


@kernel("silu")
@in_float32
def silu(x: Array, *, xp: Library = np) -> Array:
    """x·sigmoid x."""
    return x * sigmoid(x, xp=xp)


@kernel("softplus")
@in_float32
def softplus(x: Array, *, xp: Library = np) -> Array:
    """log(1 + e^x) as max(x, 0) + log(1 + e^-|x|)."""
    # e^-|x| is at most 1 and overflows nowhere; log1p keeps the digits of a tiny one.
    return xp.maximum(x, 0) + xp.log1p(xp.exp(-xp.abs(x)))


@kernel("log_sigmoid")
@in_float32
def log_sigmoid(x: Array, *, xp: Library = np) -> Array:
    """-log(1 + e^-x) as min(x, 0) - log(1 + e^-|x|)."""
    return xp.minimum(x, 0) - xp.log1p(xp.exp(-xp.abs(x)))


@kernel("softsign")
@in_float32
def softsign(x: Array, *, xp: Library = np) -> Array:
    """x/(1 + |x|)."""
    return x / (1 + xp.abs(x))


@kernel("mish")
@in_float32
def mish(x: Array, *, xp: Library = np) -> Array:
    """x·tanh(softplus x)."""
    return x * xp.tanh(softplus(x, xp=xp))


def gelu_cost(x: Array, *, approximate: bool) -> float:
    """Operations: a tanh, or an erfc."""
    return (10 if approximate else 40) * elements(x)


@kernel("gelu", cost=gelu_cost)
@in_float32
def gelu(x: Array, *, approximate: bool, xp: Library = np) -> Array:
    """x·Φ(x); the tail of Φ from erfc, so that it keeps its digits."""
    if approximate:
        return x * 0.5 * (1 + xp.tanh(sqrt(2 / pi) * (x + 0.044715 * x * x * x)))
    return x * 0.5 * erfc(x * -sqrt(0.5), xp=xp)


@kernel("gelu", only="cupy", cost=gelu_cost)
@in_float32
def gelu_of_cupy(x: Array, *, approximate: bool) -> Array:
    """x·Φ(x), with CuPy's erfc, which is one call."""
    import cupy
    from cupyx.scipy import special

    if approximate:
        return gelu(x, approximate=True, xp=cupy)
    return x * 0.5 * special.erfc(x * -sqrt(0.5))
