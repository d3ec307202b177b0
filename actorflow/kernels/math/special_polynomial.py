"""Polynomials of arrays."""

from __future__ import annotations

from actorflow.values.arrays import Array

Coefficients = tuple[float, ...]


def horner(x: Array, coefficients: Coefficients) -> Array:
    """The polynomial in x with these two coefficients or more, that of the highest power first."""
    first, second, *rest = coefficients
    # A new array, which the loop may write over.
    total = x * first + second
    for c in rest:
        total *= x
        total += c
    return total
