"""Kernels of `ops.linalg.products`: products of matrices and vectors, and parts of matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from actorflow.errors import SpecError
from actorflow.kernels.array.shape import view_cost
from actorflow.kernels.definition.precision import in_float32
from actorflow.kernels.definition.registry import kernel
from actorflow.kernels.linalg.products_blas import product
from actorflow.values.arrays import Array, Library
from actorflow.values.spec import show

_vecdot: Any = np.vecdot  # Any: the stubs know no axis of it


def _flops(a: Array, b: Array, *, transpose_a: bool, transpose_b: bool) -> float:
    # The cost is asked for before the kernel runs: the error is to be that of the kernel.
    _check_matrices(a, b)
    # Leading axes broadcast: the longer of the two has the batch.
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
    product = xp.matmul(a.swapaxes(-1, -2) if transpose_a else a, b.swapaxes(-1, -2) if transpose_b else b)
    # numpy multiplies bfloat16 by way of float32 and hands that back.
    return product if product.dtype == a.dtype else product.astype(a.dtype)


@kernel("matmul", only="numpy", cost=_flops)
def matmul_of_numpy(a: Array, b: Array, *, transpose_a: bool, transpose_b: bool) -> Array:
    """The same; two matrices are cut as BLAS and threads take them best.

    See `kernels.linalg.products_blas`.
    """
    # Cut only what BLAS multiplies at all.
    if a.ndim != 2 or b.ndim != 2 or a.dtype.char not in "fd" or a.dtype != b.dtype:
        return matmul(a, b, transpose_a=transpose_a, transpose_b=transpose_b)
    return product(a.T if transpose_a else a, b.T if transpose_b else b)


@kernel("matrix_transpose", cost=view_cost)
def matrix_transpose(x: Array) -> Array:
    """A view of `x` with its last two axes swapped."""
    return x.swapaxes(-1, -2)


def conjugate(x: Array, xp: Library) -> Array:
    """The conjugate of complex `x`, any other as it is."""
    return xp.conj(x) if x.dtype.kind == "c" else x


def _check_vectors(op: str, a: Array, b: Array, axis: int, size: int | None = None) -> None:
    """Raises SpecError for sizes along `axis` that differ; they would broadcast."""
    if a.shape[axis] != b.shape[axis] or size not in (None, a.shape[axis]):
        wanted = "equal sizes" if size is None else f"size {size}"
        message = f"{op} needs {wanted} along axis {axis}, got {show(a.shape)} and {show(b.shape)}"
        raise SpecError(message)


@kernel("vecdot")
@in_float32
def vecdot(a: Array, b: Array, *, axis: int, xp: Library = np) -> Array:
    """The sum of conj(a)·b along `axis` in the dtype of a; halves in float32."""
    _check_vectors("vecdot", a, b, axis)
    return xp.sum(conjugate(a, xp) * b, axis=axis, dtype=a.dtype)


@kernel("vecdot", only="numpy")
@in_float32
def vecdot_of_numpy(a: Array, b: Array, *, axis: int) -> Array:
    """The sum of conj(a)·b along `axis` in the dtype of a; halves in float32.

    numpy's own makes no array of the products: 319 µs against 838 for 256 × 4096 float32, one thread.
    """
    _check_vectors("vecdot", a, b, axis)
    return _vecdot(a, b, axis=axis)


@kernel("cross")
@in_float32
def cross(a: Array, b: Array, *, axis: int, xp: Library = np) -> Array:
    """The vector product along `axis`, which has size 3 in both; other axes broadcast."""
    _check_vectors("cross", a, b, axis, 3)
    # From the back, as `axis` is negative: leading axes of either input may be fewer.
    lines = (slice(None),) * (-axis - 1)
    (a0, a1, a2), (b0, b1, b2) = ([x[(..., i, *lines)] for i in range(3)] for x in (a, b))
    return xp.stack([a1 * b2 - a2 * b1, a2 * b0 - a0 * b2, a0 * b1 - a1 * b0], axis=axis)


def _kron_cost(a: Array, b: Array) -> float:
    return float(a.size * b.size)


@kernel("kron", cost=_kron_cost)
def kron(a: Array, b: Array) -> Array:
    """Every element of `a` (..., m, n) times `b` (..., p, q), as blocks (..., m·p, n·q)."""
    # All pairs with axes (m, p, n, q): neighbours become one axis each.
    blocks = a[..., :, None, :, None] * b[..., None, :, None, :]
    *lead, m, p, n, q = blocks.shape
    return blocks.reshape((*lead, m * p, n * q))


@kernel("matrix_band_part")
def matrix_band_part(x: Array, *, lower: int | None, upper: int | None, xp: Library = np) -> Array:
    """`x` where -lower ≤ column - row ≤ upper, else zero; None for no bound."""
    if lower is not None:
        x = xp.triu(x, k=-lower)
    return x if upper is None else xp.tril(x, k=upper)
