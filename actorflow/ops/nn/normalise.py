"""Normalisation: values less their mean over their deviation, then scaled and moved; and its gradient.

`normalise` is the one op; `ops.nn.normalisation` has what the field calls batch, layer, group, instance and
root-mean-square norm. Statistics are computed in two passes, so that a large mean does not cancel,
in float32 for halves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from actorflow.errors import SpecError
from actorflow.graph.autodiff import Use
from actorflow.graph.builder import Tensor, as_tensor, build, build_one
from actorflow.graph.node import Attr
from actorflow.graph.opdef import op
from actorflow.ops.array.broadcast import broadcast_like, sum, unbroadcast
from actorflow.ops.array.identity import cast, widen_half
from actorflow.ops.definition.arguments import api_function
from actorflow.ops.definition.spec_rules import Axis, DtypeClass, check_dtypes, plain_axis, reduced_shape
from actorflow.ops.math.arithmetic import rsqrt
from actorflow.ops.math.elementwise import add, divide, maximum, multiply, negative, square, subtract
from actorflow.ops.math.reduce import count, mean
from actorflow.values.arrays import wide_dtype
from actorflow.values.spec import Spec, merge

Grads = Sequence[Tensor | None]

EPSILON = 1e-5

# ------------------------------------------------------------------------------------- the op


def _check_affine(x: Spec, affine: Sequence[Spec]) -> None:
    check_dtypes("normalise", DtypeClass.FLOATING, x, *affine)
    for spec, what in zip(affine, ("scale", "offset"), strict=False):
        check_broadcasts(what, spec, x)


def check_broadcasts(what: str, given: Spec, x: Spec) -> None:
    """Raises SpecError unless `given` broadcasts to x without making it larger."""
    if x.shape is None or given.shape is None:
        return
    # Aligned at the last axis, as broadcasting does.
    own = (1,) * (len(x.shape) - len(given.shape)) + given.shape
    pairs = zip(own, x.shape, strict=False)
    if len(own) != len(x.shape) or any(s != 1 and None not in (s, d) and s != d for s, d in pairs):
        message = f"the {what} of a normalisation must broadcast to x, got {given} for x {x}"
        raise SpecError(message, hint="its axes are the last of x, or have size 1")


def _statistics(x: Spec, attrs: Mapping[str, Attr]) -> Spec:
    return Spec(reduced_shape(x.shape, attrs["axis"], True), wide_dtype(x.dtype))


def _normalise_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    x, *affine = inputs
    _check_affine(x, affine)
    if not attrs["epsilon"] >= 0:
        message = f"the epsilon of a normalisation cannot be negative, got {attrs['epsilon']}"
        raise SpecError(message)
    statistics = _statistics(x, attrs)
    return x, statistics, statistics


def _normalise_gradient(
    use: Use, dy: Tensor | None, to_mean: Tensor | None, to_variance: Tensor | None
) -> Grads:
    x, *affine = use.inputs
    mean, variance = use.outputs[1:]
    # No gradient of the values when only statistics were used.
    grads: list[Tensor | None] = [None] * len(use.inputs)
    if dy is not None:
        grads = list(build("normalise_grad", [dy, x, mean, variance, *affine], use.attrs))
    # Of no elements there is nothing to share, and nothing to divide by 0.
    n = maximum(count(x, use.attrs["axis"]), 1)
    slopes = [] if grads[0] is None else [grads[0]]
    # Without centre the mean is the constant 0.
    if to_mean is not None and use.attrs["centre"]:
        share = divide(to_mean, n)
        slopes.append(cast(broadcast_like(share, x), x.dtype))
    # 2·(x - mean)/n; through the mean nothing, since deviations add up to 0.
    if to_variance is not None:
        share = divide(multiply(to_variance, 2), n)
        slopes.append(cast(multiply(share, subtract(widen_half(x), mean)), x.dtype))
    total = slopes[0] if slopes else None
    for slope in slopes[1:]:
        total = slope if total is None else add(total, slope)
    return (total, *grads[1:])


def build_normalise(
    x: Any,
    scale: Any,
    offset: Any,
    axis: Axis,
    epsilon: float,
    centre: bool = True,
    *,
    name: str | None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Adds the node of `normalise`, and the offset behind it where the node cannot take it."""
    inputs = [as_tensor(v) for v in ((x,) if scale is None else (x, scale))]
    # Scale and offset are told apart by place: an offset alone would be taken for a scale, and is added
    # behind.
    if offset is not None and scale is not None:
        inputs.append(as_tensor(offset))
    found = plain_axis(axis)
    attrs = {
        "axis": (found,) if isinstance(found, int) else found,
        "epsilon": float(epsilon),
        "centre": centre,
    }
    y, mean, variance = build("normalise", inputs, attrs, name=name)
    return (y if offset is None or scale is not None else add(y, offset)), mean, variance


