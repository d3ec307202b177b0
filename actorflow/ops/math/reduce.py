"""Folding axes: products, means, extremes and where they lie, truths (`sum` is in `broadcast`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from actorflow.errors import SpecError
from actorflow.graph.autodiff import Use
from actorflow.graph.builder import Tensor, build_one
from actorflow.graph.node import Attr
from actorflow.graph.opdef import NOT_DIFFERENTIABLE, SpecRule, op
from actorflow.ops.array.broadcast import broadcast_like, sum, unreduce
from actorflow.ops.array.constants import zeros_like
from actorflow.ops.array.identity import cast, widen_half
from actorflow.ops.array.shape import reshape, reshape_like
from actorflow.ops.definition.arguments import api_function
from actorflow.ops.definition.spec_rules import (
    Axis,
    DtypeClass,
    axes_of,
    check_dtypes,
    plain_axis,
    reduced_shape,
    size_of,
)
from actorflow.ops.math.elementwise import divide, multiply
from actorflow.ops.math.logic import is_extreme, where
from actorflow.ops.math.scan import products_of_others
from actorflow.values.arrays import as_dtype, is_differentiable, wide_dtype
from actorflow.values.spec import Spec, show


def reduction(
    op_name: str, takes: DtypeClass, result: str | None = None, *, of_some: bool = False
) -> SpecRule:
    """The rule of a reduction; `result` is another dtype's name, `of_some` refuses to fold no elements."""

    def rule(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
        (x,) = inputs
        check_dtypes(op_name, takes, x)
        shape = reduced_shape(x.shape, attrs["axis"], attrs["keepdims"])
        # Of an unknown rank the step looks.
        if of_some and x.shape is not None:
            check_not_empty(op_name, x, attrs["axis"])
        return (Spec(shape, x.dtype if result is None else as_dtype(result)),)

    return rule


def mean_like(op_name: str, takes: DtypeClass = DtypeClass.REAL) -> SpecRule:
    """The rule of a reduction that divides: inexact dtypes are kept, integers become float64."""

    def rule(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
        (x,) = inputs
        (folded,) = reduction(op_name, takes)(inputs, attrs)
        # The quotient of integers has another dtype; numpy's is float64.
        return (folded if is_differentiable(x.dtype) else Spec(folded.shape, as_dtype("float64")),)

    return rule


def check_not_empty(op_name: str, x: Spec, axis: Axis) -> None:
    """Raises SpecError when `axis` of `x`, whose rank is known, is known to be empty."""
    assert x.shape is not None
    if 0 in [x.shape[a] for a in axes_of(axis, len(x.shape))]:
        message = f"{op_name} needs at least one element to fold, got axis {axis} of {show(x.shape)}"
        raise SpecError(message)


def _attrs(axis: Axis, keepdims: bool) -> Mapping[str, Attr]:
    return {"axis": plain_axis(axis), "keepdims": bool(keepdims)}


def _mean_gradient(use: Use, grad: Tensor) -> Sequence[Tensor | None]:
    (x,), axis = use.inputs, use.attrs["axis"]
    folded = None if x.shape is None else size_of([x.shape[a] for a in axes_of(axis, len(x.shape))])
    # Sizes are open: their number is counted in the step.
    if folded is None:
        # Halves are divided in float32: n may be more than they count to.
        share = divide(widen_half(grad), count(x, axis))
    else:
        # An empty mean has no elements to give a gradient to.
        share = multiply(widen_half(grad), 1.0 / (folded or 1))
    return (unreduce(use, cast(share, grad.dtype)),)


@op("mean", spec=mean_like("mean", DtypeClass.NUMBER), gradient=_mean_gradient)
@api_function
def mean(x: Any, axis: Axis = None, keepdims: bool = False, *, name: str | None = None) -> Tensor:
    """The mean over `axis`, over all axes when it is None.

    Shapes:   the axes of `axis` are dropped, or kept with size 1 when `keepdims`
    Dtypes:   floating or complex, kept; integers -> float64, as in numpy
    Gradient: g/n, repeated along `axis`; n is the number of elements folded.
    Raises:   SpecError for bool, and for an axis that does not exist. The mean of none is NaN.

    >>> with af.Graph():
    ...     af.mean(af.placeholder("float32", (None, 3), name="x"))
    <Tensor mean:0 () float32>
    """
    return build_one("mean", [x], _attrs(axis, keepdims), name=name)


def _count_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    (x,) = inputs
    check_dtypes("count", DtypeClass.NUMBER, x)
    if x.shape is not None:
        axes_of(attrs["axis"], len(x.shape))
    # In the dtype of the sum, so that it divides without a cast.
    return (Spec((), wide_dtype(x.dtype)),)


@op("count", spec=_count_spec, gradient=NOT_DIFFERENTIABLE)
@api_function
def count(x: Any, axis: Axis = None, *, name: str | None = None) -> Tensor:
    """The number of elements that folding `axis` of `x` folds into one, in the dtype of their sum.

    Shapes:   any -> ()
    Dtypes:   numbers, kept; float32 for halves: a bfloat16 would count to 256
    Gradient: none, it depends on the shape alone.
    """
    return build_one("count", [x], {"axis": axis}, name=name)


def _extreme_gradient(use: Use, grad: Tensor) -> Sequence[Tensor | None]:
    (x,), (y,) = use.inputs, use.outputs
    # NaN is the extreme where there is one.
    hit = is_extreme(x, unreduce(use, y))
    return (where(hit, unreduce(use, share_of_ties(use, hit, grad)), zeros_like(x)),)


def share_of_ties(use: Use, hit: Tensor, grad: Tensor) -> Tensor:
    """The gradient of a reduction, over how many elements of those that it folds are `hit`."""
    (x,) = use.inputs
    # Counted in float32 for halves, which hold no number above 2048, or 256.
    ties = sum(cast(hit, wide_dtype(x.dtype)), use.attrs["axis"], keepdims=use.attrs["keepdims"])
    return cast(divide(widen_half(grad), ties), grad.dtype)


@op("max", spec=reduction("max", DtypeClass.REAL, of_some=True), gradient=_extreme_gradient)
@api_function
def max(x: Any, axis: Axis = None, keepdims: bool = False, *, name: str | None = None) -> Tensor:
    """The largest element over `axis`, over all axes when it is None; NaN if there is one.

    Shapes:   the axes of `axis` are dropped, or kept with size 1 when `keepdims`
    Dtypes:   real numbers, kept
    Gradient: g to the largest element, to NaN where there is one; shared evenly on ties.
    Raises:   SpecError for bool and complex, for an axis that does not exist or has size 0.
    """
    return build_one("max", [x], _attrs(axis, keepdims), name=name)


@op("min", spec=reduction("min", DtypeClass.REAL, of_some=True), gradient=_extreme_gradient)
@api_function
def min(x: Any, axis: Axis = None, keepdims: bool = False, *, name: str | None = None) -> Tensor:
    """The smallest element over `axis`, whose gradient goes there; else like `max`."""
    return build_one("min", [x], _attrs(axis, keepdims), name=name)


def _where_spec(op_name: str) -> SpecRule:
    def rule(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
        # Several axes have no single place.
        if isinstance(attrs["axis"], tuple):
            message = f"{op_name} folds one axis or all, got {attrs['axis']}"
            raise SpecError(message)
        return reduction(op_name, DtypeClass.REAL, "int64", of_some=True)(inputs, attrs)

    return rule


@op("argmax", spec=_where_spec("argmax"), gradient=NOT_DIFFERENTIABLE)
@api_function
def argmax(x: Any, axis: int | None = None, keepdims: bool = False, *, name: str | None = None) -> Tensor:
    """Where the largest element lies along `axis`, the first of them on ties, of NaN if there is one.

    Shapes:   the axis is dropped, or kept with size 1 when `keepdims`; None counts in the
              flattened `x`
    Dtypes:   real numbers -> int64
    Gradient: none.
    Raises:   SpecError for an axis that does not exist or has size 0.
    """
    return build_one("argmax", [x], _attrs(axis, keepdims), name=name)


@op("argmin", spec=_where_spec("argmin"), gradient=NOT_DIFFERENTIABLE)
@api_function
def argmin(x: Any, axis: int | None = None, keepdims: bool = False, *, name: str | None = None) -> Tensor:
    """Where the smallest element lies along `axis`; no gradient. Else like `argmax`."""
    return build_one("argmin", [x], _attrs(axis, keepdims), name=name)


def _prod_gradient(use: Use, grad: Tensor) -> Sequence[Tensor | None]:
    (x,), axis = use.inputs, use.attrs["axis"]
    grad = unreduce(use, grad)
    # All at once: along a flat axis.
    if axis is None:
        flat = products_of_others(reshape(x, (-1,)), 0)
        return (multiply(grad, reshape_like(flat, x)),)
    # One axis after the other: the product of the others is one along this axis times one along the next.
    product = x
    for one in axis if isinstance(axis, tuple) else (axis,):  # of the axes so far, each kept with size 1
        grad = multiply(grad, broadcast_like(products_of_others(product, one), x))
        product = prod(product, one, keepdims=True)
    return (grad,)


@op("prod", spec=reduction("prod", DtypeClass.NUMBER), gradient=_prod_gradient)
@api_function
def prod(x: Any, axis: Axis = None, keepdims: bool = False, *, name: str | None = None) -> Tensor:
    """The product over `axis`, over all axes when it is None; that of none is 1.

    Shapes:   the axes of `axis` are dropped, or kept with size 1 when `keepdims`
    Dtypes:   numbers, kept: integers wrap around, halves are multiplied in float32
    Gradient: g times the product of the others; right where factors are 0 too.
    Raises:   SpecError for bool, and for an axis that does not exist.
    """
    return build_one("prod", [x], _attrs(axis, keepdims), name=name)


@op("any", spec=reduction("any", DtypeClass.ANY, "bool"), gradient=NOT_DIFFERENTIABLE)
@api_function
def any(x: Any, axis: Axis = None, keepdims: bool = False, *, name: str | None = None) -> Tensor:
    """Whether an element over `axis` is true, over all axes when it is None; False of none.

    Shapes:   the axes of `axis` are dropped, or kept with size 1 when `keepdims`
    Dtypes:   any -> bool; numbers other than 0 are true, NaN as well
    Gradient: none.
    Raises:   SpecError for an axis that does not exist.
    """
    return build_one("any", [x], _attrs(axis, keepdims), name=name)


@op("all", spec=reduction("all", DtypeClass.ANY, "bool"), gradient=NOT_DIFFERENTIABLE)
@api_function
def all(x: Any, axis: Axis = None, keepdims: bool = False, *, name: str | None = None) -> Tensor:
    """Whether every element over `axis` is true; True of none; no gradient. Else like `any`."""
    return build_one("all", [x], _attrs(axis, keepdims), name=name)


@op("count_nonzero", spec=reduction("count_nonzero", DtypeClass.ANY, "int64"), gradient=NOT_DIFFERENTIABLE)
@api_function
def count_nonzero(x: Any, axis: Axis = None, keepdims: bool = False, *, name: str | None = None) -> Tensor:
    """How many elements over `axis` are true or not 0, as int64; no gradient. Else like `any`."""
    return build_one("count_nonzero", [x], _attrs(axis, keepdims), name=name)
