"""What depends on which singular values count as zero, and norms: pinv, lstsq, matrix_rank, matrix_norm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf
from typing import Any, Literal

from actorflow.errors import SpecError
from actorflow.graph.autodiff import Use
from actorflow.graph.builder import Tensor, as_tensor, build_one, promote
from actorflow.graph.node import Attr
from actorflow.graph.opdef import NOT_DIFFERENTIABLE, op
from actorflow.ops.array.broadcast import sum
from actorflow.ops.array.shape import expand_dims
from actorflow.ops.definition.arguments import api_function, plain_number
from actorflow.ops.definition.spec_rules import DtypeClass
from actorflow.ops.linalg.factorisations import svdvals
from actorflow.ops.linalg.matrix_rules import check_matrix
from actorflow.ops.linalg.products import matmul, matrix_transpose
from actorflow.ops.math.elementwise import abs, add, subtract
from actorflow.ops.math.reduce import max, min
from actorflow.ops.math.statistics import vector_norm
from actorflow.values.arrays import DType, as_dtype
from actorflow.values.spec import Spec

_DIGITS = {"bfloat16": 7, "float16": 10, "float32": 23, "complex64": 23, "float64": 52, "complex128": 52}


def _cutoff(rtol: float | None, dtype: DType) -> Mapping[str, Attr]:
    """The attributes that say which singular values are noise."""
    # eps of the dtype that was given: halves are computed in float32, whose eps is not theirs.
    return {"rtol": None if rtol is None else float(rtol), "eps": 2.0 ** -_DIGITS.get(dtype.name, 0)}


def _pinv_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    (x,) = inputs
    found = check_matrix("pinv", x)
    return (x if found is None else Spec((*found[0], found[2], found[1]), x.dtype),)


def _pinv_gradient(use: Use, grad: Tensor) -> Sequence[Tensor | None]:
    (x,), (y,) = use.inputs, use.outputs
    # The three terms of Golub and Pereyra; 1 - x·y is multiplied out, so that no identity is made.
    back = matrix_transpose(grad)
    inner = matmul(matmul(y, grad, True), y, False, True)  # yᵀ·g·yᵀ
    rows = matmul(subtract(back, matmul(x, matmul(y, back))), matmul(y, y, False, True))
    columns = matmul(matmul(y, y, True), subtract(back, matmul(matmul(back, y), x)))
    return (subtract(add(rows, columns), inner),)


@op("pinv", spec=_pinv_spec, gradient=_pinv_gradient)
@api_function
def pinv(x: Any, rtol: float | None = None, *, name: str | None = None) -> Tensor:
    """The inverses of Moore and Penrose, by SVD: for what has no inverse, the nearest thing to one.

    Args:
        x: The matrices.
        rtol: Singular values below this part of the largest count as zero; None for the larger size of
            the matrices times the smallest step of the dtype, 2⁻²³ for float32.
        name: The name of the node.

    Shapes:   (..., m, n) -> (..., n, m)
    Dtypes:   floating or complex, kept; halves are computed in float32
    Gradient: (1 - x·y)·gᵀ·y·yᵀ + yᵀ·y·gᵀ·(1 - y·x) - yᵀ·g·yᵀ for the result y, where the rank does not
              change nearby (G. Golub and V. Pereyra, 1973).
    Raises:   SpecError for other shapes and dtypes; in the step KernelError for NaN and infinities.
    """
    x = as_tensor(x)
    return build_one("pinv", [x], _cutoff(rtol, x.dtype), name=name)


@api_function
def lstsq(a: Any, b: Any, rtol: float | None = None, *, name: str | None = None) -> Tensor:
    """The x that makes a·x - b shortest, column by column, and of several such x the shortest one.

    Computed as `pinv(a)`·b, which has no trouble with dependent columns of `a`.

    Shapes:   a (..., m, n), b (..., m, k) -> (..., n, k); leading axes broadcast
    Dtypes:   floating or complex, the same; halves are computed in float32
    Gradient: that of `pinv` and the product.
    Raises:   SpecError when shapes do not fit; in the step KernelError for NaN and infinities.
    """
    a, b = promote(a, b)
    return matmul(pinv(a, rtol), b, name=name)


def _matrix_rank_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    (x,) = inputs
    found = check_matrix("matrix_rank", x)
    return (Spec(None if found is None else found[0], as_dtype("int64")),)


@op("matrix_rank", spec=_matrix_rank_spec, gradient=NOT_DIFFERENTIABLE)
@api_function
def matrix_rank(x: Any, rtol: float | None = None, *, name: str | None = None) -> Tensor:
    """How many singular values of the matrices do not count as zero; see `pinv` for `rtol`.

    Shapes:   (..., m, n) -> (...)
    Dtypes:   floating or complex -> int64
    Gradient: none.
    Raises:   SpecError for other shapes and dtypes; in the step KernelError for NaN and infinities.
    """
    x = as_tensor(x)
    return build_one("matrix_rank", [x], _cutoff(rtol, x.dtype), name=name)


Order = Literal["fro", "nuc"] | float
"""Which norm: fro, nuc, or one of ±1, ±2 and ±infinity."""


@api_function
def matrix_norm(x: Any, ord: Order = "fro", keepdims: bool = False, *, name: str | None = None) -> Tensor:
    """A norm of every matrix: by default that of Frobenius, the root of the sum of squares.

    Args:
        x: The matrices.
        ord: "fro" for the root of the sum of squares; "nuc" for the sum of singular values, 2 for the
            largest and -2 for the smallest; 1 for the largest sum of sizes of a column and -1 for the
            smallest, `inf` and `-inf` for those of a row.
        keepdims: Whether the last two axes are kept with size 1.
        name: The name of the node.

    Shapes:   (..., m, n) -> (...), or (..., 1, 1) when `keepdims`
    Dtypes:   floating, kept
    Gradient: of "fro" g·x/norm, 0 for a matrix of zeros; else that of the sums and singular values.
    Raises:   SpecError for other shapes, dtypes and norms, and where there is no largest of none.
    """
    x = as_tensor(x)
    check_matrix("matrix_norm", x.spec, DtypeClass.FLOATING)
    if not isinstance(ord, str):
        ord = plain_number("matrix_norm", "ord", ord)
    if ord == "fro":
        return vector_norm(x, (-2, -1), keepdims, name=name)
    # Sums of sizes need no decomposition.
    if ord in (1, -1, inf, -inf):
        sums = sum(abs(x), -2 if ord in (1, -1) else -1)
        found = max(sums, -1, name=name) if ord > 0 else min(sums, -1, name=name)
    elif ord in ("nuc", 2, -2):
        values = svdvals(x)
        fold = {"nuc": sum, 2: max, -2: min}[ord]
        found = fold(values, -1, name=name)
    else:
        message = f"matrix_norm knows 'fro', 'nuc', 1, -1, 2, -2, inf and -inf, got {ord!r}"
        raise SpecError(message)
    return expand_dims(found, (-2, -1)) if keepdims else found
