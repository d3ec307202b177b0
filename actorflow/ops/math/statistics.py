"""Reductions that say how elements lie: spread, norms, log-sums, quantiles."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from actorflow.errors import GradientError, SpecError, Where
from actorflow.graph.autodiff import Use
from actorflow.graph.builder import Tensor, as_tensor, build, build_one
from actorflow.graph.node import Attr
from actorflow.graph.opdef import NOT_DIFFERENTIABLE, op
from actorflow.ops.array.broadcast import sum, unreduce
from actorflow.ops.array.constants import ones_like, zeros_like
from actorflow.ops.array.identity import cast, widen_half
from actorflow.ops.array.shape import expand_dims, reshape
from actorflow.ops.array.slicing import concat, gather
from actorflow.ops.array.sort import sort
from actorflow.ops.definition.arguments import api_function
from actorflow.ops.definition.spec_rules import Axis, DtypeClass, axes_of, check_dtypes, plain_axis, size_of
from actorflow.ops.math.elementwise import abs, add, divide, exp, maximum, multiply, pow, sign, subtract
from actorflow.ops.math.logic import equal, is_extreme, where
from actorflow.ops.math.reduce import check_not_empty, count, mean, mean_like, reduction, share_of_ties
from actorflow.ops.math.scan import check_axis
from actorflow.runtime.call_site import source_line
from actorflow.values.arrays import as_dtype, wide_dtype
from actorflow.values.spec import Spec, axis_of

Grads = Sequence[Tensor | None]


def _attrs(axis: Axis, keepdims: bool, **more: Attr) -> Mapping[str, Attr]:
    return {"axis": plain_axis(axis), "keepdims": bool(keepdims), **more}


# -------------------------------------------------------------------------------------- spread


def _var_gradient(use: Use, grad: Tensor) -> Grads:
    # The variance's slope is twice that of `_from_mean`.
    return (_from_mean(use, multiply(grad, 2)),)


def _std_gradient(use: Use, grad: Tensor) -> Grads:
    std, grad = widen_half(use.outputs[0]), widen_half(grad)
    # A flat reduction has no direction: 0, and not 0/0.
    flat = equal(std, 0)
    slope = where(flat, zeros_like(std), divide(grad, where(flat, ones_like(std), std)))
    return (_from_mean(use, slope),)


def _from_mean(use: Use, slope: Tensor) -> Tensor:
    """`slope`·(x - mean)/(n - correction), which halves of the gradient of a variance are."""
    (x,), axis, correction = use.inputs, use.attrs["axis"], use.attrs["correction"]
    folded = None if x.shape is None else size_of([x.shape[a] for a in axes_of(axis, len(x.shape))])
    wide, slope = widen_half(x), widen_half(slope)
    if folded is None:
        slope = divide(slope, maximum(subtract(count(x, axis), correction), 0))
    elif folded > correction:
        slope = multiply(slope, 1 / (folded - correction))
    else:
        # n ≤ correction: infinite or NaN, as the variance itself.
        slope = divide(slope, 0.0)
    far = subtract(wide, mean(wide, axis, keepdims=True))
    return cast(multiply(unreduce(use, slope), far), x.dtype)


@op("var", spec=mean_like("var"), gradient=_var_gradient)
@api_function
def var(
    x: Any, axis: Axis = None, correction: float = 0.0, keepdims: bool = False, *, name: str | None = None
) -> Tensor:
    """The variance over `axis`: the squares of x - mean summed, over n - `correction`.

    Shapes:   the axes of `axis` are dropped, or kept with size 1 when `keepdims`
    Dtypes:   floating, kept; integers -> float64, as in numpy
    Gradient: 2·g·(x - mean)/(n - correction).
    Raises:   SpecError for bool and complex, and for an axis that does not exist. Where
              n ≤ correction, it is NaN or infinite, as in numpy.

    >>> with af.Graph():
    ...     af.var(af.placeholder("float32", (None, 3), name="x"), axis=0, correction=1)
    <Tensor var:0 (3,) float32>
    """
    return build_one("var", [x], _attrs(axis, keepdims, correction=float(correction)), name=name)


@op("std", spec=mean_like("std"), gradient=_std_gradient)
@api_function
def std(
    x: Any, axis: Axis = None, correction: float = 0.0, keepdims: bool = False, *, name: str | None = None
) -> Tensor:
    """The standard deviation over `axis`, √var.

    Its gradient is g·(x - mean)/((n - correction)·std), and 0 where std is 0. Else like `var`.
    """
    return build_one("std", [x], _attrs(axis, keepdims, correction=float(correction)), name=name)


# ----------------------------------------------------------------------------------- log-sums


def _logsumexp_gradient(use: Use, grad: Tensor) -> Grads:
    (x,), (y,) = use.inputs, use.outputs
    wide = widen_half(x)
    if wide is not x:  # the exponential of a difference makes much of the last digit of a half
        y = logsumexp(wide, use.attrs["axis"], use.attrs["keepdims"])
    none = equal(y, -math.inf)  # all are -inf, and -inf less -inf would be NaN
    shares = exp(subtract(wide, unreduce(use, where(none, zeros_like(y), y))))
    top = equal(wide, math.inf)  # and so would inf less inf: they share it evenly
    counts = sum(cast(top, wide.dtype), use.attrs["axis"], keepdims=use.attrs["keepdims"])
    shares = where(top, unreduce(use, divide(ones_like(counts), maximum(counts, 1))), shares)
    return (cast(multiply(unreduce(use, widen_half(grad)), shares), x.dtype),)


@op("logsumexp", spec=reduction("logsumexp", DtypeClass.FLOATING), gradient=_logsumexp_gradient)
@api_function
def logsumexp(x: Any, axis: Axis = None, keepdims: bool = False, *, name: str | None = None) -> Tensor:
    """`log(sum(exp(x)))` over `axis`, over all axes when it is None; does not overflow; -inf of none.

    Shapes:   the axes of `axis` are dropped, or kept with size 1 when `keepdims`
    Dtypes:   floating, kept
    Gradient: g·softmax(x); 0 where all elements are -inf; shared evenly by those that are inf.
    Raises:   SpecError for other dtypes, and for an axis that does not exist.
    """
    return build_one("logsumexp", [x], _attrs(axis, keepdims), name=name)


# --------------------------------------------------------------------------------------- norms


def _norm_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    (x,) = inputs
    (folded,) = reduction("vector_norm", DtypeClass.INEXACT)(inputs, attrs)
    if math.isinf(attrs["ord"]) and x.shape is not None:
        check_not_empty("vector_norm", x, attrs["axis"])
    real = {"complex64": "float32", "complex128": "float64"}.get(x.dtype.name)
    return (folded if real is None else Spec(folded.shape, as_dtype(real)),)


def _norm_gradient(use: Use, grad: Tensor) -> Grads:
    (x,), (y,), order = use.inputs, use.outputs, use.attrs["ord"]
    # Complex gradients are not there yet.
    if x.dtype.kind == "c":
        message = f"gradients are of real numbers, got {x.spec} into vector_norm"
        raise GradientError(message, where=use.node.where)
    if order == 0:
        # A number of elements is flat.
        return (zeros_like(x),)
    if order == 1:
        return (multiply(unreduce(use, grad), sign(x)),)
    if math.isinf(order):
        # Ties share, and NaN takes all.
        hit = is_extreme(abs(x), unreduce(use, y))
        share = unreduce(use, share_of_ties(use, hit, grad))
        return (where(hit, multiply(sign(x), share), zeros_like(x)),)
    # A vector of zeros has no direction: 0.
    none = equal(y, 0)
    length = where(none, ones_like(y), y)
    if order == 2:
        slope = where(none, zeros_like(y), divide(grad, length))
        return (multiply(unreduce(use, slope), x),)
    slope = where(none, zeros_like(y), multiply(grad, pow(length, 1 - order)))
    # 0 to a power below 0 would be infinite; such elements get 0.
    steep = where(equal(x, 0), zeros_like(x), pow(where(equal(x, 0), ones_like(x), abs(x)), order - 1))
    return (multiply(unreduce(use, slope), multiply(sign(x), steep)),)


@op("vector_norm", spec=_norm_spec, gradient=_norm_gradient)
@api_function
def vector_norm(
    x: Any, axis: Axis = None, keepdims: bool = False, ord: float = 2, *, name: str | None = None
) -> Tensor:
    """The length of the vectors along `axis`, of all elements when it is None: (Σ|x|^ord)^(1/ord).

    `ord` may be inf (the largest |x|), -inf (the smallest), and 0 (how many are not 0).

    Shapes:   the axes of `axis` are dropped, or kept with size 1 when `keepdims`
    Dtypes:   floating, kept; complex -> floating of its parts. Squares may overflow, as in numpy
    Gradient: g·x/norm for ord 2; 0 for the vector 0, and for elements that are 0. To the largest
              elements for inf, shared evenly on ties. None for complex numbers.
    Raises:   SpecError for integers, for an axis that does not exist, and of no elements for ±inf.

    >>> with af.Graph():
    ...     af.linalg.vector_norm(af.placeholder("float32", (None, 3), name="x"), axis=1)
    <Tensor vector_norm:0 (None,) float32>
    """
    return build_one("vector_norm", [x], _attrs(axis, keepdims, ord=float(ord)), name=name)


# ----------------------------------------------------------------------------------- quantiles


def _positions_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    (x,), q = inputs, attrs["q"]
    check_dtypes("quantile", DtypeClass.FLOATING, x)
    if not 0 <= q <= 1:
        message = f"a quantile lies in [0, 1], got {q}"
        raise SpecError(message, hint="divide percents by 100")
    if x.shape is not None:
        axis_of(attrs["axis"], len(x.shape))
        check_not_empty("quantile", x, attrs["axis"])
    whole = Spec((), as_dtype("int64"))
    return whole, whole, Spec((), wide_dtype(x.dtype))


@op("quantile_positions", spec=_positions_spec, gradient=NOT_DIFFERENTIABLE)
def quantile_positions(
    x: Any, q: float, axis: int, *, name: str | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Where quantile `q` lies among the sorted elements along `axis` of `x`: between which two, and how far.

    Shapes:   any -> (), (), ()
    Dtypes:   floating -> int64, int64, that of x or, of halves, float32
    Gradient: none, it depends on the shape alone.
    Raises:   SpecError unless 0 ≤ q ≤ 1 and there is an element.
    """
    low, high, far = build("quantile_positions", [x], {"q": float(q), "axis": axis.__index__()}, name=name)
    return low, high, far