@op("normalise", spec=_normalise_spec, gradient=_normalise_gradient)
@api_function
def normalise(
    x: Any,
    scale: Any = None,
    offset: Any = None,
    axis: Axis = -1,
    epsilon: float = EPSILON,
    centre: bool = True,
    *,
    name: str | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """(values, mean, variance): values are `(x - mean) / sqrt(variance + epsilon)` times scale, plus offset.

    Mean and variance are those of the elements along `axis`, all for None. Without `centre` nothing
    is subtracted: the mean is 0 and the variance the mean of squares.

    Shapes:   x any; scale and offset broadcast to it -> that of x, and twice x with size 1 along `axis`
    Dtypes:   floating, the same; the statistics of halves are float32
    Gradient: with y the values before scale and offset, r = 1/√(variance + epsilon) and h = dy·scale:
              r·(h - mean(h) - y·mean(h·y)) to x, Σ dy·y to the scale, Σ dy to the offset; those of
              the statistics to x are 1/n and 2·(x - mean)/n.
    Raises:   SpecError for other dtypes, a scale or offset that does not broadcast to x, an axis that
              does not exist, and a negative epsilon. Statistics of no elements are NaN.
    """
    return build_normalise(x, scale, offset, axis, epsilon, centre, name=name)


# -------------------------------------------------------------------------------- its gradient


def _grad_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    dy, x, mean, variance, *affine = inputs
    check_dtypes("normalise_grad", DtypeClass.FLOATING, dy, x)
    _check_affine(x, affine)
    statistics = _statistics(x, attrs)
    check_dtypes("the statistics of normalise_grad", DtypeClass.FLOATING, statistics, mean, variance)
    for one in (mean, variance):
        merge(one.shape, statistics.shape)
    return (Spec(merge(dy.shape, x.shape), x.dtype), *affine)


def _grad_gradient(use: Use, to_dx: Tensor | None, *to_affine: Tensor | None) -> Grads:
    """Gradients of the gradients: those of dx = r·(h - centre·mean(h) - y·mean(h·y)), h = dy·scale."""
    dy, x, middle, variance, *affine = map(widen_half, use.inputs)
    axis, epsilon = use.attrs["axis"], use.attrs["epsilon"]
    r = rsqrt(add(variance, epsilon))
    # y is what it is before scale and offset.
    far = subtract(x, middle)
    y = multiply(far, r)
    # Either may not be there, as input or as gradient.
    to_scale, to_offset = (*(None if g is None else widen_half(g) for g in to_affine), None, None)[:2]
    to_dy: list[Tensor] = []
    to_y: list[Tensor] = []
    to_r: list[Tensor] = []
    scale_grad: Tensor | None = None
    if to_dx is not None:
        g, h = widen_half(to_dx), multiply(dy, affine[0]) if affine else dy
        # dx is linear and symmetric in h, so its own gradient for h is the same op, without a scale.
        back: Tensor = build_one("normalise_grad", [g, x, middle, variance], use.attrs)
        # h = dy·scale: on to both.
        to_dy.append(multiply(back, affine[0]) if affine else back)
        along_h, along_g = (mean(multiply(v, y), axis, keepdims=True) for v in (h, g))
        # By y, which is there twice: as a factor and in the mean.
        to_y.append(negative(multiply(r, add(multiply(g, along_h), multiply(h, along_g)))))
        # By r, of which dx is a multiple.
        to_r.append(divide(sum(multiply(g, widen_half(use.outputs[0])), axis, keepdims=True), r))
        if affine:
            scale_grad = unbroadcast(multiply(back, dy), affine[0], x)
    # Of Σ dy·y.
    if to_scale is not None:
        to_dy.append(multiply(y, to_scale))
        to_y.append(multiply(dy, broadcast_like(to_scale, x)))
    # Of Σ dy.
    if to_offset is not None:
        to_dy.append(broadcast_like(to_offset, x))
    to_x: Tensor | None = None
    to_middle: Tensor | None = None
    to_variance: Tensor | None = None
    # y = (x - mean)·r: what y gets goes on to all three.
    if to_y:
        slope = _total(to_y)
        to_x = multiply(slope, r)
        to_middle = negative(sum(to_x, axis, keepdims=True))
        to_r.append(sum(multiply(slope, far), axis, keepdims=True))
        # r = (variance + epsilon)^(-1/2), so its slope is -r³/2. Statistics are inputs here: `normalise`
        # takes on to x what flows to them.
        to_variance = multiply(multiply(_total(to_r), -0.5), multiply(r, square(r)))
    found = (_total(to_dy), to_x, to_middle, to_variance, scale_grad, None)[: len(use.inputs)]
    return tuple(None if g is None else cast(g, x.dtype) for g, x in zip(found, use.inputs, strict=True))


def _total(parts: Sequence[Tensor]) -> Tensor:
    total = parts[0]
    for part in parts[1:]:
        total = add(total, part)
    return total


@op("normalise_grad", spec=_grad_spec, gradient=_grad_gradient)
def normalise_grad(
    dy: Any,
    x: Any,
    mean: Any,
    variance: Any,
    *affine: Any,
    axis: Axis = -1,
    epsilon: float = EPSILON,
    centre: bool = True,
    name: str | None = None,
) -> tuple[Tensor, ...]:
    """The gradients of the values of `normalise` for x, scale and offset, as far as these are given.

    Shapes:   dy and x the same; mean and variance as `normalise` makes them -> that of x, of scale,
              of offset
    Dtypes:   floating, the same; the statistics of halves are float32
    Gradient: through every input but the offset, whose value counts for nothing.
    Raises:   SpecError when the inputs do not fit together.
    """
    attrs = {"axis": plain_axis(axis), "epsilon": float(epsilon), "centre": centre}
    return build("normalise_grad", [dy, x, mean, variance, *affine], attrs, name=name)
