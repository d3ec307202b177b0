"""Products, systems, factors of matrices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import actorflow as af
from actorflow.graph.builder import Tensor
from tests.oracle.table import composes, maps, need, rank, same, sizes

NO_RESIDUALS = "torch tells residuals, and more, as well"
NO_INFO = "torch tells of a singular matrix by a number, ours raises in the step"

# -------------------------------------------------------------------------------- products


@maps("matmul, mm, bmm", "matmul")
def _matmul(a: Tensor, b: Tensor) -> Tensor:
    return _product(a, b)


@maps("__rmatmul__", "matmul")
def _rmatmul(a: Tensor, b: Tensor) -> Tensor:
    return _product(b, a)


def _product(a: Tensor, b: Tensor) -> Tensor:
    need(
        rank(a) > 1 and rank(b) > 1,
        "matmul with a vector: ours takes matrices, af.tensordot and af.vecdot vectors",
    )
    return af.matmul(a, b)


@maps("dot, vdot", "vecdot")
def _dot(a: Tensor, b: Tensor) -> Tensor:
    return af.vecdot(a, b)


@maps("linalg.vecdot", "vecdot")
def _vecdot(a: Tensor, b: Tensor, *, dim: int = -1) -> Tensor:
    return af.vecdot(a, b, dim - max(rank(a), rank(b)) if dim >= 0 else dim)


@maps("mv", "tensordot")
def _mv(a: Tensor, b: Tensor) -> Tensor:
    return af.tensordot(a, b, 1)


@maps("outer", "outer")
def _outer(a: Tensor, b: Tensor) -> Tensor:
    return af.linalg.outer(a, b)


@maps("inner", "tensordot")
def _inner(a: Tensor, b: Tensor) -> Tensor:
    if rank(a) == 0 or rank(b) == 0:
        return a * b
    return af.tensordot(a, b, ([-1], [-1]))


@maps("tensordot", "tensordot")
def _tensordot(a: Tensor, b: Tensor, dims: Any = 2) -> Tensor:
    if isinstance(dims, int):
        return af.tensordot(a, b, dims)
    equal = [sizes(a)[i] for i in dims[0]] == [sizes(b)[i] for i in dims[1]]
    need(equal, "tensordot over a size of 1 and another: ours wants equal sizes")
    return af.tensordot(a, b, (list(dims[0]), list(dims[1])))


@maps("einsum", "einsum")
def _einsum(tensors: Sequence[Tensor], equation: str) -> Tensor:
    return af.linalg.einsum(equation, *tensors)


same("kron", af.linalg.kron)


@maps("cross, linalg.cross", "cross")
def _cross(a: Tensor, b: Tensor, *, dim: int | None = None) -> Tensor:
    if dim is None:
        dim = sizes(a).index(3)
    return af.linalg.cross(a, b, dim - rank(a) if dim >= 0 else dim)


@composes("linalg.multi_dot", "a @ b @ …")
def _multi_dot(xs: Sequence[Tensor]) -> Tensor:
    need(all(rank(x) == 2 for x in xs), "multi_dot with a vector: ours multiplies matrices")
    made = xs[0]
    for x in xs[1:]:
        made = made @ x
    return made


@composes("addbmm", "beta·x + alpha·sum(a @ b, 0)")
def _add_products(x: Tensor, a: Tensor, b: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    return x * beta + af.sum(a @ b, 0) * alpha


@composes("addmm, addmm decomposed, baddbmm, addmv, addr", "beta·x + alpha·product")
def _add_product(x: Tensor, a: Tensor, b: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    if rank(a) == 1:
        product = af.linalg.outer(a, b)
    elif rank(b) == 1:
        product = af.tensordot(a, b, 1)
    else:
        product = af.matmul(a, b)
    return x * beta + product * alpha


@maps("trace", "matrix_trace")
def _trace(x: Tensor) -> Tensor:
    return af.linalg.matrix_trace(x)


@maps("linalg.matrix_power", "matrix_power")
def _matrix_power(x: Tensor, n: int) -> Tensor:
    return af.linalg.matrix_power(x, n)


same("matrix_exp", af.linalg.matrix_exp)


@composes("linalg.vander", "powers of x beside each other")
def _vander(x: Tensor, N: int | None = None) -> Tensor:
    count = sizes(x)[-1] if N is None else N
    need(rank(x) > 0, "vander of a scalar: ours has no axis there")
    return af.pow(af.expand_dims(x, -1), af.arange(count, dtype=x.dtype))


# ---------------------------------------------------------------------------------- systems


def _column(b: Tensor, a: Tensor) -> bool:
    """Whether torch takes `b` as vectors, one for each matrix."""
    return rank(b) == 1 or (rank(b) == rank(a) - 1 and sizes(b) == sizes(a)[:-1])


def _solved(a: Tensor, b: Tensor, left: bool) -> Tensor:
    if left and _column(b, a):
        return af.squeeze(af.linalg.solve(a, af.expand_dims(b, -1)), -1)
    if left:
        return af.linalg.solve(a, b)
    return af.matrix_transpose(af.linalg.solve(af.matrix_transpose(a), af.matrix_transpose(b)))


@maps("linalg.solve", "solve")
def _solve(a: Tensor, b: Tensor, *, left: bool = True) -> Tensor:
    return _solved(a, b, left)


@maps("linalg.solve_ex", "solve", first=1, left_out=NO_INFO)
def _solve_ex(a: Tensor, b: Tensor, *, left: bool = True, check_errors: bool = False) -> Tensor:
    return _solved(a, b, left)


@maps("linalg.solve_triangular", "triangular_solve")
def _solve_triangular(
    a: Tensor, b: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Tensor:
    need(not unitriangular, "unitriangular: ours reads the diagonal")
    if left:
        return af.linalg.triangular_solve(a, b, lower=not upper)
    turned = af.linalg.triangular_solve(a, af.matrix_transpose(b), lower=not upper, adjoint=True)
    return af.matrix_transpose(turned)


@maps("triangular_solve", "triangular_solve")
def _old_triangular_solve(
    b: Tensor, a: Tensor, upper: bool = False, transpose: bool = False, unitriangular: bool = False
) -> list[Tensor]:
    # The guard of torch's table says upper=False where the sample says nothing.
    need(not unitriangular, "unitriangular: ours reads the diagonal")
    solved = af.linalg.triangular_solve(a, b, lower=not upper, adjoint=transpose)
    return [solved, af.triu(a) if upper else af.tril(a)]


@maps("cholesky_solve", "cholesky_solve")
def _cholesky_solve(b: Tensor, factor: Tensor, upper: bool = False) -> Tensor:
    return af.linalg.cholesky_solve(factor, b, upper=upper)


@composes("cholesky_inverse", "cholesky_solve(factor, eye)")
def _cholesky_inverse(factor: Tensor, upper: bool = False) -> Tensor:
    one = af.eye(sizes(factor)[-1], dtype=factor.dtype)
    guarded = factor - af.linalg.diag_embed(af.linalg.diagonal(factor)) + one  # as torch's table does
    return af.linalg.cholesky_solve(guarded, one, upper=upper)


same("linalg.inv", af.linalg.inv)


@maps("linalg.inv_ex", "inv", first=1, left_out=NO_INFO)
def _inv_ex(x: Tensor, *, check_errors: bool = False) -> Tensor:
    return af.linalg.inv(x)


same("linalg.det", af.linalg.det)


@maps("linalg.slogdet", "slogdet")
def _slogdet(x: Tensor) -> Sequence[Tensor]:
    return af.linalg.slogdet(x)


@composes("logdet", "slogdet where the sign is positive")
def _logdet(x: Tensor) -> Tensor:
    sign, size = af.linalg.slogdet(x)
    return af.where(sign < 0, af.full_like(size, float("nan")), size)


@maps("linalg.pinv singular", "pinv")
def _pinv_of_product(a: Tensor, b: Tensor) -> Tensor:
    return af.linalg.pinv(af.matmul(a, b, transpose_b=True))


@maps("linalg.pinv", "pinv")
def _pinv(
    x: Tensor, rcond: Any = None, *, atol: Any = None, rtol: Any = None, hermitian: bool = False
) -> Tensor:
    need(atol is None, "atol of pinv: ours has a part of the largest")
    need(
        not isinstance(rtol, Tensor) and not isinstance(rcond, Tensor),
        "rtol as a tensor: ours takes a number",
    )
    return af.linalg.pinv(x, rtol if rcond is None else rcond)


@maps("linalg.pinv hermitian", "pinv")
def _pinv_hermitian(x: Tensor, *, hermitian: bool = False) -> Tensor:
    return af.linalg.pinv(_symmetric(x))


@maps("pinverse", "pinv")
def _pinverse(x: Tensor, rcond: float = 1e-15) -> Tensor:
    return af.linalg.pinv(x, rcond)


@maps("linalg.matrix_rank, linalg.matrix_rank hermitian", "matrix_rank")
def _matrix_rank(
    x: Tensor, tol: Any = None, *, atol: Any = None, rtol: Any = None, hermitian: bool = False
) -> Tensor:
    need(tol is None and atol is None, "atol of matrix_rank: ours has a part of the largest")
    need(not isinstance(rtol, Tensor), "rtol as a tensor: ours takes a number")
    return af.linalg.matrix_rank(x, rtol)


@maps("linalg.lstsq grad_oriented", "lstsq", first=1, left_out=NO_RESIDUALS)
def _lstsq_alone(a: Tensor, b: Tensor, driver: str | None = None) -> Tensor:
    return _lstsq(a, b)


@maps("linalg.lstsq", "lstsq", first=1, left_out=NO_RESIDUALS)
def _lstsq(a: Tensor, b: Tensor, rcond: float | None = None, *, driver: str | None = None) -> Tensor:
    if _column(b, a):
        return af.squeeze(af.linalg.lstsq(a, af.expand_dims(b, -1), rcond), -1)
    return af.linalg.lstsq(a, b, rcond)


# ---------------------------------------------------------------------------------- factors


def _symmetric(x: Tensor) -> Tensor:
    """How torch's table guards the input of what takes Hermitian matrices."""
    return x + af.matrix_transpose(x)


