"""Systems of linear equations, inverses and determinants; all of them over leading axes at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from actorflow.errors import SpecError
from actorflow.graph.autodiff import Use
from actorflow.graph.builder import Tensor, build, build_one, promote
from actorflow.graph.node import Attr
from actorflow.graph.opdef import Promoting, SpecRule, op
from actorflow.ops.array.broadcast import unbroadcast
from actorflow.ops.array.shape import expand_dims
from actorflow.ops.definition.arguments import api_function
from actorflow.ops.linalg.matrix_rules import check_matrix, check_square, real_of, square
from actorflow.ops.linalg.products import matmul, matrix_band_part, matrix_transpose
from actorflow.ops.math.elementwise import multiply, negative
from actorflow.values.spec import Spec, broadcast, show


def _system(op_name: str) -> SpecRule:
    """The rule of ops that solve a·x = b: the spec of b, over the leading axes of both."""

    def rule(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
        a, b = inputs
        if a.dtype != b.dtype:
            message = f"{op_name} needs equal dtypes, got {a} and {b}"
            raise SpecError(message, hint="convert one with af.cast")
        # ORDER: a's dtype and squareness, then b's.
        left, right = check_square(op_name, a), check_matrix(op_name, b)
        if left is None or right is None:
            return (Spec(None, a.dtype),)
        (lead_a, n), (lead_b, rows, columns) = left, right
        if n is not None and rows is not None and n != rows:
            message = f"{op_name} needs as many rows in b as in a, got {show(a.shape)} and {show(b.shape)}"
            hint = "transpose b with af.matrix_transpose" if n == columns else None
            raise SpecError(message, hint=hint)
        lead = broadcast([lead_a, lead_b])
        assert lead is not None
        return (Spec((*lead, n if rows is None else rows, columns), a.dtype),)

    return Promoting(rule)


def _per_matrix(values: Tensor, matrices: Tensor) -> Tensor:
    """The matrices (..., n, n), each times its own one of values (...)."""
    return multiply(expand_dims(values, (-2, -1)), matrices)


def _sum_leading(use: Use, to_a: Tensor, to_b: Tensor) -> Sequence[Tensor | None]:
    """The gradients of a system, summed over leading axes along which an input was broadcast."""
    a, b = use.inputs
    # Two matrices: nothing was broadcast.
    if a.spec.rank == b.spec.rank == 2:
        return (to_a, to_b)
    return (unbroadcast(to_a, a), unbroadcast(to_b, b))


# ---------------------------------------------------------------------------------- solutions


def _solve_gradient(use: Use, grad: Tensor) -> Sequence[Tensor | None]:
    a, (x,) = use.inputs[0], use.outputs
    # One more system, with the same matrix transposed: no inverse.
    to_b = solve(matrix_transpose(a), grad)
    return _sum_leading(use, negative(matmul(to_b, x, False, True)), to_b)


@op("solve", spec=_system("solve"), gradient=_solve_gradient)
@api_function
def solve(a: Any, b: Any, *, name: str | None = None) -> Tensor:
    """The x of a·x = b, by LU with pivots; more accurate than `inv` and a product, and faster.

    Shapes:   a (..., n, n), b (..., n, k) -> (..., n, k); leading axes broadcast. A vector b needs
              another axis: `af.expand_dims(b, -1)`
    Dtypes:   floating or complex, the same; halves are computed in float32
    Gradient: to b the solution y of aᵀ·y = g, to a -y·xᵀ; summed over what was broadcast.
    Raises:   SpecError when shapes do not fit; in the step KernelError for a singular matrix, that is,
              one with a pivot of exactly zero.

    >>> with af.Graph():
    ...     a, b = af.placeholder("float32", (3, 3), name="a"), af.placeholder("float32", (3, 1), name="b")
    ...     af.linalg.solve(a, b)
    <Tensor solve:0 (3, 1) float32>
    """
    return build_one("solve", [a, b], name=name)


def _triangular_gradient(use: Use, grad: Tensor) -> Sequence[Tensor | None]:
    a, (x,), lower, adjoint = use.inputs[0], use.outputs, use.attrs["lower"], use.attrs["adjoint"]
    to_b = triangular_solve(a, grad, lower=lower, adjoint=not adjoint)
    # The solution x stands where b did: -y·xᵀ, or transposed.
    full = matmul(x, to_b, False, True) if adjoint else matmul(to_b, x, False, True)
    # The other half is not read, so it has no gradient.
    return _sum_leading(use, negative(triangle(full, lower=lower)), to_b)


def triangle(x: Tensor, *, lower: bool) -> Tensor:
    """One half of the matrices, with their diagonal; zeros in the other."""
    return matrix_band_part(x, None, 0) if lower else matrix_band_part(x, 0, None)


@op("triangular_solve", spec=_system("triangular_solve"), gradient=_triangular_gradient)
@api_function
def triangular_solve(
    a: Any, b: Any, *, lower: bool = True, adjoint: bool = False, name: str | None = None
) -> Tensor:
    """The x of a·x = b for matrices `a` that are triangles; the half that should be zero is not read.

    Args:
        a: The triangles.
        b: The right sides, as columns.
        lower: Whether `a` is a lower triangle.
        adjoint: Whether to solve aᴴ·x = b instead: transposed, and conjugate where complex.
        name: The name of the node.

    Shapes:   a (..., n, n), b (..., n, k) -> (..., n, k); leading axes broadcast
    Dtypes:   floating or complex, the same; halves are computed in float32
    Gradient: to b the solution y of aᵀ·y = g, to a the same triangle of -y·xᵀ; for `adjoint` the y of
              a·y = g, and -x·yᵀ.
    Raises:   SpecError when shapes do not fit; in the step KernelError for a zero on a diagonal.
    """
    attrs = {"lower": lower, "adjoint": adjoint}
    return build_one("triangular_solve", [a, b], attrs, name=name)


@api_function
def cholesky_solve(factor: Any, b: Any, *, upper: bool = False, name: str | None = None) -> Tensor:
    """The x of a·x = b for the matrix whose `cholesky` factor is given: two triangular systems.

    Shapes:   factor (..., n, n), b (..., n, k) -> (..., n, k); leading axes broadcast
    Dtypes:   floating or complex, the same; halves are computed in float32
    Gradient: that of the two `triangular_solve`.
    Raises:   SpecError when shapes do not fit; in the step KernelError for a zero on a diagonal.
    """
    factor, b = promote(factor, b)
    half = triangular_solve(factor, b, lower=not upper, adjoint=upper)
    return triangular_solve(factor, half, lower=not upper, adjoint=not upper, name=name)


# ------------------------------------------------------------------- inverses and determinants


def _inv_gradient(use: Use, grad: Tensor) -> Sequence[Tensor | None]:
    (y,) = use.outputs
    return (negative(matmul(matmul(y, grad, True), y, False, True)),)


@op("inv", spec=square("inv"), gradient=_inv_gradient)
@api_function
def inv(x: Any, *, name: str | None = None) -> Tensor:
    """The inverses of square matrices; to multiply by one, `solve` is faster and more accurate.

    Shapes:   (..., n, n), kept
    Dtypes:   floating or complex, kept; halves are computed in float32
    Gradient: -yᵀ·g·yᵀ for the inverse y.
    Raises:   SpecError for other shapes and dtypes; in the step KernelError for a singular matrix, that
              is, one with a pivot of exactly zero. Nearly singular ones have inverses of noise.
    """
    return build_one("inv", [x], name=name)


def _det_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    (x,) = inputs
    found = check_square("det", x)
    return (Spec(None if found is None else found[0], x.dtype),)


def _det_gradient(use: Use, grad: Tensor) -> Sequence[Tensor | None]:
    (x,), (y,) = use.inputs, use.outputs
    return (_per_matrix(multiply(grad, y), matrix_transpose(inv(x))),)


@op("det", spec=_det_spec, gradient=_det_gradient)
@api_function
def det(x: Any, *, name: str | None = None) -> Tensor:
    """The determinants of square matrices, by LU; 1 for those of no rows. See `slogdet` for large ones.

    Shapes:   (..., n, n) -> (...)
    Dtypes:   floating or complex, kept; halves are computed in float32
    Gradient: g·det(x)·x⁻ᵀ. It fails in the step for a singular x, where it is the matrix of cofactors.
    Raises:   SpecError for other shapes and dtypes.
    """
    return build_one("det", [x], name=name)


def _slogdet_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    (x,) = inputs
    found = check_square("slogdet", x)
    lead = None if found is None else found[0]
    return (Spec(lead, x.dtype), Spec(lead, real_of(x.dtype)))


def _slogdet_gradient(use: Use, of_sign: Tensor | None, of_log: Tensor | None) -> Sequence[Tensor | None]:
    if of_log is None:
        return (None,)  # the sign is constant wherever it has a derivative
    return (_per_matrix(of_log, matrix_transpose(inv(use.inputs[0]))),)


@op("slogdet", spec=_slogdet_spec, gradient=_slogdet_gradient)
@api_function
def slogdet(x: Any, *, name: str | None = None) -> tuple[Tensor, Tensor]:
    """The determinants of square matrices as sign and logarithm of the size, which stay in range.

    Shapes:   (..., n, n) -> (...) twice; a singular matrix gives 0 and -inf
    Dtypes:   floating or complex; the sign has that of x, the logarithm is real
    Gradient: that of the logarithm, g·x⁻ᵀ; it fails in the step for a singular x. None of the sign.
    Raises:   SpecError for other shapes and dtypes.
    """
    sign, log = build("slogdet", [x], name=name)
    return sign, log
