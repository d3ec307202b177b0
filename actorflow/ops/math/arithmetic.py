"""Arithmetic beyond the four rules: whole quotients and remainders, safe products, bounds and mixes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from actorflow.errors import SpecError, Where
from actorflow.graph.autodiff import Use
from actorflow.graph.builder import Tensor, build_one
from actorflow.graph.node import Attr
from actorflow.graph.opdef import NOT_DIFFERENTIABLE, Promoting, op
from actorflow.ops.array.broadcast import unbroadcast
from actorflow.ops.array.constants import zeros_like
from actorflow.ops.definition.arguments import api_function
from actorflow.ops.definition.spec_rules import DtypeClass, binary, check_dtypes, unary
from actorflow.ops.math.elementwise import (
    divide,
    maximum,
    minimum,
    multiply,
    negative,
    sign,
    square,
    subtract,
)
from actorflow.ops.math.logic import greater, less, where
from actorflow.ops.math.rounding import isinf, round
from actorflow.runtime.call_site import source_line
from actorflow.values.spec import Spec, broadcast

Grads = Sequence[Tensor | None]


def ternary(op: str, takes: DtypeClass) -> Any:
    """The spec rule of an elementwise op of three inputs that broadcast and mix."""

    def rule(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
        check_dtypes(op, takes, *inputs)
        return (Spec(broadcast([s.shape for s in inputs]), inputs[0].dtype),)

    return Promoting(rule)


# ------------------------------------------------------------------------------ whole quotients


@op("floor_divide", spec=binary("floor_divide", DtypeClass.REAL), gradient=NOT_DIFFERENTIABLE)
@api_function
def floor_divide(a: Any, b: Any, *, name: str | None = None) -> Tensor:
    """The quotient a/b rounded down, elementwise: `a // b`.

    Shapes:   a and b broadcast
    Dtypes:   integers or floats, the same, kept
    Gradient: none flows, it is 0 almost everywhere.
    Raises:   SpecError when shapes do not broadcast or dtypes differ. As in numpy an integer
              divided by 0 gives 0, a float ±inf or NaN, and the least integer by -1 itself.
    """
    return build_one("floor_divide", [a, b], name=name)


def _remainder_gradient(use: Use, grad: Tensor) -> Grads:
    a, b = use.inputs
    # a % b = a - b·floor(a/b), and floor is flat almost everywhere.
    to_b = negative(multiply(grad, floor_divide(a, b)))
    return (unbroadcast(grad, a, b), unbroadcast(to_b, b, a))


@op("remainder", spec=binary("remainder", DtypeClass.REAL), gradient=_remainder_gradient)
@api_function
def remainder(a: Any, b: Any, *, name: str | None = None) -> Tensor:
    """What `floor_divide` leaves of a, with the sign of b: `a % b`.

    Shapes:   a and b broadcast
    Dtypes:   integers or floats, the same, kept
    Gradient: g, and -g·floor(a/b).
    Raises:   SpecError when shapes do not broadcast or dtypes differ. As in numpy the remainder
              by 0 is 0 for integers and NaN for floats.
    """
    return build_one("remainder", [a, b], name=name)


def _fmod_gradient(use: Use, grad: Tensor) -> Grads:
    (a, b), (rest,) = use.inputs, use.outputs
    # ORDER: the rest is taken off before dividing: trunc(a/b) is one off where a/b rounds up to it.
    to_b = negative(multiply(grad, round(divide(subtract(a, rest), b))))
    return (unbroadcast(grad, a, b), unbroadcast(to_b, b, a))


@op("fmod", spec=binary("fmod", DtypeClass.FLOATING), gradient=_fmod_gradient)
@api_function
def fmod(a: Any, b: Any, *, name: str | None = None) -> Tensor:
    """The remainder of a/b rounded towards zero, with the sign of a: C's fmod.

    Gradients g and -g·trunc(a/b); NaN for b = 0. Floats only: `remainder` takes integers. Else like `add`.
    """
    return build_one("fmod", [a, b], name=name)


# ---------------------------------------------------------------------------- two inputs, others


def _squared_difference_gradient(use: Use, grad: Tensor) -> Grads:
    a, b = use.inputs
    # One product for both: the other is its negative.
    to_a = multiply(multiply(grad, 2), subtract(a, b))
    return (unbroadcast(to_a, a, b), unbroadcast(negative(to_a), b, a))


@op(
    "squared_difference",
    spec=binary("squared_difference", DtypeClass.NUMBER),
    gradient=_squared_difference_gradient,
)
@api_function
def squared_difference(a: Any, b: Any, *, name: str | None = None) -> Tensor:
    """The square (a - b)², elementwise; gradients ±2·g·(a - b). Else like `add`."""
    return build_one("squared_difference", [a, b], name=name)


def _hypot_gradient(use: Use, grad: Tensor) -> Grads:
    (a, b), (length,) = use.inputs, use.outputs
    # Beside an infinite side the other counts for nothing, and inf/inf would be NaN.
    far = isinf(length)
    sides = [where(far, where(isinf(s), sign(s), zeros_like(s)), s) for s in (a, b)]
    length = where(far, hypot(*sides), length)
    to_a, to_b = (multiply(grad, divide_no_nan(side, length)) for side in sides)
    return (unbroadcast(to_a, a, b), unbroadcast(to_b, b, a))


@op("hypot", spec=binary("hypot", DtypeClass.FLOATING), gradient=_hypot_gradient)
@api_function
def hypot(a: Any, b: Any, *, name: str | None = None) -> Tensor:
    """The length √(a² + b²) of floats, without overflow on the way.

    Gradients g·a/length and g·b/length, 0 where both are 0; an infinite side gets g·sign, and each of
    two g·sign/√2. Else like `add`.
    """
    return build_one("hypot", [a, b], name=name)


def _multiply_no_nan_gradient(use: Use, grad: Tensor) -> Grads:
    a, b = use.inputs
    # The factor that decides about 0 comes last, as in the op.
    to_a, to_b = multiply_no_nan(grad, b), multiply_no_nan(a, grad)
    return (unbroadcast(to_a, a, b), unbroadcast(to_b, b, a))


@op("multiply_no_nan", spec=binary("multiply_no_nan", DtypeClass.INEXACT), gradient=_multiply_no_nan_gradient)
@api_function
def multiply_no_nan(a: Any, b: Any, *, name: str | None = None) -> Tensor:
    """The product a·b of floats, but 0 where b is 0, even if a is infinite or NaN.

    Gradients g·b and g·a, 0 where the last factor is. Else like `add`.
    """
    return build_one("multiply_no_nan", [a, b], name=name)


def _divide_no_nan_gradient(use: Use, grad: Tensor) -> Grads:
    (a, b), (quotient,) = use.inputs, use.outputs
    # 0 where b is 0, and so is the quotient: no NaN in either gradient.
    to_a = divide_no_nan(grad, b)
    return (unbroadcast(to_a, a, b), unbroadcast(negative(multiply(to_a, quotient)), b, a))


@op("divide_no_nan", spec=binary("divide_no_nan", DtypeClass.INEXACT), gradient=_divide_no_nan_gradient)
@api_function
def divide_no_nan(a: Any, b: Any, *, name: str | None = None) -> Tensor:
    """The quotient a/b of floats, but 0 where b is 0, even if a is infinite or NaN.

    Gradients g/b and -g·(a/b)/b, both 0 where b is 0. Else like `divide`.
    """
    return build_one("divide_no_nan", [a, b], name=name)


# --------------------------------------------------------------------------------- three inputs


def _clip_gradient(use: Use, grad: Tensor) -> Grads:
    x, low, high = use.inputs
    zeros = zeros_like(grad)
    # As in the kernel: the upper bound wins, also over a lower one that lies above it.
    above = greater(maximum(x, low), high)
    below = less(x, low)
    # Not by products: a gradient that is infinite times 0 would be NaN.
    to_x = where(above, zeros, where(below, zeros, grad))
    # Bounds are constants most of the time.
    to_low = where(above, zeros, where(below, grad, zeros)) if use.needs[1] else None
    to_high = where(above, grad, zeros) if use.needs[2] else None
    return (
        unbroadcast(to_x, x, low, high),
        None if to_low is None else unbroadcast(to_low, low, x, high),
        None if to_high is None else unbroadcast(to_high, high, x, low),
    )


@op("clip", spec=ternary("clip", DtypeClass.REAL), gradient=_clip_gradient)
@api_function
def clip(x: Any, min: Any = None, max: Any = None, *, name: str | None = None) -> Tensor:
    """`x` with what is below `min` raised to it and what is above `max` lowered to it.

    Shapes:   x, min and max broadcast
    Dtypes:   integers or floats, the same; Python numbers take that of x
    Gradient: to x where it is within the bounds or on one, else to the bound that it met.
    Raises:   SpecError when shapes do not broadcast, dtypes differ or both bounds are None. As in
              numpy the upper bound wins where it is the lower one, and NaN stays NaN.
    """
    if min is None and max is None:
        message = "clip needs a bound, got min=None and max=None"
        raise SpecError(message, where=Where(defined_at=source_line()))
    # With one bound alone it is a maximum or a minimum, whose gradients go to x on ties as here.
    if max is None:
        return maximum(x, min, name=name or "clip")
    if min is None:
        return minimum(x, max, name=name or "clip")
    return build_one("clip", [x, min, max], name=name)


def _lerp_gradient(use: Use, grad: Tensor) -> Grads:
    a, b, t = use.inputs
    to_b = multiply(grad, t)
    return (
        unbroadcast(subtract(grad, to_b), a, b, t),
        unbroadcast(to_b, b, a, t),
        unbroadcast(multiply(grad, subtract(b, a)), t, a, b) if use.needs[2] else None,
    )


@op("lerp", spec=ternary("lerp", DtypeClass.FLOATING), gradient=_lerp_gradient)
@api_function
def lerp(a: Any, b: Any, t: Any, *, name: str | None = None) -> Tensor:
    """The mix a + t·(b - a), exactly a at t = 0 and exactly b at t = 1.

    Shapes:   all three broadcast
    Dtypes:   floats, the same; Python numbers take that of the others
    Gradient: g·(1 - t), g·t and g·(b - a).
    Raises:   SpecError when shapes do not broadcast or dtypes differ.
    """
    return build_one("lerp", [a, b, t], name=name)


# ------------------------------------------------------------------------------------ one input


@op("positive", spec=unary("positive", DtypeClass.NUMBER), gradient=lambda use, grad: (grad,))
@api_function
def positive(x: Any, *, name: str | None = None) -> Tensor:
    """The number x itself, `+x`: what `identity` is, for numbers only; its gradient passes unchanged."""
    return build_one("positive", [x], name=name)


def _reciprocal_gradient(use: Use, grad: Tensor) -> Grads:
    return (negative(multiply(grad, square(use.outputs[0]))),)


@op("reciprocal", spec=unary("reciprocal", DtypeClass.INEXACT), gradient=_reciprocal_gradient)
@api_function
def reciprocal(x: Any, *, name: str | None = None) -> Tensor:
    """The reciprocal 1/x of floats, ±inf of ±0; gradient -g/x²."""
    return build_one("reciprocal", [x], name=name)


def _rsqrt_gradient(use: Use, grad: Tensor) -> Grads:
    (y,) = use.outputs
    # x^(-1/2)' = -x^(-3/2)/2, of y alone: x need not be kept.
    return (multiply(multiply(grad, -0.5), multiply(y, square(y))),)


@op("rsqrt", spec=unary("rsqrt", DtypeClass.FLOATING), gradient=_rsqrt_gradient)
@api_function
def rsqrt(x: Any, *, name: str | None = None) -> Tensor:
    """The reciprocal square root 1/√x of floats, inf at 0, NaN of negative numbers; gradient -g/(2·x·√x)."""
    return build_one("rsqrt", [x], name=name)