@maps("linalg.cholesky, cholesky", "cholesky")
def _cholesky(x: Tensor, upper: bool = False) -> Tensor:
    return af.linalg.cholesky(_symmetric(x), upper=upper)


@maps("linalg.cholesky_ex", "cholesky", first=1, left_out=NO_INFO)
def _cholesky_ex(x: Tensor, *, upper: bool = False, check_errors: bool = False) -> Tensor:
    return af.linalg.cholesky(_symmetric(x), upper=upper)


@maps("linalg.qr", "qr")
def _qr(x: Tensor, mode: str = "reduced") -> Sequence[Tensor]:
    need(mode == "reduced", "another mode of qr than reduced: ours has that one")
    return af.linalg.qr(x)


@maps("qr", "qr")
def _old_qr(x: Tensor, some: bool = True) -> Sequence[Tensor]:
    need(some, "another mode of qr than reduced: ours has that one")
    return af.linalg.qr(x)


@maps("linalg.eigh", "eigh", settled={"out_fn": lambda values, vectors: [values, af.abs(vectors)]})
def _eigh(x: Tensor, UPLO: str = "L") -> Sequence[Tensor]:
    return af.linalg.eigh(_symmetric(x))


@maps("linalg.eigvalsh", "eigvalsh")
def _eigvalsh(x: Tensor, UPLO: str = "L") -> Tensor:
    return af.linalg.eigvalsh(_symmetric(x))


