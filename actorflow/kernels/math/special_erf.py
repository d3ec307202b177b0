"""Kernels of the error function of `ops.math.special`, of array functions; CuPy has its own.

Sources: W. J. Cody, Rational Chebyshev approximations for the error function, Mathematics of
Computation 23 (1969); M. J. Wichura, Algorithm AS 241: the percentage points of the normal
distribution, Applied Statistics 37 (1988). Theirs are the coefficients. An array may hold numbers
of every range, so that all are computed, each from an argument kept inside its own.
"""

from __future__ import annotations

from math import pi, sqrt
from typing import Any

import numpy as np

from actorflow.kernels.definition.blockwise import blockwise
from actorflow.kernels.definition.cupy_specials import register_cupy_special
from actorflow.kernels.definition.precision import in_float32
from actorflow.kernels.definition.registry import elements, kernel
from actorflow.kernels.math.special_polynomial import Coefficients, horner
from actorflow.values.arrays import Array, Library

Ratio = tuple[Coefficients, Coefficients]

# erf(x)/x in x², |x| ≤ 0.46875
_INNER: Ratio = (
    (1.85777706184603153e-1, 3.16112374387056560, 1.13864154151050156e2, 3.77485237685302021e2,
     3.20937758913846947e3),
    (1.0, 2.36012909523441209e1, 2.44024637934444173e2, 1.28261652607737228e3, 2.84423683343917062e3),
)  # fmt: skip
# e^(y²)·erfc(y) in y, 0.46875 ≤ y ≤ 4
_MIDDLE: Ratio = (
    (2.15311535474403846e-8, 5.64188496988670089e-1, 8.88314979438837594, 6.61191906371416295e1,
     2.98635138197400131e2, 8.81952221241769090e2, 1.71204761263407058e3, 2.05107837782607147e3,
     1.23033935479799725e3),
    (1.0, 1.57449261107098347e1, 1.17693950891312499e2, 5.37181101862009858e2, 1.62138957456669019e3,
     3.29079923573345963e3, 4.36261909014324716e3, 3.43936767414372164e3, 1.23033935480374942e3),
)  # fmt: skip
# y²·(1/√π - y·e^(y²)·erfc(y)) in 1/y², y ≥ 4
_OUTER: Ratio = (
    (1.63153871373020978e-2, 3.05326634961232344e-1, 3.60344899949804439e-1, 1.25781726111229246e-1,
     1.60837851487422766e-2, 6.58749161529837803e-4),
    (1.0, 2.56852019228982242, 1.87295284992346725, 5.27905102951428412e-1, 6.05183413124413191e-2,
     2.33520497626869185e-3),
)  # fmt: skip
# erfinv(x)·√2/(x/2) in 0.180625 - x²/4, |x| ≤ 0.85
_CENTRAL: Ratio = (
    (2.5090809287301226727e+3, 3.3430575583588128105e+4, 6.7265770927008700853e+4, 4.5921953931549871457e+4,
     1.3731693765509461125e+4, 1.9715909503065514427e+3, 1.3314166789178437745e+2, 3.3871328727963666080e+0),
    (5.2264952788528545610e+3, 2.8729085735721942674e+4, 3.9307895800092710610e+4, 2.1213794301586595867e+4,
     5.3941960214247511077e+3, 6.8718700749205790830e+2, 4.2313330701600911252e+1, 1.0),
)  # fmt: skip
# |erfinv(x)|·√2 in √(-log((1 - |x|)/2)) - 1.6, up to a root of 5
_TAIL: Ratio = (
    (7.74545014278341407640e-4, 2.27238449892691845833e-2, 2.41780725177450611770e-1,
     1.27045825245236838258e+0, 3.64784832476320460504e+0, 5.76949722146069140550e+0,
     4.63033784615654529590e+0, 1.42343711074968357734e+0),
    (1.05075007164441684324e-9, 5.47593808499534494600e-4, 1.51986665636164571966e-2,
     1.48103976427480074590e-1, 6.89767334985100004550e-1, 1.67638483018380384940e+0,
     2.05319162663775882187e+0, 1.0),
)  # fmt: skip
# the same in that root less 5
_FAR_TAIL: Ratio = (
    (2.01033439929228813265e-7, 2.71155556874348757815e-5, 1.24266094738807843860e-3,
     2.65321895265761230930e-2, 2.96560571828504891230e-1, 1.78482653991729133580e+0,
     5.46378491116411436990e+0, 6.65790464350110377720e+0),
    (2.04426310338993978564e-15, 1.42151175831644588870e-7, 1.84631831751005468180e-5,
     7.86869131145613259100e-4, 1.48753612908506148525e-2, 1.36929880922735805310e-1,
     5.99832206555887937690e-1, 1.0),
)  # fmt: skip
_BETWEEN = 0.46875


