"""Special functions of float32 and halves on numpy: in float64, where short formulas are exact enough.

numpy has no loops of its own for them, so each is a chain of passes over a block that stays in the
cache. In float64 one formula serves every range: what it loses by cancelling is below the digits that
float32 keeps, and nothing has to be chosen by a mask, which branches on what nobody can predict (a
`where` takes 4.5 ns an element, a product 0.2). The slower kernels for all libraries are the reference.

The rational functions were fitted here, by weighted least squares, to 3e-9 of the value or nearer.
"""

from __future__ import annotations

from math import log, pi

import numpy as np

from actorflow.kernels.definition.blockwise import blockwise
from actorflow.kernels.math import special_erf as general
from actorflow.kernels.math import special_gamma
from actorflow.kernels.math.special_polynomial import horner
from actorflow.values.arrays import Array

# erf(x)/x in x², up to |x| = 4, from where on the nearest float32 is 1
_ERF = (
    (-1.3202317604411857e-08, 4.684794774008678e-06, 3.796094860840176e-04, 3.849612301812472e-03,
     5.431692321256045e-02, 1.8520318848156686e-01, 1.1283791693788874),
    (6.311074283471333e-05, 1.3075708592295771e-03, 1.5462093564244245e-02, 1.139584167667578e-01,
     4.97465466170453e-01, 1.0),
)  # fmt: skip
# e^(y²)·erfc(y)/t in t = 2/(y + 2), 0 ≤ y ≤ 30
_ERFC = (
    (1.1611651371666747e-01, 1.8140311235270473e-01, 2.2133266702963839e-01, 3.557900948287626e-01,
     6.823171598151845e-02, 2.8209460536521735e-01),
    (1.6416558907507167e-01, -3.2590520354360214e-01, 1.1448610920471594e+00, -7.581527616965197e-01, 1.0),
)  # fmt: skip
_STEPS = 8  # from 8 on the asymptotic series are exact to the last digit of float64
_PASSED = float(np.log(np.prod(np.arange(8.0, 16.0))))


def erf(x: Array) -> Array:
    """The function erf, within 1 ulp of float32."""
    y = np.clip(x, -4, 4)
    square = y * y
    y *= horner(square, _ERF[0])
    y /= horner(square, _ERF[1])
    return y


def erfc(x: Array) -> Array:
    """1 - erf, within 1 ulp of float32: that of |x|, or 2 less that where x < 0."""
    y = np.abs(x)
    np.minimum(y, 30, out=y)  # e^-900 is 0, and infinities would become NaN
    # t is in (0, 1] for all y ≥ 0: one ratio serves them all.
    t = 2 / (y + 2)
    found = horner(t, _ERFC[0])
    found *= t
    found /= horner(t, _ERFC[1])
    y *= y
    np.negative(y, out=y)
    found *= np.exp(y, out=y)
    # Without a mask: erfc(-y) = 2 - erfc(y) is sign·found + (1 - sign).
    sign = np.copysign(1.0, x)
    found *= sign
    found += 1 - sign
    return found


def lgamma(x: Array) -> Array:
    """log|Γ(x)|, within 2 ulp of float32 for x > 0: log Γ(x + 8) - log(x(x + 1)…(x + 7)) below 8.

    For x < 0 the digits cancel near the zeros between the poles.
    """
    size = np.abs(x)
    found = _lgamma_of_positive(size)
    # Mirrored alone are those below 0: the sine costs as much as the rest.
    below = np.flatnonzero(x < 0)
    if below.size:
        some = x[below]
        # x less its nearest whole number: sin(πx) up to the sign, without the loss of digits of a large
        # argument.
        sine = np.abs(np.sin((some - np.rint(some)) * pi))
        # Γ(x)·Γ(1 - x) = π/sin(πx), and Γ(1 - x) = -x·Γ(-x).
        mirrored = np.log(pi / sine) - np.log(size[below]) - found[below]
        found[below] = np.where(np.isinf(some), np.inf, mirrored)
    return found


def _lgamma_of_positive(x: Array) -> Array:
    # Eight steps are taken by all, whether they are needed or not: no mask.
    few = np.minimum(x, _STEPS)
    product = few.copy()
    for _ in range(_STEPS - 1):
        few += 1
        product *= few
    # 1 where the series serves x itself, 0 where x + 8.
    beyond = (x >= _STEPS).astype(np.float64)
    y = x + _STEPS * (1 - beyond)
    # Stirling's series: (y - ½)·log y - y + …, written so that fewer digits cancel.
    found = (np.log(y) - 1) * (y - 0.5)
    inverse = 1 / y
    found += horner(inverse * inverse, special_gamma.STIRLING) * inverse
    found += (log(2 * pi) - 1) / 2
    found -= np.log(product)
    # From 8 on `few` stood at 8: what the product took off is the same number everywhere, and is put back.
    found += beyond * _PASSED
    # The zeros of the logarithm, which rounding would miss.
    found[(x == 1) | (x == 2)] = 0
    return found


def digamma(x: Array) -> Array:
    """Γ'(x)/Γ(x), within 2 ulp of float32 for x > 0: that of x + 8 less 1/x + … + 1/(x + 7) below 8.

    For x < 0 the digits cancel near the zeros.
    """
    below = x <= 0
    size = np.abs(x - below)  # 1 - x, where it is below
    beyond = (size >= _STEPS).astype(np.float64)
    y = size + _STEPS * (1 - beyond)
    inverse = 1 / y
    found = np.log(y) - 0.5 * inverse - horner(inverse * inverse, special_gamma.ASYMPTOTIC)
    few = np.minimum(size, _STEPS)
    passed = 1 / few
    for _ in range(_STEPS - 1):
        few += 1
        passed += 1 / few
    # Times 0 from 8 on, where nothing was passed.
    found -= passed * (1 - beyond)
    if below.any():
        at = np.flatnonzero(below)
        some = x[at]
        # ±0 keeps its sign, which the tangent and so the infinity at it takes over.
        rest = np.where(some == 0, some, some - np.rint(some))
        # ψ(1 - x) - ψ(x) = π/tan(πx).
        mirrored = found[at] - pi / np.tan(rest * pi)
        # At the other poles the sides differ in sign: no number.
        found[at] = np.where((rest == 0) & (some != 0), np.nan, mirrored)
    return found


blockwise("erf", general.erf, general.cost, erf)
blockwise("erfc", general.erfc, general.cost, erfc)
blockwise("lgamma", special_gamma.lgamma, special_gamma.cost, lgamma)
blockwise("digamma", special_gamma.digamma, special_gamma.cost, digamma)
