"""Comparisons, bool logic, and choosing by a condition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from actorflow.graph.autodiff import Use
from actorflow.graph.builder import Tensor, build_one
from actorflow.graph.node import Attr
from actorflow.graph.opdef import NOT_DIFFERENTIABLE, Promoting, op
from actorflow.ops.array.broadcast import unbroadcast
from actorflow.ops.array.constants import zeros_like
from actorflow.ops.definition.arguments import api_function
from actorflow.ops.definition.spec_rules import DtypeClass, binary, check_dtypes, unary
from actorflow.values.spec import Spec, broadcast


@op("equal", spec=binary("equal", DtypeClass.ANY, "bool"), gradient=NOT_DIFFERENTIABLE, takes_bytes=True)
@api_function
def equal(a: Any, b: Any, *, name: str | None = None) -> Tensor:
    """Whether a = b, elementwise, as bool; inputs broadcast and mix; no gradient."""
    return build_one("equal", [a, b], name=name)


@op(
    "not_equal",
    spec=binary("not_equal", DtypeClass.ANY, "bool"),
    gradient=NOT_DIFFERENTIABLE,
    takes_bytes=True,
)
@api_function
def not_equal(a: Any, b: Any, *, name: str | None = None) -> Tensor:
    """Whether a ≠ b, elementwise, as bool; inputs broadcast and mix; no gradient."""
    return build_one("not_equal", [a, b], name=name)


@op("less", spec=binary("less", DtypeClass.REAL, "bool"), gradient=NOT_DIFFERENTIABLE)
@api_function
def less(a: Any, b: Any, *, name: str | None = None) -> Tensor:
    """Whether a < b, elementwise, as bool; real inputs broadcast and mix; no gradient."""
    return build_one("less", [a, b], name=name)


@op("less_equal", spec=binary("less_equal", DtypeClass.REAL, "bool"), gradient=NOT_DIFFERENTIABLE)
@api_function
def less_equal(a: Any, b: Any, *, name: str | None = None) -> Tensor:
    """Whether a ≤ b, elementwise, as bool; real inputs broadcast and mix; no gradient."""
    return build_one("less_equal", [a, b], name=name)


@op("greater", spec=binary("greater", DtypeClass.REAL, "bool"), gradient=NOT_DIFFERENTIABLE)
@api_function
def greater(a: Any, b: Any, *, name: str | None = None) -> Tensor:
    """Whether a > b, elementwise, as bool; real inputs broadcast and mix; no gradient."""
    return build_one("greater", [a, b], name=name)


@op("greater_equal", spec=binary("greater_equal", DtypeClass.REAL, "bool"), gradient=NOT_DIFFERENTIABLE)
@api_function
def greater_equal(a: Any, b: Any, *, name: str | None = None) -> Tensor:
    """Whether a ≥ b, elementwise, as bool; real inputs broadcast and mix; no gradient."""
    return build_one("greater_equal", [a, b], name=name)


@op("logical_and", spec=binary("logical_and", DtypeClass.BOOL), gradient=NOT_DIFFERENTIABLE)
@api_function
def logical_and(a: Any, b: Any, *, name: str | None = None) -> Tensor:
    """Whether both are true, elementwise; bool inputs broadcast; no gradient."""
    return build_one("logical_and", [a, b], name=name)


@op("logical_or", spec=binary("logical_or", DtypeClass.BOOL), gradient=NOT_DIFFERENTIABLE)
@api_function
def logical_or(a: Any, b: Any, *, name: str | None = None) -> Tensor:
    """Whether one or both are true, elementwise; bool inputs broadcast; no gradient."""
    return build_one("logical_or", [a, b], name=name)


@op("logical_not", spec=unary("logical_not", DtypeClass.BOOL), gradient=NOT_DIFFERENTIABLE)
@api_function
def logical_not(x: Any, *, name: str | None = None) -> Tensor:
    """Whether it is false, elementwise; bool; no gradient."""
    return build_one("logical_not", [x], name=name)


def _where_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    condition, a, b = inputs
    check_dtypes("the condition of where", DtypeClass.BOOL, condition)
    check_dtypes("where", DtypeClass.ANY, a, b)
    return (Spec(broadcast([condition.shape, a.shape, b.shape]), a.dtype),)


def _where_gradient(use: Use, grad: Tensor) -> Sequence[Tensor | None]:
    condition, a, b = use.inputs
    zeros = zeros_like(grad)
    # By a choice, so that a NaN in what was not taken goes nowhere.
    to_a, to_b = where(condition, grad, zeros), where(condition, zeros, grad)
    return (None, unbroadcast(to_a, a, b, condition), unbroadcast(to_b, b, a, condition))


@op("where", spec=Promoting(_where_spec, 1), gradient=_where_gradient, takes_bytes=True)
@api_function
def where(condition: Any, a: Any, b: Any, *, name: str | None = None) -> Tensor:
    """`a` where the condition holds, else `b`, elementwise; both are computed.

    Shapes:   all three broadcast
    Dtypes:   condition bool; a and b any that mix
    Gradient: to a where the condition holds, else to b; zero for the other, even if it is NaN.
    Raises:   SpecError when shapes do not broadcast or dtypes do not mix.

    >>> with af.Graph():
    ...     x = af.placeholder("float32", (None, 3), name="x")
    ...     af.where(x > 0, x, 0)
    <Tensor where:0 (None, 3) float32>
    """
    return build_one("where", [condition, a, b], name=name)


def is_extreme(x: Tensor, extreme: Tensor) -> Tensor:
    """Whether each element of x is what `extreme`, the largest or smallest of it and others, is.

    Those that equal it, and NaN: where there is one the extreme is NaN. So the gradient of an extreme goes
    to NaN alone where there is any, as in torch.
    """
    return logical_or(equal(x, extreme), not_equal(x, x))
