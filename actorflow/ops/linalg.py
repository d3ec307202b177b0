"""Matrix products."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from actorflow.errors import SpecError
from actorflow.graph.autodiff import Use
from actorflow.graph.builder import Tensor, build_one
from actorflow.graph.node import Attr
from actorflow.graph.opdef import op
from actorflow.ops.broadcast import sum_to
from actorflow.ops.rules import Takes, check_dtypes
from actorflow.spec import Spec, broadcast, show


def _matmul_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    a, b = inputs
    check_dtypes("matmul", Takes.NUMBER, a, b)
    for spec in inputs:
        if spec.shape is not None and len(spec.shape) < 2:
            message = f"matmul needs at least two axes, got {show(a.shape)} and {show(b.shape)}"
            raise SpecError(message, hint="add one with af.expand_dims")
    if a.shape is None or b.shape is None:
        return (Spec(None, a.dtype),)
    left, right = _swapped(a.shape, attrs["transpose_a"]), _swapped(b.shape, attrs["transpose_b"])
    (m, k), (k2, n) = left[-2:], right[-2:]
    if k is not None and k2 is not None and k != k2:
        message = f"matmul needs equal inner dimensions, got {show(left)} and {show(right)}"
        if k == n or k2 == m:
            hint = f"transpose input {1 if k == n else 0}"
        else:
            hint = "the last size of input 0 must be the last but one of input 1"
        raise SpecError(message, hint=hint)
    lead = broadcast([left[:-2], right[:-2]])
    assert lead is not None
    return (Spec((*lead, m, n), a.dtype),)


def _swapped(shape: tuple[int | None, ...], transpose: bool) -> tuple[int | None, ...]:
    return (*shape[:-2], shape[-1], shape[-2]) if transpose else shape


def _matmul_gradient(use: Use, grad: Tensor) -> Sequence[Tensor | None]:
    (a, b), ta, tb = use.inputs, use.attrs["transpose_a"], use.attrs["transpose_b"]
    flat = a.spec.rank == b.spec.rank == 2  # nothing was broadcast
    to_a = to_b = None
    if use.needs[0]:
        to_a = matmul(b, grad, tb, True) if ta else matmul(grad, b, False, not tb)
        to_a = to_a if flat else sum_to(to_a, a)
    if use.needs[1]:
        to_b = matmul(grad, a, True, ta) if tb else matmul(a, grad, not ta, False)
        to_b = to_b if flat else sum_to(to_b, b)
    return (to_a, to_b)


@op("matmul", spec=_matmul_spec, gradient=_matmul_gradient)
def matmul(
    a: Any, b: Any, transpose_a: bool = False, transpose_b: bool = False, *, name: str | None = None
) -> Tensor:
    """The matrix product over the last two axes, which can be swapped first; leading axes broadcast.

    Shapes:   a (..., m, k), b (..., k, n) -> (..., m, n)
    Dtypes:   numbers, the same
    Gradient: g·bᵀ and aᵀ·g, summed over leading axes that were broadcast.
    Raises:   SpecError when inner sizes differ, an input has less than two axes or dtypes differ.

    >>> with af.Graph():
    ...     af.placeholder("float32", (None, 784), name="x") @ af.placeholder("float32", (784, 10), name="w")
    <Tensor matmul:0 (None, 10) float32>
    """
    attrs = {"transpose_a": bool(transpose_a), "transpose_b": bool(transpose_b)}
    return build_one("matmul", [a, b], attrs, name=name)
