"""Kernels of `ops.linalg.spectrum`: what depends on which singular values of a matrix count as zero."""

from __future__ import annotations

import numpy as np

from actorflow.kernels.definition.registry import kernel
from actorflow.kernels.linalg.factorisations import FINITE, singular_values
from actorflow.kernels.linalg.lapack import cubic, lapack
from actorflow.kernels.linalg.products import conjugate
from actorflow.values.arrays import Array, Library


def _significant(s: Array, shape: tuple[int, ...], rtol: float | None, eps: float, xp: Library) -> Array:
    """Which singular values of a matrix of `shape` are not noise: those above rtol times the largest.

    None for rtol stands for eps times the larger size of the matrix.
    """
    # The maximum of nothing is an error.
    if not s.shape[-1]:
        return s > 0
    if rtol is None:
        rtol = max(shape[-2:]) * eps
    # Compared with the largest of the same matrix: a zero matrix has none that counts.
    return s > rtol * xp.max(s, axis=-1, keepdims=True)


@kernel("pinv", cost=cubic)
@lapack("pinv", FINITE)
def pinv(x: Array, *, rtol: float | None, eps: float, xp: Library = np) -> Array:
    """The inverses of Moore and Penrose (..., m, n) -> (..., n, m), by SVD; see `_significant` for `rtol`."""
    u, s, vh = xp.linalg.svd(x, full_matrices=False)
    kept = _significant(s, x.shape, rtol, eps, xp)
    # The inner choice keeps the division from zero, where the outer one would throw its infinity away.
    inverse = xp.where(kept, 1 / xp.where(kept, s, 1), 0).astype(s.dtype)
    v, uh = conjugate(vh, xp).swapaxes(-1, -2), conjugate(u, xp).swapaxes(-1, -2)
    # The diagonal scales rows: no product with a matrix of zeros.
    return xp.matmul(v, inverse[..., None] * uh)


@kernel("matrix_rank", cost=cubic)
@lapack("matrix_rank", FINITE)
def matrix_rank(x: Array, *, rtol: float | None, eps: float, xp: Library = np) -> Array:
    """How many singular values are not noise, (...) int64; see `_significant` for `rtol`."""
    kept = _significant(singular_values(x, xp), x.shape, rtol, eps, xp)
    return xp.sum(kept.astype(np.int64), axis=-1)
