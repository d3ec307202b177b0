"""Kernels of `ops.linalg.systems`: systems of linear equations, inverses and determinants."""

from __future__ import annotations

from importlib import import_module
from math import prod

import numpy as np

from actorflow.errors import SpecError
from actorflow.kernels.definition.registry import kernel
from actorflow.kernels.linalg.lapack import cubic, lapack
from actorflow.kernels.linalg.products import conjugate
from actorflow.values.arrays import Array, Library
from actorflow.values.spec import show

MANY = 64
"""The number of small triangles from which on they are solved side by side."""

BLOCK = 32
"""The rows below which a triangle is solved as any matrix is."""

_INVERTIBLE, _TRIANGLES = "invertible matrices", "diagonals without zeros"


def _check_empty(op: str, a: Array, b: Array, xp: Library) -> Array | None:
    """Returns the solution when it has no elements, which not every library takes.

    Raises:
        SpecError: for shapes, known late, that do not fit; numpy would take b for vectors.
    """
    if a.ndim < 2 or b.ndim < 2 or a.shape[-1] != a.shape[-2] or a.shape[-1] != b.shape[-2]:
        message = f"{op} needs square matrices and as many rows in b, got {show(a.shape)} and {show(b.shape)}"
        raise SpecError(message)
    if a.size and b.size:
        return None
    lead = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    return xp.zeros((*lead, *b.shape[-2:]), dtype=b.dtype)


def _batch(a: Array, b: Array, xp: Library) -> tuple[Array, Array, tuple[int, ...] | None]:
    """Makes leading axes equal; the last value is the shape of b to be restored, or None.

    One matrix for a batch of right sides takes them side by side, so that it is factored once.
    """
    # Only with one matrix: several would have to be factored each anyway.
    if a.ndim == 2 < b.ndim:
        n, columns = b.shape[-2:]
        lead = b.shape[:-2]
        # (..., n, k) -> (n, ..., k) -> (n, columns of all): one factor, one solve.
        rows_first = b.transpose((b.ndim - 2, *range(b.ndim - 2), b.ndim - 1))
        return a, rows_first.reshape((n, prod(lead) * columns)), b.shape
    if a.shape[:-2] == b.shape[:-2]:
        return a, b, None
    lead = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    a, b = (xp.broadcast_to(x, (*lead, *x.shape[-2:])) for x in (a, b))
    return a, b, None


def _unbatch(x: Array, shape: tuple[int, ...] | None) -> Array:
    """Undoes the second half of `_batch`."""
    if shape is None:
        return x
    *lead, n, columns = shape
    return x.reshape((n, *lead, columns)).transpose((*range(1, len(lead) + 1), 0, len(lead) + 1))


@kernel("solve", cost=cubic)
@lapack("solve", _INVERTIBLE, probe="inv")
def solve(a: Array, b: Array, *, xp: Library = np) -> Array:
    """The x of a·x = b, by LU with pivots.

    Shapes:  a (..., n, n), b (..., n, k) -> (..., n, k); leading axes broadcast
    Dtypes:  floating or complex, the same; halves by way of float32
    Cost:    (2/3)·n³ flops for each matrix a, which is factored once for a batch of b, and 2·n²·k
    Raises:  KernelError for a matrix with a pivot of zero
    """
    # Shapes are checked here even when the spec knew them too late to.
    if (nothing := _check_empty("solve", a, b, xp)) is not None:
        return nothing
    a, b, shape = _batch(a, b, xp)
    return _unbatch(xp.linalg.solve(a, b), shape)


@kernel("triangular_solve", cost=cubic)
@lapack("triangular_solve", _TRIANGLES, probe="inv")
def triangular_solve(a: Array, b: Array, *, lower: bool, adjoint: bool, xp: Library = np) -> Array:
    """The x of a·x = b, or of aᴴ·x = b, for triangles a, of which the other half is not read.

    Halves the triangle again and again: top, update by a product, bottom. Triangles of at most BLOCK
    rows are solved as any matrix is, for numpy has nothing for triangles. On one thread, float64: 855 µs
    for 512 rows and 1 column, 11.7 ms for 512 columns, against 6.6 and 24.5 ms by LU of the whole, and
    49 µs and 6.8 ms that LAPACK's trtrs takes.

    Shapes:  a (..., n, n), b (..., n, k) -> (..., n, k); leading axes broadcast
    Dtypes:  floating or complex, the same; halves by way of float32
    Raises:  KernelError for a zero on a diagonal
    """
    if (nothing := _check_empty("triangular_solve", a, b, xp)) is not None:
        return nothing
    if adjoint:
        # aᴴ of a lower triangle is an upper one, a view of it.
        a, lower = conjugate(a, xp).swapaxes(-1, -2), not lower
    a, b, shape = _batch(a, b, xp)
    # The other half may hold anything, so it is zeroed before products read it.
    return _unbatch(_substitute(xp.tril(a) if lower else xp.triu(a), b, lower, xp), shape)


