"""Folding axes: mean, max, min, argmax (`sum` lives with its adjoint in `broadcast`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from actorflow.arrays import as_dtype
from actorflow.errors import SpecError
from actorflow.graph.autodiff import Use
from actorflow.graph.builder import Tensor, build_one
from actorflow.graph.node import Attr
from actorflow.graph.opdef import NOT_DIFFERENTIABLE, SpecRule, op
from actorflow.ops.broadcast import sum, unreduce
from actorflow.ops.elementwise import divide, multiply
from actorflow.ops.logic import equal
from actorflow.ops.passing import cast
from actorflow.ops.rules import Axis, Takes, axes_of, check_dtypes, plain_axis, reduced, size_of
from actorflow.spec import Spec, show


def _reduction(op_name: str, takes: Takes, *, of_some: bool = False) -> SpecRule:
    """The rule of a reduction that keeps the dtype; `of_some` refuses to fold no elements."""

    def rule(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
        (x,) = inputs
        check_dtypes(op_name, takes, x)
        shape = reduced(x.shape, attrs["axis"], attrs["keepdims"])
        if of_some and x.shape is not None:
            _check_not_empty(op_name, x, attrs["axis"])
        return (Spec(shape, x.dtype),)

    return rule


def _check_not_empty(op_name: str, x: Spec, axis: Axis) -> None:
    assert x.shape is not None
    if any(x.shape[a] == 0 for a in axes_of(axis, len(x.shape))):
        message = f"{op_name} needs at least one element to fold, got axis {axis} of {show(x.shape)}"
        raise SpecError(message)


def _attrs(axis: Axis, keepdims: bool) -> Mapping[str, Attr]:
    return {"axis": plain_axis(axis), "keepdims": bool(keepdims)}


def _mean_gradient(use: Use, grad: Tensor) -> Sequence[Tensor | None]:
    (x,), axis = use.inputs, use.attrs["axis"]
    folded = None if x.shape is None else size_of([x.shape[a] for a in axes_of(axis, len(x.shape))])
    if folded is None:
        return (unreduce(use, divide(grad, count(x, axis))),)
    return (unreduce(use, multiply(grad, 1.0 / (folded or 1))),)


@op("mean", spec=_reduction("mean", Takes.INEXACT), gradient=_mean_gradient)
def mean(x: Any, axis: Axis = None, keepdims: bool = False, *, name: str | None = None) -> Tensor:
    """The mean over `axis`, over all axes when it is None.

    Shapes:   the axes of `axis` are dropped, or kept with size 1 when `keepdims`
    Dtypes:   floating or complex, kept
    Gradient: g/n, repeated along `axis`; n is the number of elements folded.
    Raises:   SpecError for integers, and for an axis that does not exist.

    >>> with af.Graph():
    ...     af.mean(af.placeholder("float32", (None, 3), name="x"))
    <Tensor mean:0 () float32>
    """
    return build_one("mean", [x], _attrs(axis, keepdims), name=name)


def _count_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    (x,) = inputs
    check_dtypes("count", Takes.NUMBER, x)
    if x.shape is not None:
        axes_of(attrs["axis"], len(x.shape))
    return (Spec((), x.dtype),)


@op("count", spec=_count_spec, gradient=NOT_DIFFERENTIABLE)
def count(x: Any, axis: Axis = None, *, name: str | None = None) -> Tensor:
    """The number of elements that folding `axis` of `x` folds into one, in the dtype of `x`.

    Shapes:   any -> ()
    Dtypes:   numbers, kept; a float16 counts to 65504 only
    Gradient: none, it depends on the shape alone.
    """
    return build_one("count", [x], {"axis": plain_axis(axis)}, name=name)


def _extreme_gradient(use: Use, grad: Tensor) -> Sequence[Tensor | None]:
    (x,), (y,) = use.inputs, use.outputs
    hit = cast(equal(x, unreduce(use, y)), x.dtype)
    ties = sum(hit, use.attrs["axis"], keepdims=use.attrs["keepdims"])
    return (multiply(hit, unreduce(use, divide(grad, ties))),)


@op("max", spec=_reduction("max", Takes.REAL, of_some=True), gradient=_extreme_gradient)
def max(x: Any, axis: Axis = None, keepdims: bool = False, *, name: str | None = None) -> Tensor:
    """The largest element over `axis`, over all axes when it is None; NaN if there is one.

    Shapes:   the axes of `axis` are dropped, or kept with size 1 when `keepdims`
    Dtypes:   real numbers, kept
    Gradient: g to the largest element; shared evenly on ties.
    Raises:   SpecError for bool and complex, for an axis that does not exist or has size 0.
    """
    return build_one("max", [x], _attrs(axis, keepdims), name=name)


@op("min", spec=_reduction("min", Takes.REAL, of_some=True), gradient=_extreme_gradient)
def min(x: Any, axis: Axis = None, keepdims: bool = False, *, name: str | None = None) -> Tensor:
    """The smallest element over `axis`, whose gradient goes there; else like `max`."""
    return build_one("min", [x], _attrs(axis, keepdims), name=name)


def _argmax_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    (x,), axis = inputs, attrs["axis"]
    check_dtypes("argmax", Takes.REAL, x)
    if isinstance(axis, tuple):
        message = f"argmax folds one axis or all, got {axis}"
        raise SpecError(message)
    shape = reduced(x.shape, axis, attrs["keepdims"])
    if x.shape is not None:
        _check_not_empty("argmax", x, axis)
    return (Spec(shape, as_dtype("int64")),)


@op("argmax", spec=_argmax_spec, gradient=NOT_DIFFERENTIABLE)
def argmax(x: Any, axis: int | None = None, keepdims: bool = False, *, name: str | None = None) -> Tensor:
    """Where the largest element lies along `axis`, the first of them on ties.

    Shapes:   the axis is dropped, or kept with size 1 when `keepdims`; None counts in the
              flattened `x`
    Dtypes:   real numbers -> int64
    Gradient: none.
    Raises:   SpecError for an axis that does not exist or has size 0.
    """
    return build_one("argmax", [x], _attrs(axis, keepdims), name=name)
