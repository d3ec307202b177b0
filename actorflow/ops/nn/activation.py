"""Activation functions of networks beside `relu`, `sigmoid` and `tanh`."""

from __future__ import annotations

from collections.abc import Sequence
from math import pi, sqrt
from typing import Any

from actorflow.errors import SpecError, Where
from actorflow.graph.autodiff import Use
from actorflow.graph.builder import Tensor, as_tensor, build_one
from actorflow.graph.opdef import op
from actorflow.ops.array.constants import ones_like, zeros_like
from actorflow.ops.definition.arguments import api_function
from actorflow.ops.definition.spec_rules import DtypeClass, unary
from actorflow.ops.math.arithmetic import multiply_no_nan
from actorflow.ops.math.elementwise import (
    abs,
    add,
    divide,
    exp,
    minimum,
    multiply,
    sigmoid,
    square,
    subtract,
    tanh,
)
from actorflow.ops.math.logic import greater, less, logical_and, where
from actorflow.ops.math.special import erfc
from actorflow.runtime.call_site import source_line

Grads = Sequence[Tensor | None]

# ----------------------------------------------------------------------------------- piecewise


def _leaky_relu_gradient(use: Use, grad: Tensor) -> Grads:
    return (where(greater(use.inputs[0], 0), grad, multiply(grad, use.attrs["slope"])),)


@op("leaky_relu", spec=unary("leaky_relu", DtypeClass.FLOATING), gradient=_leaky_relu_gradient)
@api_function
def leaky_relu(x: Any, slope: float = 0.01, *, name: str | None = None) -> Tensor:
    """The number x where it is positive, else slope·x, of floats; gradient g or slope·g."""
    return build_one("leaky_relu", [x], {"slope": float(slope)}, name=name)


def _hardtanh_gradient(use: Use, grad: Tensor) -> Grads:
    (x,) = use.inputs
    inside = logical_and(greater(x, use.attrs["low"]), less(x, use.attrs["high"]))
    return (where(inside, grad, zeros_like(grad)),)


def _hardtanh_spec(inputs: Any, attrs: Any) -> Any:
    if not attrs["low"] <= attrs["high"]:
        message = f"hardtanh needs low <= high, got {attrs['low']} and {attrs['high']}"
        raise SpecError(message)
    return unary("hardtanh", DtypeClass.FLOATING)(inputs, attrs)


@op("hardtanh", spec=_hardtanh_spec, gradient=_hardtanh_gradient)
@api_function
def hardtanh(x: Any, low: float = -1.0, high: float = 1.0, *, name: str | None = None) -> Tensor:
    """The float x kept between two numbers, as `clip` does; gradient g where low < x < high, else 0."""
    return build_one("hardtanh", [x], {"low": float(low), "high": float(high)}, name=name)


@api_function
def relu6(x: Any, *, name: str | None = None) -> Tensor:
    """`relu` up to 6 and 6 from there on, of floats; gradient g where 0 < x < 6, else 0."""
    return hardtanh(x, 0.0, 6.0, name=name or "relu6")


def _hardsigmoid_gradient(use: Use, grad: Tensor) -> Grads:
    (y,) = use.outputs
    # Told by the output, which is exactly 0 or 1 where it is cut.
    inside = logical_and(greater(y, 0), less(y, 1))
    return (where(inside, multiply(grad, use.attrs["slope"]), zeros_like(grad)),)


@op("hardsigmoid", spec=unary("hardsigmoid", DtypeClass.FLOATING), gradient=_hardsigmoid_gradient)
@api_function
def hardsigmoid(x: Any, slope: float = 1 / 6, *, name: str | None = None) -> Tensor:
    """slope·x + 1/2, kept between 0 and 1, of floats; gradient slope·g in between, else 0."""
    return build_one("hardsigmoid", [x], {"slope": float(slope)}, name=name)


