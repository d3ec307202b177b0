"""Running along an axis: cumulative sums, products and extremes, recurrences, differences.

Gradients of products and extremes are linear recurrences, whose own gradients are recurrences
again. So they hold in every order, and where factors are 0: nothing is divided by x.
"""

from __future__ import annotations

import builtins
from collections.abc import Mapping, Sequence
from typing import Any

from actorflow.errors import SpecError, Where
from actorflow.graph import opdef
from actorflow.graph.autodiff import Use
from actorflow.graph.builder import Tensor, as_tensor, build_one
from actorflow.graph.node import Attr
from actorflow.graph.opdef import SpecRule, op
from actorflow.ops.array.broadcast import sum
from actorflow.ops.array.constants import ones_like, zeros_like
from actorflow.ops.array.identity import cast, widen_half
from actorflow.ops.array.shape import expand_dims
from actorflow.ops.array.slicing import concat, slice
from actorflow.ops.definition.arguments import api_function
from actorflow.ops.definition.spec_rules import DtypeClass, check_dtypes
from actorflow.ops.math.elementwise import add, multiply, subtract
from actorflow.ops.math.logic import is_extreme, not_equal
from actorflow.runtime.call_site import source_line
from actorflow.values.spec import Shape, Spec, axes_in, axis_of, merge, show

Grads = Sequence[Tensor | None]

# --------------------------------------------------------------------------- parts of an axis


def part(x: Tensor, axis: int, start: int | None, stop: int | None, step: int | None = None) -> Tensor:
    """The slice start:stop:step of `x` along `axis`, whether its rank is known or not."""
    chosen = builtins.slice(start, stop, step)
    whole = builtins.slice(None)
    if axis >= 0:
        # From the front or from the back, as the axis is given: so the rank need not be known.
        return slice(x, (*(whole,) * axis, chosen))
    return slice(x, (..., chosen, *(whole,) * (-axis - 1)))


def reversed_along(x: Tensor, axis: int) -> Tensor:
    """`x` backwards along `axis`, a view."""
    return part(x, axis, None, None, -1)


def _later(x: Tensor, axis: int) -> Tensor:
    """Each element moved one place on along `axis`; a zero comes in, the last one leaves."""
    return concat([zeros_like(part(x, axis, None, 1)), part(x, axis, None, -1)], axis)


def _earlier(x: Tensor, axis: int) -> Tensor:
    """Each element moved one place back along `axis`; a zero comes in, the first one leaves."""
    return concat([part(x, axis, 1, None), zeros_like(part(x, axis, -1, None))], axis)


def products_of_others(x: Tensor, axis: int) -> Tensor:
    """For each element the product of all the others along `axis`: of those before and those behind it."""
    # Before times behind, and no division: a factor of 0 would make it 0/0.
    behind = reversed_along(x, axis)
    # The initial 1 in front and the last one off: the product of those before each.
    before, after = (
        part(cumulative_prod(v, axis, include_initial=True), axis, None, -1) for v in (x, behind)
    )
    return multiply(before, reversed_along(after, axis))


def check_axis(op_name: str, x: Tensor, axis: int) -> None:
    """Raises SpecError at the user's line when `x` is known to have no such axis."""
    rank = x.spec.rank
    if rank is not None and not -rank <= axis < rank:
        message = f"{op_name} needs an axis in [{-rank}, {rank}), got {axis} for {x.spec}"
        raise SpecError(message, where=Where(defined_at=source_line()), hint=axes_in(rank))


def one_axis(op_name: str, x: Tensor, axis: int | None) -> int:
    """The axis to run along; None is that of a tensor which has one only."""
    if axis is not None:
        return axis.__index__()
    if x.spec.rank != 1:
        message = f"{op_name} needs an axis unless there is one only, got {x.spec}"
        raise SpecError(message, where=Where(defined_at=source_line()), hint="pass axis=…, or flatten it")
    return 0


# ------------------------------------------------------------------------------ sums, products


