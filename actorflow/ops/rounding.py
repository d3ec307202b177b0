"""Rounding to whole numbers, and what is seen in the bits of a float: its sign, NaN, infinities."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from actorflow.graph.autodiff import Use
from actorflow.graph.builder import Tensor, build_one
from actorflow.graph.opdef import NOT_DIFFERENTIABLE, op
from actorflow.ops.arguments import verb
from actorflow.ops.broadcast import unbroadcast
from actorflow.ops.elementwise import negative
from actorflow.ops.logic import equal, where
from actorflow.ops.rules import Takes, binary, predicate, unary
from actorflow.ops.source import zeros_like

Grads = Sequence[Tensor | None]


@op("ceil", spec=unary("ceil", Takes.FLOATING), gradient=NOT_DIFFERENTIABLE)
@verb
def ceil(x: Any, *, name: str | None = None) -> Tensor:
    """The smallest whole number that is not below x, in the dtype of x; no gradient flows."""
    return build_one("ceil", [x], name=name)


@op("trunc", spec=unary("trunc", Takes.FLOATING), gradient=NOT_DIFFERENTIABLE)
@verb
def trunc(x: Any, *, name: str | None = None) -> Tensor:
    """The whole number next to x on the way to 0, in the dtype of x; no gradient flows."""
    return build_one("trunc", [x], name=name)


@op("round", spec=unary("round", Takes.FLOATING), gradient=NOT_DIFFERENTIABLE)
@verb
def round(x: Any, *, name: str | None = None) -> Tensor:
    """The whole number nearest to x, the even one of two, in the dtype of x; no gradient flows."""
    return build_one("round", [x], name=name)


@op("isnan", spec=predicate("isnan", Takes.NUMBER), gradient=NOT_DIFFERENTIABLE)
@verb
def isnan(x: Any, *, name: str | None = None) -> Tensor:
    """Whether x is not a number, elementwise, as bool; false for integers; no gradient."""
    return build_one("isnan", [x], name=name)


@op("isinf", spec=predicate("isinf", Takes.NUMBER), gradient=NOT_DIFFERENTIABLE)
@verb
def isinf(x: Any, *, name: str | None = None) -> Tensor:
    """Whether x is infinite, of either sign, as bool; false for integers; no gradient."""
    return build_one("isinf", [x], name=name)


@op("isfinite", spec=predicate("isfinite", Takes.NUMBER), gradient=NOT_DIFFERENTIABLE)
@verb
def isfinite(x: Any, *, name: str | None = None) -> Tensor:
    """Whether x is neither infinite nor NaN, as bool; true for integers; no gradient."""
    return build_one("isfinite", [x], name=name)


@op("signbit", spec=predicate("signbit", Takes.FLOATING), gradient=NOT_DIFFERENTIABLE)
@verb
def signbit(x: Any, *, name: str | None = None) -> Tensor:
    """Whether the sign of a float is minus, that of -0.0 and of NaN as well, as bool; no gradient."""
    return build_one("signbit", [x], name=name)


def _copysign_gradient(use: Use, grad: Tensor) -> Grads:
    a, b = use.inputs
    to_a = where(equal(signbit(a), signbit(b)), grad, negative(grad))
    return (unbroadcast(to_a, a, b), None)


@op("copysign", spec=binary("copysign", Takes.FLOATING), gradient=_copysign_gradient)
@verb
def copysign(a: Any, b: Any, *, name: str | None = None) -> Tensor:
    """The size of a with the sign of b, elementwise, -0.0 counting as negative.

    Gradient ±g to a by whether the signs are equal; none to b. Floats. Else like `add`.
    """
    return build_one("copysign", [a, b], name=name)


@op("nextafter", spec=binary("nextafter", Takes.FLOATING), gradient=NOT_DIFFERENTIABLE)
@verb
def nextafter(a: Any, b: Any, *, name: str | None = None) -> Tensor:
    """The float next to a on the way to b, a itself where they are equal; no gradient. Else like `add`."""
    return build_one("nextafter", [a, b], name=name)


def _nan_to_num_gradient(use: Use, grad: Tensor) -> Grads:
    return (where(isfinite(use.inputs[0]), grad, zeros_like(grad)),)


@op("nan_to_num", spec=unary("nan_to_num", Takes.FLOATING), gradient=_nan_to_num_gradient)
@verb
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
