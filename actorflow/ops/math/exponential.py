"""Exponentials, logarithms and the cube root, one element at a time."""

from __future__ import annotations

from collections.abc import Sequence
from math import log as natural
from typing import Any

from actorflow.graph.autodiff import Use
from actorflow.graph.builder import Tensor, build_one
from actorflow.graph.opdef import op
from actorflow.ops.array.broadcast import unbroadcast
from actorflow.ops.array.constants import zeros_like
from actorflow.ops.definition.arguments import api_function
from actorflow.ops.definition.spec_rules import DtypeClass, binary, unary
from actorflow.ops.math.elementwise import add, divide, exp, multiply, sigmoid, square, subtract
from actorflow.ops.math.logic import equal, where

Grads = Sequence[Tensor | None]


def _exp2_gradient(use: Use, grad: Tensor) -> Grads:
    return (multiply(grad, multiply(use.outputs[0], natural(2))),)


@op("exp2", spec=unary("exp2", DtypeClass.FLOATING), gradient=_exp2_gradient)
@api_function
def exp2(x: Any, *, name: str | None = None) -> Tensor:
    """The power 2^x of floats, elementwise; gradient g·2^x·log 2."""
    return build_one("exp2", [x], name=name)


def _expm1_gradient(use: Use, grad: Tensor) -> Grads:
    return (multiply(grad, exp(use.inputs[0])),)


@op("expm1", spec=unary("expm1", DtypeClass.INEXACT), gradient=_expm1_gradient)
@api_function
def expm1(x: Any, *, name: str | None = None) -> Tensor:
    """The exponential less one, e^x - 1, with all digits near 0; gradient g·e^x."""
    return build_one("expm1", [x], name=name)


def _log1p_gradient(use: Use, grad: Tensor) -> Grads:
    return (divide(grad, add(use.inputs[0], 1)),)


@op("log1p", spec=unary("log1p", DtypeClass.INEXACT), gradient=_log1p_gradient)
@api_function
def log1p(x: Any, *, name: str | None = None) -> Tensor:
    """The logarithm log(1 + x), with all digits near 0; -inf at -1, NaN below; gradient g/(1 + x)."""
    return build_one("log1p", [x], name=name)


def _log2_gradient(use: Use, grad: Tensor) -> Grads:
    return (divide(grad, multiply(use.inputs[0], natural(2))),)


@op("log2", spec=unary("log2", DtypeClass.INEXACT), gradient=_log2_gradient)
@api_function
def log2(x: Any, *, name: str | None = None) -> Tensor:
    """The logarithm of base 2, -inf of 0 and NaN of negative numbers; gradient g/(x·log 2)."""
    return build_one("log2", [x], name=name)


def _log10_gradient(use: Use, grad: Tensor) -> Grads:
    return (divide(grad, multiply(use.inputs[0], natural(10))),)


@op("log10", spec=unary("log10", DtypeClass.INEXACT), gradient=_log10_gradient)
@api_function
def log10(x: Any, *, name: str | None = None) -> Tensor:
    """The logarithm of base 10, -inf of 0 and NaN of negative numbers; gradient g/(x·log 10)."""
    return build_one("log10", [x], name=name)


def _cbrt_gradient(use: Use, grad: Tensor) -> Grads:
    return (divide(grad, multiply(square(use.outputs[0]), 3)),)


@op("cbrt", spec=unary("cbrt", DtypeClass.FLOATING), gradient=_cbrt_gradient)
@api_function
def cbrt(x: Any, *, name: str | None = None) -> Tensor:
    """The cube root of floats, negative of negative numbers; gradient g/(3·∛x²), infinite at 0."""
    return build_one("cbrt", [x], name=name)


def _logaddexp_gradient(use: Use, grad: Tensor) -> Grads:
    a, b = use.inputs
    apart = subtract(a, b)
    apart = where(equal(a, b), zeros_like(apart), apart)  # two equal infinities share the gradient
    # sigmoid(a - b) is e^a over the sum, without computing either.
    to_a, to_b = multiply(grad, sigmoid(apart)), multiply(grad, sigmoid(subtract(0, apart)))
    return (unbroadcast(to_a, a, b), unbroadcast(to_b, b, a))


@op("logaddexp", spec=binary("logaddexp", DtypeClass.FLOATING), gradient=_logaddexp_gradient)
@api_function
def logaddexp(a: Any, b: Any, *, name: str | None = None) -> Tensor:
    """The logarithm log(e^a + e^b), which overflows only where its result does.

    Shapes:   a and b broadcast
    Dtypes:   floats, the same
    Gradient: g·sigmoid(a - b) and g·sigmoid(b - a): half each where both are the same infinity.
    Raises:   SpecError when shapes do not broadcast or dtypes differ.
    """
    return build_one("logaddexp", [a, b], name=name)
