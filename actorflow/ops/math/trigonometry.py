"""Trigonometric and hyperbolic functions and their inverses; angles are in radians."""

from __future__ import annotations

from collections.abc import Sequence
from math import pi
from typing import Any

from actorflow.graph.autodiff import Use
from actorflow.graph.builder import Tensor, as_tensor, build_one
from actorflow.graph.opdef import op
from actorflow.ops.array.broadcast import unbroadcast
from actorflow.ops.array.constants import ones_like
from actorflow.ops.definition.arguments import api_function
from actorflow.ops.definition.spec_rules import DtypeClass, binary, unary
from actorflow.ops.math.arithmetic import hypot, multiply_no_nan
from actorflow.ops.math.elementwise import abs, add, divide, multiply, negative, sqrt, square, subtract
from actorflow.ops.math.logic import less, where

Grads = Sequence[Tensor | None]


def _sin_gradient(use: Use, grad: Tensor) -> Grads:
    return (multiply(grad, cos(use.inputs[0])),)


@op("sin", spec=unary("sin", DtypeClass.INEXACT), gradient=_sin_gradient)
@api_function
def sin(x: Any, *, name: str | None = None) -> Tensor:
    """The sine of floats, NaN of infinities; gradient g·cos x."""
    return build_one("sin", [x], name=name)


def _cos_gradient(use: Use, grad: Tensor) -> Grads:
    return (negative(multiply(grad, sin(use.inputs[0]))),)


@op("cos", spec=unary("cos", DtypeClass.INEXACT), gradient=_cos_gradient)
@api_function
def cos(x: Any, *, name: str | None = None) -> Tensor:
    """The cosine of floats, NaN of infinities; gradient -g·sin x."""
    return build_one("cos", [x], name=name)


def _tan_gradient(use: Use, grad: Tensor) -> Grads:
    return (multiply(grad, add(square(use.outputs[0]), 1)),)


@op("tan", spec=unary("tan", DtypeClass.INEXACT), gradient=_tan_gradient)
@api_function
def tan(x: Any, *, name: str | None = None) -> Tensor:
    """The tangent of floats, NaN of infinities; gradient g·(1 + tan² x)."""
    return build_one("tan", [x], name=name)


def _leg(x: Tensor) -> Tensor:
    """√(1 - x²); as a product, since 1 - x² loses digits near 1."""
    return sqrt(multiply(subtract(1, x), add(x, 1)))


def _asin_gradient(use: Use, grad: Tensor) -> Grads:
    return (divide(grad, _leg(use.inputs[0])),)


@op("asin", spec=unary("asin", DtypeClass.INEXACT), gradient=_asin_gradient)
@api_function
def asin(x: Any, *, name: str | None = None) -> Tensor:
    """The angle in [-π/2, π/2] whose sine is x, NaN where |x| > 1; gradient g/√(1 - x²)."""
    return build_one("asin", [x], name=name)


def _acos_gradient(use: Use, grad: Tensor) -> Grads:
    return (negative(divide(grad, _leg(use.inputs[0]))),)


@op("acos", spec=unary("acos", DtypeClass.INEXACT), gradient=_acos_gradient)
@api_function
def acos(x: Any, *, name: str | None = None) -> Tensor:
    """The angle in [0, π] whose cosine is x, NaN where |x| > 1; gradient -g/√(1 - x²)."""
    return build_one("acos", [x], name=name)


def _atan_gradient(use: Use, grad: Tensor) -> Grads:
    return (divide(grad, add(square(use.inputs[0]), 1)),)


@op("atan", spec=unary("atan", DtypeClass.INEXACT), gradient=_atan_gradient)
@api_function
def atan(x: Any, *, name: str | None = None) -> Tensor:
    """The angle in [-π/2, π/2] whose tangent is x; gradient g/(1 + x²)."""
    return build_one("atan", [x], name=name)


def _atan2_gradient(use: Use, grad: Tensor) -> Grads:
    y, x = use.inputs
    pull = divide(grad, add(square(y), square(x)))
    # An infinite side makes the pull 0, and 0·inf would be NaN.
    to_y, to_x = multiply_no_nan(x, pull), negative(multiply_no_nan(y, pull))
    return (unbroadcast(to_y, y, x), unbroadcast(to_x, x, y))


@op("atan2", spec=binary("atan2", DtypeClass.FLOATING), gradient=_atan2_gradient)
@api_function
def atan2(y: Any, x: Any, *, name: str | None = None) -> Tensor:
    """The angle in [-π, π] of the point (x, y), the signs of zeros told apart as in numpy.

    Shapes:   y and x broadcast
    Dtypes:   floats, the same
    Gradient: g·x/(x² + y²) to y and -g·y/(x² + y²) to x, NaN at the origin and 0 at infinity.
    Raises:   SpecError when shapes do not broadcast or dtypes differ.
    """
    return build_one("atan2", [y, x], name=name)