def _substitute(a: Array, b: Array, lower: bool, xp: Library) -> Array:
    n = a.shape[-1]
    if n <= BLOCK:
        # A loop over rows pays when many matrices take each step at once.
        if xp is np and a.ndim > 2 and prod(a.shape[:-2]) >= MANY:
            return _side_by_side(a, b, lower)
        return xp.linalg.solve(a, b)
    m = n // 2
    # ORDER: the known half first: its solution, times the block beside it, is taken off the other side.
    if lower:
        top = _substitute(a[..., :m, :m], b[..., :m, :], lower, xp)
        bottom = _substitute(a[..., m:, m:], b[..., m:, :] - xp.matmul(a[..., m:, :m], top), lower, xp)
    else:
        bottom = _substitute(a[..., m:, m:], b[..., m:, :], lower, xp)
        top = _substitute(a[..., :m, :m], b[..., :m, :] - xp.matmul(a[..., :m, m:], bottom), lower, xp)
    return xp.concat([top, bottom], axis=-2)


def _side_by_side(a: Array, b: Array, lower: bool) -> Array:
    """Many small triangles solved row by row, all at once: a loop over the rows of a matrix.

    4,000 of 16 rows and 16 columns of float64 take 41 ms so, 88 ms by LU of each; with 4 rows and 1
    column 0.7 and 2.0.
    """
    n, columns = b.shape[-2:]
    lead, count = b.shape[:-2], prod(b.shape[:-2])
    diagonals = np.diagonal(a, axis1=-2, axis2=-1)
    # Division would give infinities in silence, where LAPACK raises.
    if not diagonals.all():
        message = "Singular matrix"
        raise np.linalg.LinAlgError(message)
    triangles, sides = a.reshape((count, n, n)), b.reshape((count, n, columns))
    made = np.empty((count, n, columns), np.result_type(a, b))
    # A lower triangle from the top, an upper one from the bottom.
    rows = range(n) if lower else range(n - 1, -1, -1)
    for start in range(0, count, _BATCH):
        part = slice(start, start + _BATCH)
        # The matrices last, so that each pass is long: (row, column, matrix).
        some = np.ascontiguousarray(triangles[part].transpose((1, 2, 0)))
        x = np.array(sides[part].transpose((1, 2, 0)), made.dtype, order="C")
        for k in rows:
            x[k] /= some[k, k]
            rest = slice(k + 1, None) if lower else slice(0, k)
            # Taken off all rows that are yet to be solved.
            x[rest] -= some[rest, k][:, None] * x[k]
        made[part] = x.transpose((2, 0, 1))
    return made.reshape((*lead, n, columns))


_BATCH = 256  # matrices that are solved at a time, so that they stay in the cache


@kernel("triangular_solve", only="cupy", cost=cubic)
@lapack("triangular_solve", _TRIANGLES)
def triangular_solve_of_cupy(a: Array, b: Array, *, lower: bool, adjoint: bool, xp: Library = np) -> Array:
    """The x of a·x = b, or of aᴴ·x = b, by cuBLAS's trsm for one triangle; a batch of them by halves.

    trsm divides by a zero in silence, so the diagonal is looked at, for which it waits for the card.
    """
    # trsm takes one triangle; a batch goes by halves.
    if a.ndim != 2 or b.ndim < 2 or not (a.size and b.size):
        return triangular_solve(a, b, lower=lower, adjoint=adjoint, xp=xp)
    # After the return above: `triangular_solve` checks for itself.
    _check_empty("triangular_solve", a, b, xp)
    if (xp.diagonal(a) == 0).any():
        message = "Singular matrix"
        raise np.linalg.LinAlgError(message)
    a, b, shape = _batch(a, b, xp)
    solve_triangular = import_module("cupyx.scipy.linalg").solve_triangular
    return _unbatch(solve_triangular(a, b, trans=2 if adjoint else 0, lower=lower), shape)


@kernel("inv", cost=cubic)
@lapack("inv", _INVERTIBLE, probe="inv")
def inv(x: Array, *, xp: Library = np) -> Array:
    """The inverses of square matrices (..., n, n); KernelError for one with a pivot of zero."""
    # LAPACK does not take matrices without rows in every library.
    return xp.linalg.inv(x) if x.size else x


@kernel("det", cost=cubic)
@lapack("det", "square matrices")
def det(x: Array, *, xp: Library = np) -> Array:
    """The determinants of square matrices (..., n, n) -> (...), by LU; 1 of no rows."""
    # The product of no pivots.
    return xp.linalg.det(x) if x.size else xp.ones(x.shape[:-2], dtype=x.dtype)


@kernel("slogdet", cost=cubic)
@lapack("slogdet", "square matrices")
def slogdet(x: Array, *, xp: Library = np) -> tuple[Array, Array]:
    """Sign and logarithm of the size of the determinants, (...) each; 0 and -inf of a singular one."""
    if not x.size:
        sign = xp.ones(x.shape[:-2], dtype=x.dtype)
        return sign, xp.zeros(x.shape[:-2], dtype=xp.abs(sign).dtype)
    sign, log = xp.linalg.slogdet(x)
    return sign, log
