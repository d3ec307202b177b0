"""Kernels of `ops.nn.normalise`: one pass for the statistics, one for the values, on every library.

Two passes over the same elements never cancel: the mean is subtracted before anything is squared.
The mean that was subtracted was rounded, which for a large one is as much as the spread; so what is
left of it is measured again and subtracted as well.

Source: Chan, Golub, LeVeque, "Algorithms for computing the sample variance", The American
Statistician 37 (1983), the corrected two-pass algorithm.

It has not run on a card yet, only on numpy, `array_api_strict` and a stand-in for CuPy.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from actorflow.errors import SpecError
from actorflow.kernels.array.broadcast import sum_to
from actorflow.kernels.definition.registry import kernel
from actorflow.kernels.math.reduce import folded_size
from actorflow.values.arrays import Array, Library
from actorflow.values.spec import show


def normalise_cost(x: Array, *affine: Array, **_: Any) -> float:
    """Ten passes, in cache for the most part."""
    return 10.0 * float(x.size)


def wide(*arrays: Array) -> tuple[Array, ...]:
    """The arrays, halves among them as float32: sums of their squares would overflow."""
    return tuple(a.astype(np.float32) if a.dtype.itemsize == 2 else a for a in arrays)


def check_affine(x: Array, affine: Sequence[Array]) -> None:
    """Raises SpecError unless scale and offset, whose shapes may be known late, broadcast to x."""
    for given, what in zip(affine, ("scale", "offset"), strict=False):
        lead = x.ndim - given.ndim
        # Shapes are compared from the back, as broadcasting does.
        over = x.shape[lead:] if lead >= 0 else ()
        if lead < 0 or (
            given.shape != over and any(g not in (1, d) for g, d in zip(given.shape, over, strict=True))
        ):
            message = (
                f"the {what} of a normalisation must broadcast to x, "
                f"got {show(given.shape)} for x {show(x.shape)}"
            )
            raise SpecError(message)


@kernel("normalise", cost=normalise_cost)
def normalise(
    x: Array, *affine: Array, axis: tuple[int, ...] | None, epsilon: float, centre: bool, xp: Library = np
) -> tuple[Array, Array, Array]:
    """(values, mean, variance): `(x - mean) / sqrt(variance + epsilon)`, times scale, plus offset.

    Shapes:  x any, affine (scale, offset), as far as there are any, broadcast to it; the statistics
             are those of x with size 1 along `axis`.
    Dtypes:  floating; halves are computed in float32, and their statistics are float32.
    Cost:    ten passes; without `centre` the mean is 0 and five are saved. Statistics of none are NaN.
    """
    check_affine(x, affine)
    (far,) = wide(x)
    n = float(folded_size(far, axis))
    if not n:
        unknown = xp.full_like(xp.sum(far, axis=axis, keepdims=True), math.nan)
        return x, unknown, unknown
    mean = xp.sum(far, axis=axis, keepdims=True) / n
    if centre:
        far = far - mean
        # The mean was rounded: what it left is measured and taken off as well.
        rest = xp.sum(far, axis=axis, keepdims=True) / n
        mean, far = mean + rest, far - rest
    else:
        # The mean's shape is wanted, and its value not.
        mean = xp.zeros_like(mean)
    variance = xp.sum(far * far, axis=axis, keepdims=True) / n
    y = far / xp.sqrt(variance + epsilon)
    # Scale, then offset, as far as there are any.
    for part, join in zip(wide(*affine), (xp.multiply, xp.add), strict=False):
        y = join(y, part)
    return y.astype(x.dtype), mean, variance


@kernel("normalise_grad", cost=normalise_cost)
def normalise_grad(
    dy: Array,
    x: Array,
    mean: Array,
    variance: Array,
    *affine: Array,
    axis: tuple[int, ...] | None,
    epsilon: float,
    centre: bool,
    xp: Library = np,
) -> Array | tuple[Array, ...]:
    """The gradients of the values of `normalise` for x, scale and offset, as far as there are any.

    Shapes:  dy and x the same, the statistics broadcast to them -> those of x, scale and offset.
    Dtypes:  floating; halves are computed in float32.
    Cost:    ten passes.
    """
    check_affine(x, affine)
    far, g, *parts = wide(x, dy, *affine)
    n = float(max(folded_size(far, axis), 1))
    r = 1 / xp.sqrt(variance + epsilon)
    # From here on `far` is the normalised value.
    far = (far - mean) * r
    grads = []
    # ORDER: scale and offset before g is scaled, which their gradients do not see.
    if parts:
        grads.append(sum_to(g * far, parts[0], xp=xp).astype(x.dtype))
        if len(parts) > 1:
            grads.append(sum_to(g, parts[1], xp=xp).astype(x.dtype))
        g = g * parts[0]
    # Through the variance: the part of g along the value goes.
    dx = g - far * (xp.sum(g * far, axis=axis, keepdims=True) / n)
    # Through the mean: the part that is the same for all goes.
    if centre:
        dx = dx - xp.sum(g, axis=axis, keepdims=True) / n
    dx = (dx * r).astype(x.dtype)
    return (dx, *grads) if grads else dx
