"""Functions of square matrices that are sums of their powers: matrix_power, matrix_exp."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from actorflow.graph.autodiff import Use
from actorflow.graph.builder import Tensor, as_tensor, build_one
from actorflow.graph.opdef import op
from actorflow.ops.array.constants import ones_like, zeros_like
from actorflow.ops.array.slicing import concat, concat_grad
from actorflow.ops.definition.arguments import api_function
from actorflow.ops.definition.spec_rules import DtypeClass
from actorflow.ops.linalg.matrix_rules import check_square, square
from actorflow.ops.linalg.products import matmul, matrix_band_part, matrix_transpose
from actorflow.ops.linalg.systems import inv


@api_function
def matrix_power(x: Any, n: int, *, name: str | None = None) -> Tensor:
    """The n-th power of square matrices: a product of as many as n has binary digits, times at most two.

    Shapes:   (..., m, m), kept
    Dtypes:   numbers, kept: integers wrap around; negative n takes floating or complex ones
    Gradient: that of the products, and of `inv` for negative n.
    Raises:   SpecError for other shapes and dtypes; in the step KernelError for negative n and a
              singular matrix.
    """
    x, left = as_tensor(x), n
    check_square("matrix_power", x.spec, DtypeClass.NUMBER)
    if left < 0:
        # A negative power is one of the inverse.
        x, left = inv(x), -left
    found: Tensor | None = None
    while left:
        # By the binary digits: a product for each 1, a square for each digit.
        if left & 1:
            found = x if found is None else matmul(found, x)
        left >>= 1
        # No square behind the last digit.
        if left:
            x = matmul(x, x)
    # The power 0 of any matrix.
    return matrix_band_part(ones_like(x), 0, 0, name=name) if found is None else found


def _matrix_exp_gradient(use: Use, grad: Tensor) -> Sequence[Tensor | None]:
    """The derivative of e^y along g, y = xᵀ, is the corner of e^[[y, g], [0, y]]."""
    back = matrix_transpose(use.inputs[0])
    block = concat([concat([back, grad], -1), concat([zeros_like(back), back], -1)], -2)
    # concat_grad cuts by the sizes of the pieces, which may be open.
    top, _ = concat_grad(matrix_exp(block), [concat([back, back], -1)] * 2, -2)
    _, corner = concat_grad(top, [back, back], -1)
    return (corner,)


@op("matrix_exp", spec=square("matrix_exp"), gradient=_matrix_exp_gradient)
@api_function
def matrix_exp(x: Any, *, name: str | None = None) -> Tensor:
    """The exponential of square matrices: 1 + x + x²/2! + x³/3! + …; not that of the elements.

    Shapes:   (..., n, n), kept
    Dtypes:   floating or complex, kept; halves are computed in float32
    Gradient: the derivative of the exponential at xᵀ along g, out of one of a matrix of twice the size.
    Raises:   SpecError for other shapes and dtypes.
    """
    return build_one("matrix_exp", [x], name=name)