@maps("linalg.svdvals", "svdvals")
def _svdvals(x: Tensor, *, driver: str | None = None) -> Tensor:
    return af.linalg.svdvals(x)


_OF_NO_CHOICE = {
    "fn_U": lambda u, s, vh: [af.abs(u)],
    "fn_S": lambda u, s, vh: [s],
    "fn_Vh": lambda u, s, vh: [s, af.abs(vh)],
    "fn_UVh": lambda u, s, vh: [u @ vh, s],
}


@maps("linalg.svd", "svd", settled=_OF_NO_CHOICE)
def _svd(x: Tensor, full_matrices: bool = True, *, driver: str | None = None) -> Sequence[Tensor]:
    need(not full_matrices, "full matrices of svd: ours has the reduced form")
    return af.linalg.svd(x)


@maps("svd", "svd", settled=_OF_NO_CHOICE)
def _old_svd(x: Tensor, some: bool = True, compute_uv: bool = True) -> Sequence[Tensor]:
    need(some and compute_uv, "full matrices of svd: ours has the reduced form")
    return af.linalg.svd(x)


@composes("linalg.cond", "the largest of svdvals / the smallest")
def _cond(x: Tensor, p: Any = None) -> Tensor:
    need(p is None, "cond of other norms")
    s = af.linalg.svdvals(x)
    return af.max(s, -1) / af.min(s, -1)