def _hardswish_gradient(use: Use, grad: Tensor) -> Grads:
    (x,) = use.inputs
    # The rise in between, x/3 + 1/2; at the two ends the pieces are straight, of slope 0 and 1.
    slope = add(multiply(x, 1 / 3), 0.5)
    slope = where(greater(x, -3), where(less(x, 3), slope, ones_like(x)), zeros_like(x))
    return (multiply(grad, slope),)


@op("hardswish", spec=unary("hardswish", DtypeClass.FLOATING), gradient=_hardswish_gradient)
@api_function
def hardswish(x: Any, *, name: str | None = None) -> Tensor:
    """x·hardsigmoid x: 0 below -3, x above 3, of floats; gradient g·(x/3 + 1/2) in between."""
    return build_one("hardswish", [x], name=name)


@api_function
def threshold(x: Any, limit: float, value: float, *, name: str | None = None) -> Tensor:
    """The number x where it is above the limit, else the value; gradient g where it is above, else 0."""
    x = as_tensor(x)
    return where(greater(x, limit), x, value, name=name or "threshold")


# ---------------------------------------------------------------------------------- exponential


def _elu_gradient(use: Use, grad: Tensor) -> Grads:
    (x,) = use.inputs
    alpha, scale, rate = (use.attrs[key] for key in ("alpha", "scale", "rate"))
    # Up to 0 only: far right the exponential would overflow, on the side that is dropped below.
    bent = multiply(exp(multiply(minimum(x, 0), rate)), scale * alpha * rate)
    straight = multiply(ones_like(x), scale)
    return (multiply(grad, where(greater(x, 0), straight, bent)),)


@op("elu", spec=unary("elu", DtypeClass.FLOATING), gradient=_elu_gradient)
@api_function
def elu(
    x: Any, alpha: float = 1.0, scale: float = 1.0, rate: float = 1.0, *, name: str | None = None
) -> Tensor:
    """The exponential linear unit: scale·x where x > 0, else scale·alpha·(e^(rate·x) - 1).

    Shapes:   any, kept
    Dtypes:   floats, kept
    Gradient: scale·g, or scale·alpha·rate·e^(rate·x)·g.
    Raises:   SpecError for other dtypes.
    """
    attrs = {"alpha": float(alpha), "scale": float(scale), "rate": float(rate)}
    return build_one("elu", [x], attrs, name=name)


@api_function
def selu(x: Any, *, name: str | None = None) -> Tensor:
    """The `elu` whose outputs keep mean 0 and variance 1 from layer to layer; gradient as of that.

    Source: Klambauer and others, Self-normalizing neural networks, 2017.
    """
    return elu(x, 1.6732632423543772, 1.0507009873554805, name=name or "selu")


@api_function
def celu(x: Any, alpha: float = 1.0, *, name: str | None = None) -> Tensor:
    """The `elu` of slope 1 at 0: x where it is positive, else alpha·(e^(x/alpha) - 1); gradient as of that.

    Raises SpecError for an alpha of 0.
    """
    if alpha == 0:
        message = f"celu needs an alpha other than 0, got {alpha} for {as_tensor(x).spec}"
        raise SpecError(message, where=Where(defined_at=source_line()), hint="relu is its limit")
    return elu(x, alpha, 1.0, 1 / alpha, name=name or "celu")


def _silu_gradient(use: Use, grad: Tensor) -> Grads:
    (x,) = use.inputs
    s = sigmoid(x)
    # At inf the rise is 0, and inf·0 would be NaN; so in the other activations below.
    return (multiply(grad, add(s, multiply_no_nan(x, multiply(s, subtract(1, s))))),)


@op("silu", spec=unary("silu", DtypeClass.FLOATING), gradient=_silu_gradient)
@api_function
def silu(x: Any, *, name: str | None = None) -> Tensor:
    """x·sigmoid x, which others call swish, of floats; gradient g·(s + x·s·(1 - s)) with s = sigmoid x."""
    return build_one("silu", [x], name=name)


