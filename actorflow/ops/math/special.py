"""The error function and the gamma function, with their inverses and derivatives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import pi, sqrt
from typing import Any

from actorflow.errors import SpecError
from actorflow.graph.autodiff import Use
from actorflow.graph.builder import Tensor, build_one
from actorflow.graph.node import Attr
from actorflow.graph.opdef import op
from actorflow.ops.definition.arguments import api_function
from actorflow.ops.definition.spec_rules import DtypeClass, check_dtypes, unary
from actorflow.ops.math.elementwise import exp, multiply, negative, square
from actorflow.values.spec import Spec

Grads = Sequence[Tensor | None]


def _bell(x: Tensor) -> Tensor:
    """2/√π·e^-x², the slope of erf."""
    return multiply(exp(negative(square(x))), 2 / sqrt(pi))


def _erf_gradient(use: Use, grad: Tensor) -> Grads:
    return (multiply(grad, _bell(use.inputs[0])),)


@op("erf", spec=unary("erf", DtypeClass.FLOATING), gradient=_erf_gradient)
@api_function
def erf(x: Any, *, name: str | None = None) -> Tensor:
    """The error function 2/√π·∫₀ˣ e^-t² dt of floats; gradient g·2/√π·e^-x²."""
    return build_one("erf", [x], name=name)


def _erfc_gradient(use: Use, grad: Tensor) -> Grads:
    return (negative(multiply(grad, _bell(use.inputs[0]))),)


@op("erfc", spec=unary("erfc", DtypeClass.FLOATING), gradient=_erfc_gradient)
@api_function
def erfc(x: Any, *, name: str | None = None) -> Tensor:
    """What `erf` lacks of 1, with all digits where it is tiny; gradient -g·2/√π·e^-x²."""
    return build_one("erfc", [x], name=name)


def _erfinv_gradient(use: Use, grad: Tensor) -> Grads:
    # The slope of erf at y, turned round; of the output, which is kept.
    return (multiply(grad, multiply(exp(square(use.outputs[0])), sqrt(pi) / 2)),)


@op("erfinv", spec=unary("erfinv", DtypeClass.FLOATING), gradient=_erfinv_gradient)
@api_function
def erfinv(x: Any, *, name: str | None = None) -> Tensor:
    """The number y whose erf is x: ±inf at ±1, NaN where |x| > 1; gradient g·√π/2·e^y²."""
    return build_one("erfinv", [x], name=name)


def _lgamma_gradient(use: Use, grad: Tensor) -> Grads:
    return (multiply(grad, digamma(use.inputs[0])),)


@op("lgamma", spec=unary("lgamma", DtypeClass.FLOATING), gradient=_lgamma_gradient)
@api_function
def lgamma(x: Any, *, name: str | None = None) -> Tensor:
    """The logarithm log|Γ(x)| of floats, inf at 0, -1, -2, …; gradient g·digamma x."""
    return build_one("lgamma", [x], name=name)


def _digamma_gradient(use: Use, grad: Tensor) -> Grads:
    return (multiply(grad, polygamma(1, use.inputs[0])),)


@op("digamma", spec=unary("digamma", DtypeClass.FLOATING), gradient=_digamma_gradient)
@api_function
def digamma(x: Any, *, name: str | None = None) -> Tensor:
    """The slope of `lgamma`, Γ'(x)/Γ(x): ∓inf at ±0, NaN at -1, -2, …; gradient g·polygamma(1, x)."""
    return build_one("digamma", [x], name=name)


def _polygamma_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    (x,) = inputs
    check_dtypes("polygamma", DtypeClass.FLOATING, x)
    if not 0 <= attrs["n"] <= 100:
        message = f"polygamma takes an order from 0 to 100, got {attrs['n']} for {x}"
        raise SpecError(message)
    return (x,)


def _polygamma_gradient(use: Use, grad: Tensor) -> Grads:
    return (multiply(grad, polygamma(use.attrs["n"] + 1, use.inputs[0])),)


@op("polygamma", spec=_polygamma_spec, gradient=_polygamma_gradient)
@api_function
def polygamma(n: int, x: Any, *, name: str | None = None) -> Tensor:
    """The derivative of order `n` of `digamma`; `digamma` itself for 0.

    Shapes:   any, kept
    Dtypes:   floats, kept
    Gradient: g·polygamma(n + 1, x).
    Raises:   SpecError for other dtypes and for an order below 0 or above 100.
    """
    order = n
    return digamma(x, name=name) if order == 0 else build_one("polygamma", [x], {"n": order}, name=name)
