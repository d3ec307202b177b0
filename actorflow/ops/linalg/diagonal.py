"""Triangles and diagonals of the last two axes: tril, triu, diagonal, diag_embed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from actorflow.errors import SpecError
from actorflow.graph.autodiff import Use
from actorflow.graph.builder import Tensor, build_one
from actorflow.graph.node import Attr
from actorflow.graph.opdef import SpecRule, op
from actorflow.ops.definition.arguments import api_function
from actorflow.values.spec import Shape, Spec, merge, show


def _check_matrices(op_name: str, shape: Shape) -> None:
    if shape is not None and len(shape) < 2:
        message = f"{op_name} needs at least two axes, got {show(shape)}"
        raise SpecError(message)


def _triangle(op_name: str) -> SpecRule:
    def rule(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
        _check_matrices(op_name, inputs[0].shape)
        return (inputs[0],)

    return rule


def _tril_gradient(use: Use, grad: Tensor) -> Sequence[Tensor | None]:
    return (tril(grad, use.attrs["offset"]),)


@op("tril", spec=_triangle("tril"), gradient=_tril_gradient)
@api_function
def tril(x: Any, offset: int = 0, *, name: str | None = None) -> Tensor:
    """The lower triangles of the last two axes: zeros right of the diagonal `offset`.

    Shapes:   kept
    Dtypes:   any
    Gradient: the same triangles of g.
    Raises:   SpecError for less than two axes.
    """
    return build_one("tril", [x], {"offset": offset}, name=name)


def _triu_gradient(use: Use, grad: Tensor) -> Sequence[Tensor | None]:
    return (triu(grad, use.attrs["offset"]),)


@op("triu", spec=_triangle("triu"), gradient=_triu_gradient)
@api_function
def triu(x: Any, offset: int = 0, *, name: str | None = None) -> Tensor:
    """The upper triangles: zeros left of the diagonal `offset`; else, gradient included, like `tril`."""
    return build_one("triu", [x], {"offset": offset}, name=name)


def _diagonal_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    (x,), offset = inputs, attrs["offset"]
    _check_matrices("diagonal", x.shape)
    if x.shape is None:
        return (x,)
    *lead, rows, columns = x.shape
    known = rows is not None and columns is not None
    # A negative offset costs rows, a positive one columns.
    length = max(0, min(rows + min(offset, 0), columns - max(offset, 0))) if known else None
    return (Spec((*lead, length), x.dtype),)


def _diagonal_gradient(use: Use, grad: Tensor) -> Sequence[Tensor | None]:
    return (diagonal_grad(grad, use.inputs[0], use.attrs["offset"]),)


@op("diagonal", spec=_diagonal_spec, gradient=_diagonal_gradient)
@api_function
def diagonal(x: Any, offset: int = 0, *, name: str | None = None) -> Tensor:
    """The diagonals of the last two axes, `offset` places to the right of the main one; views.

    Its sum over the last axis is the trace.

    Shapes:   x (..., n, m) -> (..., k) for the k elements of the diagonal
    Dtypes:   any
    Gradient: zeros with g on the diagonal.
    Raises:   SpecError for less than two axes.

    >>> with af.Graph():
    ...     af.linalg.diagonal(af.placeholder("float32", (None, 3, 4), name="x"), 1)
    <Tensor diagonal:0 (None, 3) float32>
    """
    return build_one("diagonal", [x], {"offset": offset}, name=name)


def _diagonal_grad_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    grad, like = inputs
    merge(grad.shape, _diagonal_spec([like], attrs)[0].shape)
    return (Spec(like.shape, grad.dtype),)


def _diagonal_back(use: Use, grad: Tensor) -> Sequence[Tensor | None]:
    return (diagonal(grad, use.attrs["offset"]), None)[: len(use.inputs)]


@op("diagonal_grad", spec=_diagonal_grad_spec, gradient=_diagonal_back)
def diagonal_grad(grad: Any, like: Any, offset: int = 0, *, name: str | None = None) -> Tensor:
    """Zeros in the shape of `like` with `grad` on a diagonal: the gradient of `diagonal`.

    Shapes:   grad that of `diagonal(like, offset)` -> that of `like`
    Dtypes:   any, that of `grad`
    Gradient: the diagonal again; none to `like`.
    """
    return build_one("diagonal_grad", [grad, like], {"offset": offset}, name=name)


def _diag_embed_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    (x,) = inputs
    if x.shape is None:
        return (x,)
    if not x.shape:
        message = f"diag_embed needs at least one axis, got {x}"
        raise SpecError(message)
    length = x.shape[-1]
    side = None if length is None else length + abs(attrs["offset"])
    return (Spec((*x.shape[:-1], side, side), x.dtype),)


@op("diag_embed", spec=_diag_embed_spec, gradient=_diagonal_back)
@api_function
def diag_embed(x: Any, offset: int = 0, *, name: str | None = None) -> Tensor:
    """Square matrices with `x` on a diagonal, `offset` places to the right of the main one, else zeros.

    Shapes:   x (..., k) -> (..., k + |offset|, k + |offset|)
    Dtypes:   any
    Gradient: the diagonal of g.
    Raises:   SpecError for a scalar.
    """
    return build_one("diag_embed", [x], {"offset": offset}, name=name)
