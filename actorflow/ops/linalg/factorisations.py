"""Matrices as products of simpler ones: cholesky, qr, eigh, svd; all of them over leading axes at once.

Factors are what LAPACK makes of them: where a factor may have either sign, it is one of both, and a
loss should not depend on which.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from actorflow.graph.autodiff import Use
from actorflow.graph.builder import Tensor, build, build_one
from actorflow.graph.node import Attr
from actorflow.graph.opdef import op
from actorflow.ops.array.constants import ones_like, zeros_like
from actorflow.ops.array.shape import expand_dims
from actorflow.ops.array.slicing import concat
from actorflow.ops.definition.arguments import api_function
from actorflow.ops.linalg.matrix_rules import check_matrix, check_square, real_of
from actorflow.ops.linalg.matrix_rules import square as of_square
from actorflow.ops.linalg.products import matmul, matrix_band_part, matrix_transpose
from actorflow.ops.linalg.systems import triangular_solve
from actorflow.ops.math.elementwise import add, divide, multiply, square, subtract
from actorflow.values.spec import Dim, Spec

Grads = Sequence[Tensor | None]


def _symmetric(x: Tensor) -> Tensor:
    # x counts by its symmetric part alone, so its gradient is symmetric.
    return multiply(add(x, matrix_transpose(x)), 0.5)


def _columns_times(x: Tensor, values: Tensor) -> Tensor:
    """x·diag(values): the columns of x, each times its value."""
    return multiply(x, expand_dims(values, -2))


def _rows_times(values: Tensor, x: Tensor) -> Tensor:
    """diag(values)·x: the rows of x, each times its value."""
    return multiply(expand_dims(values, -1), x)


# ------------------------------------------------------------------------------------ cholesky


def _cholesky_gradient(use: Use, grad: Tensor) -> Grads:
    (factor,) = use.outputs
    # u = lᵀ: the rest is the same.
    if use.attrs["upper"]:
        factor, grad = matrix_transpose(factor), matrix_transpose(grad)
    product = matmul(factor, grad, True)
    # Φ: below the diagonal whole, and the diagonal once more, to be halved with all of it.
    lower = add(matrix_band_part(product, None, 0), matrix_band_part(product, None, -1))
    # From both sides without an inverse: two triangular systems.
    half = triangular_solve(factor, multiply(lower, 0.5), adjoint=True)
    return (_symmetric(triangular_solve(factor, matrix_transpose(half), adjoint=True)),)


@op("cholesky", spec=of_square("cholesky"), gradient=_cholesky_gradient)
@api_function
def cholesky(x: Any, *, upper: bool = False, name: str | None = None) -> Tensor:
    """The lower triangle l with l·lᴴ = x, for positive definite x; or the upper u with uᴴ·u = x.

    What is factored is (x + xᴴ)/2, which is x where it is Hermitian, as it should be: so the gradient
    is symmetric, and a step along it keeps x so.

    Shapes:   (..., n, n), kept
    Dtypes:   floating or complex, kept; halves are computed in float32
    Gradient: the symmetric part of l⁻ᵀ·Φ(lᵀ·g)·l⁻¹; Φ halves the diagonal and drops what is above it
              (I. Murray, Differentiation of the Cholesky decomposition, 2016).
    Raises:   SpecError for other shapes and dtypes; in the step KernelError for a matrix that is not
              positive definite.

    >>> with af.Graph():
    ...     af.linalg.cholesky(af.placeholder("float32", (None, 3, 3), name="x"))
    <Tensor cholesky:0 (None, 3, 3) float32>
    """
    return build_one("cholesky", [x], {"upper": upper}, name=name)


# ------------------------------------------------------------------------------------------ qr


def _smaller(m: Dim, n: Dim) -> Dim:
    # min of 0 and anything is 0.
    if m is None or n is None:
        return 0 if 0 in (m, n) else None
    return min(m, n)


def _qr_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    (x,) = inputs
    found = check_matrix("qr", x)
    if found is None:
        return (x, x)
    lead, m, n = found
    k = _smaller(m, n)
    return (Spec((*lead, m, k), x.dtype), Spec((*lead, k, n), x.dtype))


def _qr_gradient(use: Use, to_q: Tensor | None, to_r: Tensor | None) -> Grads:
    (x,), (q, r) = use.inputs, use.outputs
    to_q = zeros_like(q) if to_q is None else to_q
    to_r = zeros_like(r) if to_r is None else to_r
    m, n = (None, None) if x.shape is None else x.shape[-2:]
    # Unknown sizes count as tall: a wide matrix must be known to be one.
    if m is None or n is None or m >= n:
        return (_of_tall(q, r, to_q, to_r),)
    # x is (left, right), r is (u, v), and v = qᵀ·right.
    to_v, right = to_r[..., m:], x[..., m:]
    # v depends on q: its gradient goes to q and to the right part of x.
    to_left = _of_tall(q, r[..., :m], add(to_q, matmul(right, to_v, False, True)), to_r[..., :m])
    return (concat([to_left, matmul(q, to_v)], -1),)


def _of_tall(q: Tensor, r: Tensor, to_q: Tensor, to_r: Tensor) -> Tensor:
    """(to_q + q·sym(r·to_rᵀ - to_qᵀ·q))·r⁻ᵀ, where sym copies what is below the diagonal above it."""
    core = subtract(matmul(r, to_r, False, True), matmul(to_q, q, True))
    above = matrix_transpose(matrix_band_part(core, None, -1))
    whole = add(to_q, matmul(q, add(matrix_band_part(core, None, 0), above)))
    return matrix_transpose(triangular_solve(r, matrix_transpose(whole), lower=False))


@op("qr", spec=_qr_spec, gradient=_qr_gradient)
@api_function
def qr(x: Any, *, name: str | None = None) -> tuple[Tensor, Tensor]:
    """Orthonormal columns q and an upper triangle r with q·r = x, in the reduced form.

    Shapes:   (..., m, n) -> q (..., m, k) and r (..., k, n), k = min(m, n)
    Dtypes:   floating or complex, kept; halves are computed in float32
    Gradient: (gq + q·sym(r·grᵀ - gqᵀ·q))·r⁻ᵀ, where sym mirrors the lower triangle (D. Roberts and
              L. Roberts, QR and LQ decomposition matrix backpropagation algorithms, 2020). The first k
              columns are linearly independent; m < n is known while the graph is built, or the step
              fails.
    Raises:   SpecError for other shapes and dtypes.
    """
    q, r = build("qr", [x], name=name)
    return q, r


# ---------------------------------------------------------------------------------------- eigh


def _eigh_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    (x,) = inputs
    found = check_square("eigh", x)
    if found is None:
        return (Spec(None, real_of(x.dtype)), x)
    lead, n = found
    return (Spec((*lead, n), real_of(x.dtype)), Spec((*lead, n, n), x.dtype))


def _gaps(values: Tensor) -> Tensor:
    """1/(values[j] - values[i]) at (i, j), 0 on the diagonal."""
    apart = subtract(expand_dims(values, -2), expand_dims(values, -1))
    # 1 on the diagonal keeps it from 0/0; it is taken off above.
    eye = matrix_band_part(ones_like(apart), 0, 0)
    return divide(subtract(1, eye), add(apart, eye))


def _eigh_gradient(use: Use, to_w: Tensor | None, to_v: Tensor | None) -> Grads:
    w, v = use.outputs
    parts = []
    # Of eigenvalues alone no gap is needed: right where they are equal, too.
    if to_w is not None:
        parts.append(_columns_times(v, to_w))
    if to_v is not None:
        parts.append(matmul(v, multiply(_gaps(w), matmul(v, to_v, True))))
    total = parts[0] if len(parts) == 1 else add(*parts)
    return (_symmetric(matmul(total, v, False, True)),)


@op("eigh", spec=_eigh_spec, gradient=_eigh_gradient)
@api_function
def eigh(x: Any, *, name: str | None = None) -> tuple[Tensor, Tensor]:
    """Eigenvalues w, in ascending order, and orthonormal eigenvectors v of Hermitian matrices.

    What is decomposed is (x + xᴴ)/2, which is x where it is Hermitian: so the gradient is symmetric.

    Shapes:   (..., n, n) -> w (..., n), real, and v (..., n, n), whose columns are the vectors
    Dtypes:   floating or complex; halves are computed in float32
    Gradient: the symmetric part of v·(diag(gw) + f∘(vᵀ·gv))·vᵀ, f[i, j] = 1/(w[j] - w[i]) beside the
              diagonal. That for v is infinite or NaN where eigenvalues are equal.
    Raises:   SpecError for other shapes and dtypes; in the step KernelError for NaN and infinities.
    """
    w, v = build("eigh", [x], name=name)
    return w, v


def _eigvalsh_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    (x,) = inputs
    found = check_square("eigvalsh", x)
    return (Spec(None if found is None else (*found[0], found[1]), real_of(x.dtype)),)


def _eigvalsh_gradient(use: Use, grad: Tensor) -> Grads:
    # Vectors are computed for the gradient alone.
    _, v = eigh(use.inputs[0])
    return (matmul(_columns_times(v, grad), v, False, True),)


@op("eigvalsh", spec=_eigvalsh_spec, gradient=_eigvalsh_gradient)
@api_function
def eigvalsh(x: Any, *, name: str | None = None) -> Tensor:
    """The eigenvalues of Hermitian matrices in ascending order, without the vectors; see `eigh`.

    Shapes:   (..., n, n) -> (..., n), real
    Dtypes:   floating or complex; halves are computed in float32
    Gradient: v·diag(g)·vᵀ, for which the vectors are computed.
    Raises:   what `eigh` raises.
    """
    return build_one("eigvalsh", [x], name=name)


# ----------------------------------------------------------------------------------------- svd


def _svd_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    (x,) = inputs
    found = check_matrix("svd", x)
    if found is None:
        return (x, Spec(None, real_of(x.dtype)), x)
    lead, m, n = found
    k = _smaller(m, n)
    return (
        Spec((*lead, m, k), x.dtype),
        Spec((*lead, k), real_of(x.dtype)),
        Spec((*lead, k, n), x.dtype),
    )


def _svd_gradient(use: Use, to_u: Tensor | None, to_s: Tensor | None, to_vh: Tensor | None) -> Grads:
    u, s, vh = use.outputs
    left: list[Tensor] = []  # to be multiplied by vh
    right: list[Tensor] = []  # to be multiplied by u, from the left
    if to_s is not None:
        left.append(_columns_times(u, to_s))
    if to_u is not None:
        turn = matmul(u, to_u, True)
        # Within the space of u, and below what points out of it.
        within = _columns_times(_turn(s, turn), s)
        beyond = divide(subtract(to_u, matmul(u, turn)), expand_dims(s, -2))
        left += [matmul(u, within), beyond]
    if to_vh is not None:
        turn = matmul(vh, to_vh, False, True)
        within = _rows_times(s, _turn(s, turn))
        beyond = divide(subtract(to_vh, matmul(turn, vh, True)), expand_dims(s, -1))
        right += [matmul(within, vh), beyond]
    parts = [matmul(_total(left), vh)] if left else []
    # u and vᴴ each once, for all parts.
    parts += [matmul(u, _total(right))] if right else []
    return (_total(parts),)


def _turn(s: Tensor, turn: Tensor) -> Tensor:
    """(turn - turnᵀ)[i, j] / (s[j]² - s[i]²), 0 on the diagonal."""
    return multiply(_gaps(square(s)), subtract(turn, matrix_transpose(turn)))


def _total(parts: Sequence[Tensor]) -> Tensor:
    total = parts[0]
    for part in parts[1:]:
        total = add(total, part)
    return total


@op("svd", spec=_svd_spec, gradient=_svd_gradient)
@api_function
def svd(x: Any, *, name: str | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """Orthonormal u, singular values s in descending order, and vᴴ, with u·diag(s)·vᴴ = x; the reduced form.

    Shapes:   (..., m, n) -> u (..., m, k), s (..., k), real, and vᴴ (..., k, n), k = min(m, n)
    Dtypes:   floating or complex; halves are computed in float32
    Gradient: of s alone, u·diag(gs)·vᵀ, everywhere; of u and v with 1/(s[j]² - s[i]²), so infinite or
              NaN where singular values are equal, and where one is zero (J. Townsend, Differentiating
              the singular value decomposition, 2016).
    Raises:   SpecError for other shapes and dtypes; in the step KernelError for NaN and infinities.

    >>> with af.Graph():
    ...     u, s, vh = af.linalg.svd(af.placeholder("float32", (None, 5, 3), name="x"))
    >>> s
    <Tensor svd:1 (None, 3) float32>
    """
    u, s, vh = build("svd", [x], name=name)
    return u, s, vh


def _svdvals_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    (x,) = inputs
    found = check_matrix("svdvals", x)
    return (Spec(None if found is None else (*found[0], _smaller(*found[1:])), real_of(x.dtype)),)


def _svdvals_gradient(use: Use, grad: Tensor) -> Grads:
    u, _, vh = svd(use.inputs[0])
    return (matmul(_columns_times(u, grad), vh),)


@op("svdvals", spec=_svdvals_spec, gradient=_svdvals_gradient)
@api_function
def svdvals(x: Any, *, name: str | None = None) -> Tensor:
    """The singular values of matrices in descending order, without the vectors; see `svd`.

    Shapes:   (..., m, n) -> (..., min(m, n)), real
    Dtypes:   floating or complex; halves are computed in float32
    Gradient: u·diag(g)·vᵀ, for which the vectors are computed.
    Raises:   what `svd` raises.
    """
    return build_one("svdvals", [x], name=name)
