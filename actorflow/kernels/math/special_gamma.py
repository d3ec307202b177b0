"""Kernels of the gamma family of `ops.math.special`, of array functions; CuPy has two of its own.

The coefficients are computed here from what they are, values of the zeta function, once at import.
"""

from __future__ import annotations

from math import factorial, fsum, log, pi
from typing import Any

import numpy as np

from actorflow.kernels.definition.blockwise import blockwise
from actorflow.kernels.definition.cupy_specials import register_cupy_special
from actorflow.kernels.definition.precision import in_float32
from actorflow.kernels.definition.registry import elements, kernel
from actorflow.kernels.math.special_polynomial import Coefficients, horner
from actorflow.values.arrays import Array, Library

# The Bernoulli numbers B2, B4, …, B20.
_BERNOULLI = (
    1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510, 43867 / 798, -174611 / 330,
)  # fmt: skip


def _rising(s: int) -> list[float]:
    """B_2j/(2j)!·s(s+1)…(s+2j-2) for j = 1, 2, …: the corrections of Euler and Maclaurin."""
    found = []
    for j, number in enumerate(_BERNOULLI, 1):
        product = 1
        for k in range(2 * j - 1):
            product *= s + k
        found.append(number * product / factorial(2 * j))
    return found


def _zeta(s: int, q: float) -> float:
    """The Hurwitz zeta function Σ (q + k)^-s over k ≥ 0, by Euler and Maclaurin from the 20th term on."""
    y = q + 20
    tail = (c * y ** -(s + 2 * j + 1) for j, c in enumerate(_rising(s)))
    return fsum([*((q + k) ** -s for k in range(20)), y ** (1 - s) / (s - 1), y**-s / 2, *tail])


_LARGE = 8.0  # from here on the asymptotic series are exact to the last digit

_EULER = 0.57721566490153286061
# log Γ(2 + z) = z·((1 - γ) + Σ (-1)^k·(ζ(k) - 1)/k·z^(k-1) over k ≥ 2), |z| ≤ 1/2
_LGAMMA = (*((-1) ** k * _zeta(k, 2.0) / k for k in range(30, 1, -1)), 1 - _EULER)
STIRLING = tuple(b / (2 * j * (2 * j - 1)) for j, b in reversed(list(enumerate(_BERNOULLI, 1))))

# The zero of digamma as a float, and what digamma is there, for it lies between two floats.
_ROOT, _AT_ROOT = 1.4616321449683622, -9.2412655217294275e-17
_ROOT_HIGH = float(np.float32(_ROOT))  # in two parts for float32, which cannot hold it
_ROOT_LOW = _ROOT - _ROOT_HIGH
_DIGAMMA = (*((-1) ** (k + 1) * _zeta(k + 1, _ROOT) for k in range(40, 0, -1)), _AT_ROOT)
ASYMPTOTIC = (*(b / (2 * j) for j, b in reversed(list(enumerate(_BERNOULLI, 1)))), 0.0)


def cost(x: Array, **attrs: Any) -> float:
    """A hundred operations an element."""
    return 100 * elements(x)


def _reduce(x: Array, low: float, high: float, xp: Library) -> tuple[Array, Array, Array]:
    """The numbers x in (0, 8) moved by whole numbers into (low, high], and the terms that it passed.

    Returns the moved x, the product of the numbers passed on the way, and the sum of their reciprocals.
    Numbers passed upwards count negatively in the sum; the caller sees from x < low which way it went.
    """
    product, total = xp.ones_like(x), xp.zeros_like(x)
    # At most eight steps from 8 down, for all at once: who is there stays.
    for _ in range(int(_LARGE)):
        down = x > high
        x = xp.where(down, x - 1, x)
        product = xp.where(down, product * x, product)
        total = xp.where(down, total + 1 / x, total)
    # From near 0 two steps up at most reach the interval.
    for _ in range(2):
        up = x <= low
        product = xp.where(up, product * x, product)
        total = xp.where(up, total - 1 / x, total)
        x = xp.where(up, x + 1, x)
    return x, product, total


def _rest(x: Array, xp: Library) -> Array:
    """What rounding takes off x below 0, exactly; ±0 itself, and 1/2 above 0, where nothing is mirrored."""
    # Half makes the sine 1 and the tangent large: harmless where it is dropped.
    return xp.where(x == 0, x, xp.where(x > 0, 0.5, x - xp.round(x)))