def _running(op_name: str, takes: DtypeClass) -> SpecRule:
    def rule(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
        (x,) = inputs
        check_dtypes(op_name, takes, x)
        if x.shape is None:
            return (x,)
        axis, more = axis_of(attrs["axis"], len(x.shape)), attrs.get("include_initial", False)
        return (Spec(_lengthen(x.shape, axis, more), x.dtype),)

    return rule


def _lengthen(shape: Shape, axis: int, more: bool) -> Shape:
    return shape and tuple(d if d is None or i != axis else d + more for i, d in enumerate(shape))


def _cumulative_sum_gradient(use: Use, grad: Tensor) -> Grads:
    axis = use.attrs["axis"]
    if use.attrs["include_initial"]:
        # The sum of none depends on nothing.
        grad = part(grad, axis, 1, None)
    # Each element is in all sums from its own on.
    return (reversed_along(cumulative_sum(reversed_along(grad, axis), axis), axis),)


@op("cumulative_sum", spec=_running("cumulative_sum", DtypeClass.NUMBER), gradient=_cumulative_sum_gradient)
@api_function
def cumulative_sum(
    x: Any, axis: int | None = None, *, include_initial: bool = False, name: str | None = None
) -> Tensor:
    """The sums of the first elements along `axis`: of one, of two, …, of all.

    Shapes:   kept; `include_initial` puts the sum of none, 0, before them: size n + 1
    Dtypes:   numbers, kept: integers wrap around, halves are summed in float32
    Gradient: the sums of g from the end.
    Raises:   SpecError for bool, for an axis that does not exist, and for axis None unless x has
              one axis.

    >>> with af.Graph():
    ...     af.cumulative_sum(af.placeholder("float32", (None, 3), name="x"), axis=1)
    <Tensor cumulative_sum:0 (None, 3) float32>
    """
    x = as_tensor(x)
    attrs = {"axis": one_axis("cumulative_sum", x, axis), "include_initial": include_initial}
    return build_one("cumulative_sum", [x], attrs, name=name)


def _cumulative_prod_gradient(use: Use, grad: Tensor) -> Grads:
    (x,), (y,), axis = use.inputs, use.outputs, use.attrs["axis"]
    if use.attrs["include_initial"]:
        # With the initial 1 the output has the products before each already.
        grad, before = part(grad, axis, 1, None), part(y, axis, None, -1)
    else:
        before = concat([ones_like(part(x, axis, None, 1)), part(y, axis, None, -1)], axis)
    # What follows x_i in all products that hold it: g_i + x_{i+1}·(g_{i+1} + x_{i+2}·(…)).
    behind = linear_recurrence(_earlier(x, axis), grad, axis, reverse=True)
    return (multiply(before, behind),)


@op(
    "cumulative_prod", spec=_running("cumulative_prod", DtypeClass.NUMBER), gradient=_cumulative_prod_gradient
)
@api_function
def cumulative_prod(
    x: Any, axis: int | None = None, *, include_initial: bool = False, name: str | None = None
) -> Tensor:
    """The products of the first elements along `axis`: of one, of two, …, of all.

    Shapes:   kept; `include_initial` puts the product of none, 1, before them: size n + 1
    Dtypes:   numbers, kept: integers wrap around, halves are multiplied in float32
    Gradient: right where factors are 0 too: the product of those before x_i times
              `linear_recurrence` of g over those behind it.
    Raises:   as `cumulative_sum` does.
    """
    x = as_tensor(x)
    attrs = {"axis": one_axis("cumulative_prod", x, axis), "include_initial": include_initial}
    return build_one("cumulative_prod", [x], attrs, name=name)


# ------------------------------------------------------------------------------------ extremes


def _cumulative_extreme_gradient(use: Use, grad: Tensor) -> Grads:
    (x,), (y,), axis = use.inputs, use.outputs, use.attrs["axis"]
    # As int64: halves would not count far.
    hit = cast(is_extreme(x, y), "int64")
    # An element that was chosen gets g of its own place and of those behind it up to the next one: g is
    # added where the latest one lies.
    # Counted from 1, so that 0 stands for none chosen yet.
    number = cumulative_sum(ones_like(hit), axis)
    latest = subtract(cumulative_max(multiply(hit, number), axis), 1)
    # By the table: put_along_axis is built of this module.
    put = opdef.lookup("put_along_axis").constructor
    return (put(zeros_like(grad), latest, grad, axis, "add"),)


@op("cumulative_max", spec=_running("cumulative_max", DtypeClass.REAL), gradient=_cumulative_extreme_gradient)
@api_function
def cumulative_max(x: Any, axis: int | None = None, *, name: str | None = None) -> Tensor:
    """The largest of the elements so far along `axis`; NaN from the first NaN on.

    Shapes:   kept
    Dtypes:   real numbers, kept
    Gradient: g to the element that was chosen, the latest of them on ties.
    Raises:   SpecError for bool and complex; else like `cumulative_sum`.
    """
    x = as_tensor(x)
    return build_one("cumulative_max", [x], {"axis": one_axis("cumulative_max", x, axis)}, name=name)


@op("cumulative_min", spec=_running("cumulative_min", DtypeClass.REAL), gradient=_cumulative_extreme_gradient)
@api_function
def cumulative_min(x: Any, axis: int | None = None, *, name: str | None = None) -> Tensor:
    """The smallest of the elements so far, where its gradient goes; else like `cumulative_max`."""
    x = as_tensor(x)
    return build_one("cumulative_min", [x], {"axis": one_axis("cumulative_min", x, axis)}, name=name)


# --------------------------------------------------------------------------------- recurrences


def _recurrence_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    a, b = inputs
    check_dtypes("linear_recurrence", DtypeClass.INEXACT, a, b)
    try:
        shape = merge(a.shape, b.shape)
    except SpecError:
        message = f"linear_recurrence needs equal shapes, got {show(a.shape)} and {show(b.shape)}"
        raise SpecError(message, hint="widen one with af.arrays.broadcast_like") from None
    if shape is not None:
        axis_of(attrs["axis"], len(shape))
    return (Spec(shape, a.dtype),)


def _recurrence_gradient(use: Use, grad: Tensor) -> Grads:
    (a, _), (r,), axis = use.inputs, use.outputs, use.attrs["axis"]
    reverse = use.attrs["reverse"]
    # The factor of a step belongs to the one after it, seen from the other end.
    onward, back = (_later, _earlier) if reverse else (_earlier, _later)
    # r's gradient is a recurrence from the other end.
    to_b = linear_recurrence(onward(a, axis), grad, axis, reverse=not reverse)
    # And a's is that, times the r before it.
    return (multiply(to_b, back(r, axis)), to_b)


@op("linear_recurrence", spec=_recurrence_spec, gradient=_recurrence_gradient)
@api_function
def linear_recurrence(
    a: Any, b: Any, axis: int = -1, *, reverse: bool = False, name: str | None = None
) -> Tensor:
    """R with r_k = a_k·r_(k-1) + b_k along `axis` and nothing before the first: r_0 = b_0.

    Averages that forget, discounted returns and the gradients of cumulative products are such.

    Shapes:   a and b the same, kept; `reverse` runs from the end: r_k = a_k·r_(k+1) + b_k
    Dtypes:   floating or complex, the same; halves are computed in float32
    Gradient: the recurrence run the other way.
    Raises:   SpecError when shapes or dtypes differ, and for an axis that does not exist.

    >>> with af.Graph():
    ...     rewards = af.placeholder("float32", (None, 5), name="rewards")
    ...     af.math.linear_recurrence(0.9 * af.ones_like(rewards), rewards, reverse=True)
    <Tensor linear_recurrence:0 (None, 5) float32>
    """
    attrs = {"axis": axis, "reverse": reverse}
    return build_one("linear_recurrence", [a, b], attrs, name=name)


# --------------------------------------------------------------------------------- differences


_MOST_DIFFERENCES = 1000


@api_function
def diff(
    x: Any,
    axis: int = -1,
    *,
    n: int = 1,
    prepend: Any = None,
    append: Any = None,
) -> Tensor:
    """Each element less the one before it along `axis`, `n` times over; of bools whether they differ.

    Shapes:   the axis is n shorter, not below 0; `prepend` and `append` are joined to x before,
              but for n = 0, which is `x` itself as in numpy
    Dtypes:   any, kept
    Gradient: of subtractions.
    Raises:   SpecError for an axis that does not exist and for negative n.
    """
    given = as_tensor(x)
    check_axis("diff", given, axis)
    # Each difference is a node.
    if not 0 <= n <= _MOST_DIFFERENCES:
        message = f"diff takes n from 0 to {_MOST_DIFFERENCES}, each a node of the graph, got {n}"
        raise SpecError(message, where=Where(defined_at=source_line()))
    if n == 0:
        return given
    # Joined first: the differences to what is put before and behind count.
    joined = [as_tensor(v, dtype=given.dtype) for v in (prepend, given, append) if v is not None]
    y = concat(joined, axis) if len(joined) > 1 else given
    # Bools have no difference; numpy asks whether they differ.
    minus = not_equal if y.dtype.kind == "b" else subtract
    for _ in range(n):
        y = minus(part(y, axis, 1, None), part(y, axis, None, -1))
    return y


@api_function
def trapezoid(y: Any, x: Any = None, dx: float = 1.0, axis: int = -1) -> Tensor:
    """The integral of `y` along `axis` by the trapezoid rule, at the points `x` or `dx` apart.

    Shapes:   y (…, n, …), x the same or (n,) -> (…, …)
    Dtypes:   floating or complex, kept; x has that of y; halves are computed in float32
    Gradient: of the sum.
    Raises:   SpecError for integers, an axis that does not exist, and an x that does not fit.
    """
    y = as_tensor(y)
    if not DtypeClass.INEXACT.accepts(y.dtype):
        message = f"trapezoid takes {DtypeClass.INEXACT.value}, got {y.spec}"
        raise SpecError(message, where=Where(defined_at=source_line()), hint="convert it with af.cast")
    check_axis("trapezoid", y, axis)
    # The dtype is kept, whatever the sum is computed in.
    dtype, x = y.dtype, None if x is None else as_tensor(x, dtype=y.dtype)
    y = widen_half(y)
    # Two neighbours each, halved at the end.
    pairs = add(part(y, axis, 1, None), part(y, axis, None, -1))
    if x is None:
        return cast(multiply(sum(pairs, axis), dx / 2), dtype)
    x = widen_half(x)
    # A vector x goes along the axis, whatever the rank of y.
    wide = diff(x, 0 if x.spec.rank == 1 else axis)
    # Axes behind it, so that it broadcasts against y.
    if x.spec.rank == 1 and (behind := _behind(y, axis)):
        wide = expand_dims(wide, tuple(range(1, behind + 1)))
    return cast(multiply(sum(multiply(pairs, wide), axis), 0.5), dtype)


def _behind(y: Tensor, axis: int) -> int:
    """How many axes of y lie behind `axis`."""
    if axis < 0:
        return -axis - 1
    if y.spec.rank is None:
        message = f"trapezoid needs a known rank to count axis {axis} from the front, got {y.spec}"
        raise SpecError(message, where=Where(defined_at=source_line()), hint="count it from the back")
    return y.spec.rank - 1 - axis_of(axis, y.spec.rank)
