"""Kernels of `ops.linalg.factorisations`: matrices as products of simpler ones."""

from __future__ import annotations

import numpy as np

from actorflow.kernels.definition.registry import kernel
from actorflow.kernels.linalg.lapack import cubic, lapack
from actorflow.kernels.linalg.products import conjugate
from actorflow.values.arrays import Array, Library

FINITE = "numbers that are finite"


def hermitian(x: Array, xp: Library) -> Array:
    """The mean of `x` and its adjoint: `x` itself, to the bit, where it is Hermitian."""
    return (x + conjugate(x, xp).swapaxes(-1, -2)) / 2


@kernel("cholesky", cost=cubic)
@lapack("cholesky", "positive definite matrices", probe="cholesky")
def cholesky(x: Array, *, upper: bool, xp: Library = np) -> Array:
    """The triangle l of l·lᴴ = x, or u of uᴴ·u = x when `upper`.

    Shapes:  (..., n, n), kept
    Dtypes:  floating or complex, kept; halves by way of float32
    Cost:    n³/3 flops for each matrix
    Raises:  KernelError for a matrix that is not positive definite
    """
    # Not every library takes matrices without rows.
    if not x.size:
        return x
    # LAPACK reads one triangle alone; the mean makes both count.
    factor = xp.linalg.cholesky(hermitian(x, xp))
    return conjugate(factor, xp).swapaxes(-1, -2) if upper else factor


@kernel("qr", cost=cubic)
@lapack("qr", FINITE)
def qr(x: Array, *, xp: Library = np) -> tuple[Array, Array]:
    """Orthonormal columns q (..., m, k) and the triangle r (..., k, n), k = min(m, n), by Householder."""
    q, r = xp.linalg.qr(x)
    return q, r


@kernel("eigh", cost=cubic)
@lapack("eigh", FINITE)
def eigh(x: Array, *, xp: Library = np) -> tuple[Array, Array]:
    """Eigenvalues in ascending order (..., n), and eigenvectors as columns (..., n, n)."""
    # The values are real where x is complex: abs has their dtype.
    if not x.size:
        return xp.zeros(x.shape[:-1], dtype=xp.abs(x).dtype), x
    w, v = xp.linalg.eigh(hermitian(x, xp))
    return w, v


@kernel("eigvalsh", cost=cubic)
@lapack("eigvalsh", FINITE)
def eigvalsh(x: Array, *, xp: Library = np) -> Array:
    """The eigenvalues that `eigh` gives, without the vectors."""
    return xp.linalg.eigvalsh(hermitian(x, xp)) if x.size else xp.zeros(x.shape[:-1], dtype=xp.abs(x).dtype)


@kernel("svd", cost=cubic)
@lapack("svd", FINITE)
def svd(x: Array, *, xp: Library = np) -> tuple[Array, Array, Array]:
    """Orthonormal u (..., m, k), s (..., k), largest first, and vᴴ (..., k, n); k = min(m, n)."""
    u, s, vh = xp.linalg.svd(x, full_matrices=False)
    return u, s, vh


@kernel("svdvals", cost=cubic)
@lapack("svdvals", FINITE)
def svdvals(x: Array, *, xp: Library = np) -> Array:
    """The singular values that `svd` gives, without the vectors."""
    return singular_values(x, xp)


def singular_values(x: Array, xp: Library) -> Array:
    """The singular values of matrices, in descending order."""
    if hasattr(xp.linalg, "svdvals"):
        return xp.linalg.svdvals(x)
    return xp.linalg.svd(x, compute_uv=False)  # CuPy has no other name for it