@kernel("lgamma", cost=cost)
@in_float32
def lgamma(x: Array, *, xp: Library = np) -> Array:
    """log|Γ(x)|: a power series about 2, Stirling's from 8 on, the reflection below 0.

    Within 7 ulp for x > 0, the zeros at 1 and 2 included; for x < 0 the digits cancel near the
    zeros between the poles, where the error is that of a number of size 1.
    """
    size = xp.abs(x)
    # What is beyond 8 is computed at 8 and dropped.
    small = xp.minimum(size, _LARGE)
    near, passed, _ = _reduce(small, 1.5, 2.5, xp)
    # x - 1 and x itself, since 1 and 2 have been added with a rounding that the zero at 1 would show.
    z = xp.where(small <= 1.5, xp.where(small <= 0.5, small, small - 1), near - 2)
    logarithm = xp.log(passed)
    # Numbers passed downwards are factors of Γ(x), those passed upwards divide it.
    series = z * horner(z, _LGAMMA) + xp.where(small <= 1.5, -logarithm, logarithm)
    large = xp.maximum(size, _LARGE)
    stirling = (large - 0.5) * (xp.log(large) - 1) + (log(2 * pi) - 1) / 2
    stirling = stirling + horner(1 / (large * large), STIRLING) / large
    found = xp.where(size < _LARGE, series, stirling)
    # The reflection, Γ(x)·Γ(1 - x) = π/sin(πx), with |x| for 1 - x: one factor |x| more, taken off below.
    sine = xp.abs(xp.sin(_rest(x, xp) * pi))
    mirrored = xp.log(pi / sine) - xp.log(size) - found
    # -inf too gives inf: the reflection would give NaN.
    return xp.where(xp.isinf(x), size, xp.where(x < 0, mirrored, found))


@kernel("digamma", cost=cost)
@in_float32
def digamma(x: Array, *, xp: Library = np) -> Array:
    """Γ'(x)/Γ(x): a power series about its zero, the asymptotic one from 8 on, the reflection below 0.

    Within 3 ulp in float64 for x > 0, the zero included; for x < 0 the digits cancel near the zeros.
    """
    below = x <= 0
    size = xp.where(below, 1 - x, x)
    near, _, passed = _reduce(xp.minimum(size, _LARGE), _ROOT - 0.5, _ROOT + 0.5, xp)
    # The zero in two parts: the difference keeps the digits that a float of it would lose.
    series = horner((near - _ROOT_HIGH) - _ROOT_LOW, _DIGAMMA) + passed
    large = xp.maximum(size, _LARGE)
    asymptotic = xp.log(large) - 0.5 / large - horner(1 / (large * large), ASYMPTOTIC)
    found = xp.where(size < _LARGE, series, asymptotic)
    rest = _rest(x, xp)
    mirrored = found - pi / xp.tan(rest * pi)
    # Poles other than 0 have no sign; at 0 the sign of the zero tells.
    return xp.where(below, xp.where((rest == 0) & (x != 0), xp.nan, mirrored), found)


@kernel("polygamma", cost=cost)
@in_float32
def polygamma(x: Array, *, n: int, xp: Library = np) -> Array:
    """The nth derivative of digamma: (-1)^(n+1)·n!·ζ(n + 1, x), and the reflection below 0."""
    if n == 0:
        return digamma(x, xp=xp)
    below = x < 0
    # Below 0 the mirror image is computed.
    size = xp.where(below, 1 - x, x)
    found = (-1) ** (n + 1) * float(factorial(n)) * _zeta_of(n + 1, size, xp)
    tangent = xp.tan(_rest(x, xp) * pi)
    mirrored = (-1) ** n * found - pi ** (n + 1) * horner(1 / tangent, _cotangent(n))
    return xp.where(below, mirrored, found)


def _zeta_of(s: int, x: Array, xp: Library) -> Array:
    """The Hurwitz zeta function ζ(s, x) for x ≥ 0, by Euler and Maclaurin from the 12th term on."""
    total = xp.zeros_like(x)
    # The smallest terms first, so that they are not lost.
    for k in range(11, -1, -1):
        total = total + (x + k) ** -s
    y = x + 12
    inverse = 1 / y
    corrections = horner(inverse * inverse, tuple(reversed(_rising(s)))) * inverse
    return total + inverse ** (s - 1) / (s - 1) + inverse**s * (corrections + 0.5)


def _cotangent(n: int) -> Coefficients:
    """The nth derivative of cot as a polynomial in cot, the highest power first: c' = -(1 + c²)."""
    powers = [0, 1]
    for _ in range(n):
        slopes = [k * p for k, p in enumerate(powers)][1:]
        # Times -(1 + c²), the slope of c itself.
        powers = [-a - b for a, b in zip([*slopes, 0, 0], [0, 0, *slopes], strict=True)]
    return tuple(float(p) for p in reversed(powers))


blockwise("polygamma", polygamma, cost)
register_cupy_special("lgamma", "gammaln", cost)
register_cupy_special("digamma", "digamma", cost)