@api_function
def quantile(x: Any, q: float | Sequence[float], axis: int | None = None, keepdims: bool = False) -> Tensor:
    """The number below which the part `q` of the elements along `axis` lies, between two of them by a line.

    NaN if one of the elements is, as in numpy.

    Shapes:   the axis is dropped, or kept with size 1 when `keepdims`; all are folded when it is
              None; a sequence of q comes before them as an axis
    Dtypes:   floating, kept
    Gradient: to the two elements, in the parts of the line.
    Raises:   SpecError for other dtypes, unless 0 ≤ q ≤ 1, for an axis that does not exist or has size 0.

    >>> with af.Graph():
    ...     af.math.quantile(af.placeholder("float32", (None, 3), name="x"), 0.9, axis=0)
    <Tensor where:0 (3,) float32>
    """
    return _quantile("quantile", x, q, axis, keepdims)


def _quantile(op_name: str, x: Any, q: float | Sequence[float], axis: int | None, keepdims: bool) -> Tensor:
    """`quantile` for the function of that name, which errors call it."""
    x = as_tensor(x)
    ordered, at = (x, axis) if axis is not None else (reshape(x, (-1,)), 0)
    check_axis(op_name, ordered, at)
    # Where between which two: known from sizes alone, once for all q.
    places = [quantile_positions(ordered, p, at) for p in ([q] if isinstance(q, int | float) else q)]
    ordered = sort(ordered, at)
    last = gather(ordered, -1, at)  # the NaN among them, if there is one
    found = [_between(ordered, last, at, *place) for place in places]
    if keepdims:
        found = [expand_dims(f, _kept_axes(x, axis)) for f in found]
    return found[0] if isinstance(q, int | float) else concat([expand_dims(f, 0) for f in found], 0)


def _between(ordered: Tensor, last: Tensor, axis: int, low: Tensor, high: Tensor, far: Tensor) -> Tensor:
    below, above = (widen_half(gather(ordered, place, axis)) for place in (low, high))
    # Halves in float32: the line lies between two of them.
    line = add(below, multiply(subtract(above, below), far))
    # NaN counts as the largest, so it is the last; then everything is NaN.
    return where(equal(last, last), cast(line, last.dtype), last)


def _kept_axes(x: Tensor, axis: int | None) -> int | tuple[int, ...]:
    if axis is not None:
        return axis
    if x.spec.rank is None:
        message = f"quantile needs a known rank to keep all axes, got {x.spec}"
        raise SpecError(message, where=Where(defined_at=source_line()), hint="pass an axis")
    return tuple(range(x.spec.rank))


@api_function
def median(x: Any, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """The middle element along `axis`, or half-way between the two in the middle; `quantile` at 0.5.

    Shapes, dtypes, gradient and errors are those of `quantile`.
    """
    return _quantile("median", x, 0.5, axis, keepdims)