def cost(x: Array, **_: Any) -> float:
    """Forty operations an element."""
    return 40 * elements(x)


def _ratio(x: Array, ratio: Ratio) -> Array:
    over, under = ratio
    return horner(x, over) / horner(x, under)


def _near(x: Array, near: Array, xp: Library) -> Array:
    """The function erf where |x| ≤ 0.46875, and 0 elsewhere."""
    # Others would leave the range of the ratio and may overflow: they are computed at 0.
    x = xp.where(near, x, 0)
    return x * _ratio(x * x, _INNER)


def _far(size: Array, xp: Library) -> Array:
    """The function erfc of numbers that are not negative; without meaning below 0.46875."""
    y = xp.minimum(size, 30)  # e^-900 is 0, and infinities would become NaN
    middle = _ratio(xp.minimum(y, 4), _MIDDLE)
    beyond = xp.maximum(y, 4)
    inverse = 1 / (beyond * beyond)
    outer = (1 / sqrt(pi) - inverse * _ratio(inverse, _OUTER)) / beyond
    short = xp.trunc(y * 16) / 16  # its square is exact: rounding y² would cost the digits of e^-y²
    # y² = short² + (y - short)·(y + short), the second part small.
    bell = xp.exp(-short * short) * xp.exp(-(y - short) * (y + short))
    return bell * xp.where(y <= 4, middle, outer)


@kernel("erf", cost=cost)
@in_float32
def erf(x: Array, *, xp: Library = np) -> Array:
    """2/√π·∫₀ˣ e^-t² dt; within 3 ulp in float64, 4 in float32."""
    size = xp.abs(x)
    near = size <= _BETWEEN
    outside = 1 - _far(size, xp)
    # erf is odd; erfc, which `_far` gives, is of |x|.
    return xp.where(near, _near(x, near, xp), xp.where(x < 0, -outside, outside))


@kernel("erfc", cost=cost)
@in_float32
def erfc(x: Array, *, xp: Library = np) -> Array:
    """1 - erf(x) without the loss of digits; within 5 ulp in float64, 6 in float32."""
    size = xp.abs(x)
    near = size <= _BETWEEN
    far = _far(size, xp)
    return xp.where(near, 1 - _near(x, near, xp), xp.where(x < 0, 2 - far, far))


@kernel("erfinv", cost=cost)
@in_float32
def erfinv(x: Array, *, xp: Library = np) -> Array:
    """The y whose erf is x; within 5 ulp."""
    half = x * 0.5
    central = xp.abs(half) <= 0.425
    # The tails are kept inside the central range, and the centre below inside theirs by `minimum`.
    inner = xp.where(central, half, 0)
    inner = inner * _ratio(0.180625 - inner * inner, _CENTRAL)
    root = xp.sqrt(-xp.log((1 - xp.abs(x)) * 0.5))
    root = xp.minimum(root, 30)  # infinite at ±1, where it must not become NaN
    tail = xp.where(root <= 5, _ratio(xp.minimum(root, 5) - 1.6, _TAIL), _ratio(root - 5, _FAR_TAIL))
    # The asymptote itself: the ratio at root 30 is finite.
    tail = xp.where(xp.abs(x) == 1, xp.inf, tail)
    # AS 241 gives the normal's quantile, √2 times erfinv.
    return xp.where(central, inner, xp.where(x < 0, -tail, tail)) * sqrt(0.5)


blockwise("erfinv", erfinv, cost)
for _op in ("erf", "erfc", "erfinv"):
    register_cupy_special(_op, _op, cost)