# ------------------------------------------------------------------------------------ hyperbolic


def _sinh_gradient(use: Use, grad: Tensor) -> Grads:
    return (multiply(grad, cosh(use.inputs[0])),)


@op("sinh", spec=unary("sinh", DtypeClass.INEXACT), gradient=_sinh_gradient)
@api_function
def sinh(x: Any, *, name: str | None = None) -> Tensor:
    """The hyperbolic sine (e^x - e^-x)/2 of floats; gradient g·cosh x."""
    return build_one("sinh", [x], name=name)


def _cosh_gradient(use: Use, grad: Tensor) -> Grads:
    return (multiply(grad, sinh(use.inputs[0])),)


@op("cosh", spec=unary("cosh", DtypeClass.INEXACT), gradient=_cosh_gradient)
@api_function
def cosh(x: Any, *, name: str | None = None) -> Tensor:
    """The hyperbolic cosine (e^x + e^-x)/2 of floats; gradient g·sinh x."""
    return build_one("cosh", [x], name=name)


def _asinh_gradient(use: Use, grad: Tensor) -> Grads:
    (x,) = use.inputs
    # hypot: x² would overflow for large x.
    return (divide(grad, hypot(x, 1)),)


@op("asinh", spec=unary("asinh", DtypeClass.INEXACT), gradient=_asinh_gradient)
@api_function
def asinh(x: Any, *, name: str | None = None) -> Tensor:
    """The number whose hyperbolic sine is x; gradient g/√(x² + 1)."""
    return build_one("asinh", [x], name=name)


def _acosh_gradient(use: Use, grad: Tensor) -> Grads:
    (x,) = use.inputs
    # As a product, since x² - 1 loses digits near 1.
    return (divide(grad, multiply(sqrt(subtract(x, 1)), sqrt(add(x, 1)))),)


@op("acosh", spec=unary("acosh", DtypeClass.INEXACT), gradient=_acosh_gradient)
@api_function
def acosh(x: Any, *, name: str | None = None) -> Tensor:
    """The number ≥ 0 whose hyperbolic cosine is x, NaN below 1; gradient g/√(x² - 1)."""
    return build_one("acosh", [x], name=name)


def _atanh_gradient(use: Use, grad: Tensor) -> Grads:
    (x,) = use.inputs
    # As in `_leg`: 1 - x² loses digits near 1.
    return (divide(grad, multiply(subtract(1, x), add(x, 1))),)


@op("atanh", spec=unary("atanh", DtypeClass.INEXACT), gradient=_atanh_gradient)
@api_function
def atanh(x: Any, *, name: str | None = None) -> Tensor:
    """The number whose hyperbolic tangent is x, ±inf at ±1 and NaN beyond; gradient g/(1 - x²)."""
    return build_one("atanh", [x], name=name)


# ------------------------------------------------------------------------------- sinc and degrees


def _sinc_gradient(use: Use, grad: Tensor) -> Grads:
    """(cos u - sin u/u)/x with u = πx; near 0, where the digits cancel, the series of it."""
    (x,), (y,) = use.inputs, use.outputs
    near = less(abs(x), 0.15)
    # 1 in place of what is near 0: nothing is divided by zero there.
    far_x = where(near, ones_like(x), x)
    far = divide(subtract(cos(multiply(x, pi)), y), far_x)
    squared = multiply(square(x), pi * pi)
    series: Any = 0.0
    for factor in (-1 / 3991680, 1 / 45360, -1 / 840, 1 / 30, -1 / 3):  # of sin(u)/u, in falling powers
        # Horner's rule.
        series = add(multiply(squared, series), factor)
    return (multiply(grad, where(near, multiply(multiply(x, pi * pi), series), far)),)


@op("sinc", spec=unary("sinc", DtypeClass.FLOATING), gradient=_sinc_gradient)
@api_function
def sinc(x: Any, *, name: str | None = None) -> Tensor:
    """The cardinal sine sin(πx)/(πx) of floats, 1 at 0; gradient g·(cos(πx) - sinc x)/x, 0 at 0."""
    return build_one("sinc", [x], name=name)


@api_function
def deg2rad(x: Any, *, name: str | None = None) -> Tensor:
    """The angle x of degrees in radians, x·π/180, of floats; gradient g·π/180."""
    return multiply(as_tensor(x), pi / 180, name=name or "deg2rad")


@api_function
def rad2deg(x: Any, *, name: str | None = None) -> Tensor:
    """The angle x of radians in degrees, x·180/π, of floats; gradient g·180/π."""
    return multiply(as_tensor(x), 180 / pi, name=name or "rad2deg")
