"""Kernels of `ops.math.statistics`."""

from __future__ import annotations

import math

import numpy as np

from actorflow.kernels.array.shape import view_cost
from actorflow.kernels.definition.precision import in_float32, is_half
from actorflow.kernels.definition.registry import kernel
from actorflow.kernels.math.reduce import Axis, check_some, divisible, folded_size
from actorflow.values.arrays import Array, Library


@kernel("var")
@in_float32
def var(x: Array, *, axis: Axis, keepdims: bool, correction: float, xp: Library = np) -> Array:
    """The variance over `axis`, in two passes: the mean first. NaN or inf where n ≤ correction."""
    x = divisible(x)
    n = float(folded_size(x, axis))
    # With the axes kept the mean broadcasts against x.
    far = x - xp.sum(x, axis=axis, keepdims=True) / n if n else x
    total = xp.sum(far * far, axis=axis, keepdims=keepdims)
    # A correction above n makes the divisor 0, not negative: NaN or inf, and no negative variance.
    return total / xp.asarray(max(n - correction, 0.0), dtype=total.dtype)


@kernel("std")
@in_float32
def std(x: Array, *, axis: Axis, keepdims: bool, correction: float, xp: Library = np) -> Array:
    """The square root of the variance over `axis`."""
    return xp.sqrt(var(x, axis=axis, keepdims=keepdims, correction=correction, xp=xp))


@kernel("logsumexp")
@in_float32
def logsumexp(x: Array, *, axis: Axis, keepdims: bool, xp: Library = np) -> Array:
    """`log(sum(exp(x)))` over `axis`; exp is of x less its maximum, which keeps it in range."""
    # The logarithm of an empty sum, which is 0.
    if not folded_size(x, axis):
        return xp.full_like(xp.sum(x, axis=axis, keepdims=keepdims), -math.inf)
    # Other axes are empty: there is nothing to take a maximum of.
    if not x.size:
        return xp.sum(x, axis=axis, keepdims=keepdims)
    top = xp.max(x, axis=axis, keepdims=True)
    # An infinite maximum less itself is NaN; less 0 it is what it was.
    top = xp.where(xp.isfinite(top), top, xp.zeros_like(top))
    total = xp.log(xp.sum(xp.exp(x - top), axis=axis, keepdims=keepdims))
    return total + (top if keepdims else top.reshape(total.shape))


@kernel("vector_norm")
@in_float32
def vector_norm(x: Array, *, axis: Axis, keepdims: bool, ord: float, xp: Library = np) -> Array:
    """(Σ|x|^ord)^(1/ord) over `axis`; the extreme |x| for ±inf; how many are not 0 for 0."""
    size = xp.abs(x)
    if math.isinf(ord):
        check_some("vector_norm", x, axis)
        return (xp.max if ord > 0 else xp.min)(size, axis=axis, keepdims=keepdims)
    # The usual orders need no power.
    if ord == 0:
        return xp.sum((size != 0).astype(size.dtype), axis=axis, keepdims=keepdims)
    if ord == 1:
        return xp.sum(size, axis=axis, keepdims=keepdims)
    if ord == 2:
        return xp.sqrt(xp.sum(size * size, axis=axis, keepdims=keepdims))
    return xp.sum(size**ord, axis=axis, keepdims=keepdims) ** (1 / ord)


@kernel("quantile_positions", cost=view_cost)
def quantile_positions(x: Array, *, q: float, axis: int, xp: Library = np) -> tuple[Array, Array, Array]:
    """(below, above, how far from the one to the other) for quantile `q` of the size of `axis`, all 0-d.

    How far is float32 for halves.
    """
    check_some("quantile", x, axis)
    at = q * (x.shape[axis] - 1)
    low = math.floor(at)
    # The last element has nothing above it.
    high = min(low + 1, x.shape[axis] - 1)
    whole = (xp.asarray(i, dtype=xp.int64) for i in (low, high))
    return (*whole, xp.asarray(at - low, dtype=xp.float32 if is_half(x.dtype) else x.dtype))
