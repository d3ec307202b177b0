"""Kernels of `ops.linalg.powers`: functions of square matrices that are sums of their powers."""

from __future__ import annotations

from math import factorial
from typing import Any

import numpy as np

from actorflow.kernels.definition.registry import kernel
from actorflow.kernels.linalg.lapack import lapack
from actorflow.values.arrays import Array, Library


def _coefficients(degree: int) -> tuple[float, ...]:
    """Those of the numerator of the Padé approximant of e^x of that degree, the last of them 1.

    SOURCE: N. Higham, The scaling and squaring method for the matrix exponential revisited, SIAM J.
    Matrix Anal. Appl. 26(4), 2005, equation 2.4.
    """
    n = degree
    # All are whole numbers, so the division is exact before it becomes a float.
    return tuple(float(factorial(2 * n - k) // (factorial(n - k) * factorial(k))) for k in range(n + 1))


# Degree, and the norm up to which it is exact to rounding (the same, tables 2.1 and 2.3).
_DOUBLE, _SINGLE = (13, 5.371920351148152), (7, 3.925724783138660)


def _cost(x: Array, **_: Any) -> float:
    """About ten products of square matrices."""
    return 20.0 * float(x.size * x.shape[-1])


@kernel("matrix_exp", cost=_cost)
@lapack("matrix_exp", "numbers that are finite")
def matrix_exp(x: Array, *, xp: Library = np) -> Array:
    """e^x for square matrices, by a Padé approximant of x/2^s that is squared s times.

    Shapes:  (..., n, n), kept
    Dtypes:  floating or complex, kept; halves by way of float32
    Cost:    six products and a solve (four in single precision), and a product for each squaring; how
             many these are is asked of the card, which waits
    Source:  Higham 2005, algorithm 2.3, with the highest degree alone. The largest error, in units of
             the last place of the largest element, of 12 normal matrices of 6 rows, float64 (float32):
             2 (5) at deviation 1, 24 (23) at 10; expm of scipy 1.16 has 113 and 372
    """
    if not x.size:
        return x
    # Step 1: degree and bound of the precision; a complex number has two floats.
    degree, bound = _DOUBLE if x.dtype.itemsize == (16 if x.dtype.kind == "c" else 8) else _SINGLE
    # Step 2: the norm of ones, the largest sum of a column, for each matrix of the batch.
    norm = xp.max(xp.sum(xp.abs(x), axis=-2), axis=-1)
    # NaN and infinities are not halved: they would ask for as many squarings, and stay what they are.
    known = xp.isfinite(norm) & (norm > bound)
    # Step 3: each matrix is halved as often as brings its norm below the bound.
    halvings = xp.where(known, xp.ceil(xp.log2(xp.where(known, norm / bound, 1))), 0)
    # Powers of two scale without rounding.
    powers = xp.asarray(2, dtype=halvings.dtype) ** -halvings
    x = x * powers[..., None, None].astype(x.dtype)
    # Step 4: the approximant of x/2^s.
    y = _pade(x, _coefficients(degree), xp)
    # Step 5: e^x = (e^(x/2^s))^(2^s); a matrix that needs fewer squarings keeps what it has.
    for turn in range(int(xp.max(halvings))):
        squared = xp.matmul(y, y)
        y = squared if halvings.size == 1 else xp.where((halvings > turn)[..., None, None], squared, y)
    return y


def _pade(x: Array, c: tuple[float, ...], xp: Library) -> Array:
    """The quotient of the approximant: (v - u)⁻¹·(v + u), u its odd and v its even powers of x."""
    eye = xp.eye(x.shape[-1], dtype=x.dtype)
    x2 = xp.matmul(x, x)
    x4 = xp.matmul(x2, x2)
    x6 = xp.matmul(x2, x4)
    # The odd powers have x taken out; it is multiplied below.
    u = c[7] * x6 + c[5] * x4 + c[3] * x2 + c[1] * eye
    v = c[6] * x6 + c[4] * x4 + c[2] * x2 + c[0] * eye
    # The upper half of degree 13 by way of x6 once more.
    if len(c) > 8:
        u = u + xp.matmul(x6, c[13] * x6 + c[11] * x4 + c[9] * x2)
        v = v + xp.matmul(x6, c[12] * x6 + c[10] * x4 + c[8] * x2)
    u = xp.matmul(x, u)
    return xp.linalg.solve(v - u, v + u)
