"""Folding rows that belong together: `ids` says for each row of `x` which segment it goes into.

Two families. `segment_*` wants the ids sorted; then the rows of a segment lie side by side, and
the number of segments may be left to the last id. `unsorted_segment_*` takes ids in any order, and
drops the rows of negative ids. A segment without rows gets what folding nothing gives: 0 for sum
and mean, 1 for prod, -inf or the smallest integer for max, inf or the largest for min.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from actorflow.errors import SpecError
from actorflow.graph.autodiff import Use
from actorflow.graph.builder import Tensor, as_tensor, build_one
from actorflow.graph.node import Attr
from actorflow.graph.opdef import SpecRule, op
from actorflow.ops.array.broadcast import broadcast_like
from actorflow.ops.array.constants import ones_like, zeros_like
from actorflow.ops.array.identity import cast, widen_half
from actorflow.ops.array.shape import transpose
from actorflow.ops.array.slicing import concat, gather
from actorflow.ops.array.sort import argsort, one_dimensional
from actorflow.ops.definition.arguments import api_function
from actorflow.ops.definition.spec_rules import DtypeClass, check_dtypes
from actorflow.ops.math.elementwise import divide, maximum, multiply
from actorflow.ops.math.logic import equal, greater_equal, is_extreme, not_equal, where
from actorflow.ops.math.scan import linear_recurrence, part
from actorflow.values.arrays import wide_dtype
from actorflow.values.spec import Spec

Grads = Sequence[Tensor | None]
Fold = Callable[..., Tensor]


def _segments(op_name: str, takes: DtypeClass) -> SpecRule:
    def rule(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
        x, ids = inputs
        check_dtypes(op_name, takes, x)
        check_dtypes(f"the ids of {op_name}", DtypeClass.INTEGER, ids)
        number = attrs["num_segments"]
        if number is not None and number < 0:
            message = f"{op_name} takes num_segments of at least 0, got {number}"
            raise SpecError(message)
        _check_rows(op_name, x, ids)
        return (Spec(None if x.shape is None else (number, *x.shape[1:]), x.dtype),)

    return rule


def _check_rows(op_name: str, x: Spec, ids: Spec) -> None:
    one_dimensional(op_name, "ids of one axis", ids)
    if x.shape is None:
        return
    # A scalar x has no rows; -1 is no size that ids could have.
    rows = {x.shape[0] if x.shape else -1, *(ids.shape or (None,))} - {None}
    if not x.shape or len(rows) > 1:
        message = f"{op_name} needs an id for each row of x, got x {x} and ids {ids}"
        raise SpecError(message)


# ----------------------------------------------------------------------------------- gradients


def _of_rows(use: Use, values: Tensor) -> Tensor:
    """For each row of x the row of `values` that its segment has; zeros where the id is negative."""
    ids = use.inputs[1]
    if not use.node.op.startswith("unsorted"):
        # Sorted ids are all segments.
        return gather(values, ids)
    if use.attrs["num_segments"] == 0:  # all ids are negative then, and there is no row 0
        return zeros_like(use.inputs[0])
    # Negative ids read row 0, which the choice below drops.
    found = gather(values, maximum(ids, zeros_like(ids)))
    # Reversed, so that the axis of the ids is the last: it broadcasts against any rank.
    kept = where(greater_equal(ids, zeros_like(ids)), transpose(found), zeros_like(transpose(found)))
    return transpose(kept)


def _gather_back(use: Use, fold: Fold, x: Tensor) -> Tensor:
    """`fold` of `x` over the segments of the node."""
    return fold(x, use.inputs[1], use.attrs["num_segments"])


def _sum_of(use: Use) -> Fold:
    return unsorted_segment_sum if use.node.op.startswith("unsorted") else segment_sum


def _sum_gradient(use: Use, grad: Tensor) -> Grads:
    return (_of_rows(use, grad), None)


def _mean_gradient(use: Use, grad: Tensor) -> Grads:
    # Counted in the segments' own way, halves in float32.
    sizes = _gather_back(use, _sum_of(use), ones_like(widen_half(use.inputs[0])))
    return (_of_rows(use, _shares(grad, sizes)), None)


def _shares(grad: Tensor, sizes: Tensor) -> Tensor:
    """The gradient of each segment, over the number of rows that it is divided among."""
    # A segment without rows has none to give anything to.
    return cast(divide(widen_half(grad), maximum(sizes, ones_like(sizes))), grad.dtype)


def _extreme_gradient(use: Use, grad: Tensor) -> Grads:
    (x, _), (y,) = use.inputs, use.outputs
    hit = is_extreme(x, _of_rows(use, y))
    ties = _gather_back(use, _sum_of(use), cast(hit, wide_dtype(x.dtype)))
    return (where(hit, _of_rows(use, _shares(grad, ties)), zeros_like(x)), None)


def _prod_gradient(use: Use, grad: Tensor) -> Grads:
    (x, ids), grad = use.inputs, _of_rows(use, grad)
    if not use.node.op.startswith("unsorted"):
        return (multiply(grad, _products_of_others(x, ids)), None)
    # Sorted as the others are; argsort keeps equal ids in their order.
    order = argsort(ids)
    others = _products_of_others(gather(x, order), gather(ids, order))
    # And back: the order of the order.
    return (multiply(grad, gather(others, argsort(order))), None)


def _products_of_others(x: Tensor, ids: Tensor) -> Tensor:
    """For each element the product of the others of its segment; `ids` are sorted.

    A product of what lies before an element is a recurrence that begins anew with each segment.
    """
    x = transpose(x)  # the rows along the last axis, against which ids broadcast
    # A border is where the id is another than the one before.
    differ = not_equal(part(ids, 0, 1, None), part(ids, 0, None, -1))
    # The first row begins a segment: equal to itself, so true.
    edge = equal(part(ids, 0, None, 1), part(ids, 0, None, 1))
    before = _running_product(x, concat([edge, differ], 0), reverse=False)
    after = _running_product(x, concat([differ, edge], 0), reverse=True)
    return transpose(multiply(before, after))


def _running_product(x: Tensor, border: Tensor, *, reverse: bool) -> Tensor:
    """The product of what was passed since the last border, 1 at the border itself."""
    if reverse:
        # Shifted by one: the element itself is left out.
        factors = concat([part(x, -1, 1, None), ones_like(part(x, -1, -1, None))], -1)
    else:
        factors = concat([ones_like(part(x, -1, None, 1)), part(x, -1, None, -1)], -1)
    border = broadcast_like(border, x)
    # At a border the factor is 0 and the term 1: what came before is forgotten.
    kept = where(border, zeros_like(x), factors)
    return linear_recurrence(kept, cast(border, x.dtype), -1, reverse=reverse)


# -------------------------------------------------------------------------------------- sorted


def _build(op_name: str, x: Any, ids: Any, number: int | None, name: str | None) -> Tensor:
    attrs = {"num_segments": None if number is None else number.__index__()}
    return build_one(op_name, [as_tensor(x), as_tensor(ids)], attrs, name=name)


@op("segment_sum", spec=_segments("segment_sum", DtypeClass.NUMBER), gradient=_sum_gradient)
@api_function
def segment_sum(x: Any, ids: Any, num_segments: int | None = None, *, name: str | None = None) -> Tensor:
    """The sum of the rows of each segment; 0 for one without rows.

    Shapes:   x (n, …), ids (n,) sorted -> (num_segments, …), or (last id + 1, …) when it is None
    Dtypes:   x numbers, kept: integers wrap around, halves are summed in float32; ids integers
    Gradient: the row of g to each row of the segment; none to the ids.
    Raises:   SpecError when shapes do not fit; in the step KernelError unless the ids are sorted,
              and from 0 to num_segments - 1.

    >>> with af.Graph():
    ...     af.math.segment_sum(af.placeholder("float32", (4, 3), name="x"), [0, 0, 1, 2])
    <Tensor segment_sum:0 (None, 3) float32>
    """
    return _build("segment_sum", x, ids, num_segments, name)


@op("segment_mean", spec=_segments("segment_mean", DtypeClass.INEXACT), gradient=_mean_gradient)
@api_function
def segment_mean(x: Any, ids: Any, num_segments: int | None = None, *, name: str | None = None) -> Tensor:
    """The mean of the rows of each segment, of floats; 0 for one without rows; gradient g/rows.

    Else like `segment_sum`.
    """
    return _build("segment_mean", x, ids, num_segments, name)


@op("segment_prod", spec=_segments("segment_prod", DtypeClass.NUMBER), gradient=_prod_gradient)
@api_function
def segment_prod(x: Any, ids: Any, num_segments: int | None = None, *, name: str | None = None) -> Tensor:
    """The product of the rows of each segment; 1 for one without rows.

    Its gradient is g times the product of the others, right where factors are 0 too. Else like
    `segment_sum`.
    """
    return _build("segment_prod", x, ids, num_segments, name)


@op("segment_max", spec=_segments("segment_max", DtypeClass.REAL), gradient=_extreme_gradient)
@api_function
def segment_max(x: Any, ids: Any, num_segments: int | None = None, *, name: str | None = None) -> Tensor:
    """The largest of the rows of each segment, elementwise, of real numbers; NaN if there is one.

    A segment without rows gets -inf, or the smallest integer. The gradient goes to the largest
    element, shared evenly on ties. Else like `segment_sum`.
    """
    return _build("segment_max", x, ids, num_segments, name)


@op("segment_min", spec=_segments("segment_min", DtypeClass.REAL), gradient=_extreme_gradient)
@api_function
def segment_min(x: Any, ids: Any, num_segments: int | None = None, *, name: str | None = None) -> Tensor:
    """The smallest of the rows of each segment; inf or the largest integer of none. Else like `segment_max`.

    Its gradient goes to the smallest element.
    """
    return _build("segment_min", x, ids, num_segments, name)


# ------------------------------------------------------------------------------------ unsorted


@op("unsorted_segment_sum", spec=_segments("unsorted_segment_sum", DtypeClass.NUMBER), gradient=_sum_gradient)
@api_function
def unsorted_segment_sum(x: Any, ids: Any, num_segments: int, *, name: str | None = None) -> Tensor:
    """The sum of the rows of each segment, whose ids come in any order; rows of negative ids are dropped.

    Shapes:   x (n, …), ids (n,) -> (num_segments, …)
    Dtypes:   x numbers, kept: integers wrap around, halves are summed in float32; ids integers
    Gradient: the row of g to each row of the segment, 0 to those dropped; none to the ids.
    Raises:   SpecError when shapes do not fit; in the step KernelError for an id of num_segments
              or more.
    """
    return _build("unsorted_segment_sum", x, ids, num_segments, name)


@op(
    "unsorted_segment_mean",
    spec=_segments("unsorted_segment_mean", DtypeClass.INEXACT),
    gradient=_mean_gradient,
)
@api_function
def unsorted_segment_mean(x: Any, ids: Any, num_segments: int, *, name: str | None = None) -> Tensor:
    """The mean of the rows of each segment.

    Value and gradient are those of `segment_mean`; ids and errors as in `unsorted_segment_sum`.
    """
    return _build("unsorted_segment_mean", x, ids, num_segments, name)


@op(
    "unsorted_segment_prod",
    spec=_segments("unsorted_segment_prod", DtypeClass.NUMBER),
    gradient=_prod_gradient,
)
@api_function
def unsorted_segment_prod(x: Any, ids: Any, num_segments: int, *, name: str | None = None) -> Tensor:
    """The product of the rows of each segment.

    Value and gradient are those of `segment_prod`; ids and errors as in `unsorted_segment_sum`.
    """
    return _build("unsorted_segment_prod", x, ids, num_segments, name)


@op(
    "unsorted_segment_max",
    spec=_segments("unsorted_segment_max", DtypeClass.REAL),
    gradient=_extreme_gradient,
)
@api_function
def unsorted_segment_max(x: Any, ids: Any, num_segments: int, *, name: str | None = None) -> Tensor:
    """The largest of the rows of each segment.

    Value and gradient are those of `segment_max`; ids and errors as in `unsorted_segment_sum`.
    """
    return _build("unsorted_segment_max", x, ids, num_segments, name)


@op(
    "unsorted_segment_min",
    spec=_segments("unsorted_segment_min", DtypeClass.REAL),
    gradient=_extreme_gradient,
)
@api_function
def unsorted_segment_min(x: Any, ids: Any, num_segments: int, *, name: str | None = None) -> Tensor:
    """The smallest of the rows of each segment.

    Value and gradient are those of `segment_min`; ids and errors as in `unsorted_segment_sum`.
    """
    return _build("unsorted_segment_min", x, ids, num_segments, name)