def _softplus_gradient(use: Use, grad: Tensor) -> Grads:
    return (multiply(grad, sigmoid(use.inputs[0])),)


@op("softplus", spec=unary("softplus", DtypeClass.FLOATING), gradient=_softplus_gradient)
@api_function
def softplus(x: Any, *, name: str | None = None) -> Tensor:
    """log(1 + e^x) of floats, without overflow, tiny results exact; gradient g·sigmoid x."""
    return build_one("softplus", [x], name=name)


def _log_sigmoid_gradient(use: Use, grad: Tensor) -> Grads:
    return (multiply(grad, sigmoid(subtract(0, use.inputs[0]))),)


@op("log_sigmoid", spec=unary("log_sigmoid", DtypeClass.FLOATING), gradient=_log_sigmoid_gradient)
@api_function
def log_sigmoid(x: Any, *, name: str | None = None) -> Tensor:
    """The logarithm of `sigmoid`, -log(1 + e^-x), finite for all finite x; gradient g·sigmoid(-x)."""
    return build_one("log_sigmoid", [x], name=name)


def _softsign_gradient(use: Use, grad: Tensor) -> Grads:
    return (divide(grad, square(add(abs(use.inputs[0]), 1))),)


@op("softsign", spec=unary("softsign", DtypeClass.FLOATING), gradient=_softsign_gradient)
@api_function
def softsign(x: Any, *, name: str | None = None) -> Tensor:
    """x/(1 + |x|) of floats; gradient g/(1 + |x|)²."""
    return build_one("softsign", [x], name=name)


def _mish_gradient(use: Use, grad: Tensor) -> Grads:
    (x,) = use.inputs
    t = tanh(softplus(x))
    rise = multiply_no_nan(x, multiply(sigmoid(x), subtract(1, square(t))))
    return (multiply(grad, add(t, rise)),)


@op("mish", spec=unary("mish", DtypeClass.FLOATING), gradient=_mish_gradient)
@api_function
def mish(x: Any, *, name: str | None = None) -> Tensor:
    """x·tanh(softplus x) of floats; gradient g·(t + x·(1 - t²)·sigmoid x) with t = tanh(softplus x)."""
    return build_one("mish", [x], name=name)


# ------------------------------------------------------------------------------------- gaussian


def _gelu_gradient(use: Use, grad: Tensor) -> Grads:
    (x,) = use.inputs
    if use.attrs["approximate"]:
        # The slope of the approximation, not of gelu: it belongs to what was computed.
        squared = square(x)
        t = tanh(multiply(multiply(x, add(multiply(squared, 0.044715), 1)), sqrt(2 / pi)))
        inner = multiply(add(multiply(squared, 3 * 0.044715), 1), sqrt(2 / pi))
        rise = multiply_no_nan(multiply(x, inner), subtract(1, square(t)))
        return (multiply(grad, multiply(add(add(t, 1), rise), 0.5)),)
    # Φ by erfc, since 1 + erf(x) would cancel far below 0.
    below = multiply(erfc(multiply(x, -sqrt(0.5))), 0.5)
    bell = multiply(exp(multiply(square(x), -0.5)), 1 / sqrt(2 * pi))
    return (multiply(grad, add(below, multiply_no_nan(x, bell))),)


@op("gelu", spec=unary("gelu", DtypeClass.FLOATING), gradient=_gelu_gradient)
@api_function
def gelu(x: Any, approximate: bool = False, *, name: str | None = None) -> Tensor:
    """x·Φ(x), with Φ(x) the chance that a standard normal number is below x.

    Shapes:   any, kept
    Dtypes:   floats, kept
    Gradient: g·(Φ(x) + x·φ(x)), with φ the density; of the approximation its own.
    Raises:   SpecError for other dtypes.

    `approximate` takes Φ(x) ≈ (1 + tanh(√(2/π)·(x + 0.044715·x³)))/2, as networks trained with it need.
    """
    return build_one("gelu", [x], {"approximate": approximate}, name=name)
