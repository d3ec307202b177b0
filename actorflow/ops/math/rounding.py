"""Rounding to whole numbers, and what is seen in the bits of a float: its sign, NaN, infinities."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from actorflow.graph.autodiff import Use
from actorflow.graph.builder import Tensor, build_one
from actorflow.graph.opdef import NOT_DIFFERENTIABLE, op
from actorflow.ops.array.broadcast import unbroadcast
from actorflow.ops.array.constants import zeros_like
from actorflow.ops.definition.arguments import api_function
from actorflow.ops.definition.spec_rules import DtypeClass, binary, predicate, unary
from actorflow.ops.math.elementwise import negative
from actorflow.ops.math.logic import equal, where

Grads = Sequence[Tensor | None]


@op("ceil", spec=unary("ceil", DtypeClass.FLOATING), gradient=NOT_DIFFERENTIABLE)
@api_function
def ceil(x: Any, *, name: str | None = None) -> Tensor:
    """The smallest whole number that is not below x, in the dtype of x; no gradient flows."""
    return build_one("ceil", [x], name=name)


@op("trunc", spec=unary("trunc", DtypeClass.FLOATING), gradient=NOT_DIFFERENTIABLE)
@api_function
def trunc(x: Any, *, name: str | None = None) -> Tensor:
    """The whole number next to x on the way to 0, in the dtype of x; no gradient flows."""
    return build_one("trunc", [x], name=name)


@op("round", spec=unary("round", DtypeClass.FLOATING), gradient=NOT_DIFFERENTIABLE)
@api_function
def round(x: Any, *, name: str | None = None) -> Tensor:
    """The whole number nearest to x, the even one of two, in the dtype of x; no gradient flows."""
    return build_one("round", [x], name=name)


@op("isnan", spec=predicate("isnan", DtypeClass.NUMBER), gradient=NOT_DIFFERENTIABLE)
@api_function
def isnan(x: Any, *, name: str | None = None) -> Tensor:
    """Whether x is not a number, elementwise, as bool; false for integers; no gradient."""
    return build_one("isnan", [x], name=name)


@op("isinf", spec=predicate("isinf", DtypeClass.NUMBER), gradient=NOT_DIFFERENTIABLE)
@api_function
def isinf(x: Any, *, name: str | None = None) -> Tensor:
    """Whether x is infinite, of either sign, as bool; false for integers; no gradient."""
    return build_one("isinf", [x], name=name)


@op("isfinite", spec=predicate("isfinite", DtypeClass.NUMBER), gradient=NOT_DIFFERENTIABLE)
@api_function
def isfinite(x: Any, *, name: str | None = None) -> Tensor:
    """Whether x is neither infinite nor NaN, as bool; true for integers; no gradient."""
    return build_one("isfinite", [x], name=name)


@op("signbit", spec=predicate("signbit", DtypeClass.FLOATING), gradient=NOT_DIFFERENTIABLE)
@api_function
def signbit(x: Any, *, name: str | None = None) -> Tensor:
    """Whether the sign of a float is minus, that of -0.0 and of NaN as well, as bool; no gradient."""
    return build_one("signbit", [x], name=name)


def _copysign_gradient(use: Use, grad: Tensor) -> Grads:
    a, b = use.inputs
    # -0.0 has a sign as well, which a comparison would not see.
    to_a = where(equal(signbit(a), signbit(b)), grad, negative(grad))
    return (unbroadcast(to_a, a, b), None)


@op("copysign", spec=binary("copysign", DtypeClass.FLOATING), gradient=_copysign_gradient)
@api_function
def copysign(a: Any, b: Any, *, name: str | None = None) -> Tensor:
    """The size of a with the sign of b, elementwise, -0.0 counting as negative.

    Gradient ±g to a by whether the signs are equal; none to b. Floats. Else like `add`.
    """
    return build_one("copysign", [a, b], name=name)


@op("nextafter", spec=binary("nextafter", DtypeClass.FLOATING), gradient=NOT_DIFFERENTIABLE)
@api_function
def nextafter(a: Any, b: Any, *, name: str | None = None) -> Tensor:
    """The float next to a on the way to b, a itself where they are equal; no gradient. Else like `add`."""
    return build_one("nextafter", [a, b], name=name)


def _nan_to_num_gradient(use: Use, grad: Tensor) -> Grads:
    # What was replaced is a constant.
    return (where(isfinite(use.inputs[0]), grad, zeros_like(grad)),)


@op("nan_to_num", spec=unary("nan_to_num", DtypeClass.FLOATING), gradient=_nan_to_num_gradient)
@api_function
def nan_to_num(
    x: Any,
    nan: float = 0.0,
    posinf: float | None = None,
    neginf: float | None = None,
    *,
    name: str | None = None,
) -> Tensor:
    """`x` with NaN and infinities replaced by numbers.

    Shapes:   any, kept
    Dtypes:   floats, kept; None stands for the largest and the smallest finite number of x's dtype
    Gradient: g where x is finite, else 0.
    Raises:   SpecError for other dtypes.
    """
    attrs = {
        "nan": float(nan),
        "posinf": None if posinf is None else float(posinf),
        "neginf": None if neginf is None else float(neginf),
    }
    return build_one("nan_to_num", [x], attrs, name=name)
