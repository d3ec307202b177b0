"""Kernels of `ops.linalg`: matrix products."""

from __future__ import annotations

import numpy as np

from actorflow.arrays import Array, Library
from actorflow.errors import SpecError
from actorflow.kernels.registry import kernel
from actorflow.spec import show


def _flops(a: Array, b: Array, *, transpose_a: bool, transpose_b: bool) -> float:
    _check_matrices(a, b)
    lead = max(a.size // max(a.shape[-1] * a.shape[-2], 1), b.size // max(b.shape[-1] * b.shape[-2], 1))
    m, k = a.shape[-1 if transpose_a else -2], a.shape[-2 if transpose_a else -1]
    n = b.shape[-2 if transpose_b else -1]
    return float(2 * lead * m * k * n)


def _check_matrices(a: Array, b: Array) -> None:
    """Raises SpecError for what has no two axes; numpy would make up a missing one."""
    if a.ndim < 2 or b.ndim < 2:
        message = f"matmul needs at least two axes, got {show(a.shape)} and {show(b.shape)}"
        raise SpecError(message, hint="add one with af.expand_dims")


@kernel("matmul", cost=_flops)
def matmul(a: Array, b: Array, *, transpose_a: bool, transpose_b: bool, xp: Library = np) -> Array:
    """The matrix product over the last two axes; leading axes broadcast.

    Shapes:  a (..., m, k), b (..., k, n) -> (..., m, n), before the swaps that the flags ask for
    Dtypes:  numbers, kept; bfloat16 is computed in float32 and rounded once
    Cost:    2·m·k·n flops for each leading index; swapped inputs are views, BLAS reads them as
             they are
    Raises:  SpecError for less than two axes
    """
    _check_matrices(a, b)
    product = xp.matmul(a.mT if transpose_a else a, b.mT if transpose_b else b)
    return product if product.dtype == a.dtype else product.astype(a.dtype)
