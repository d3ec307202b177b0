"""Bits of integers and truth values: and, or, exclusive or, not, shifts."""

from __future__ import annotations

from typing import Any

from actorflow.graph.builder import Tensor, build_one
from actorflow.graph.opdef import NOT_DIFFERENTIABLE, op
from actorflow.ops.definition.arguments import api_function
from actorflow.ops.definition.spec_rules import DtypeClass, binary, unary


@op("logical_xor", spec=binary("logical_xor", DtypeClass.BOOL), gradient=NOT_DIFFERENTIABLE)
@api_function
def logical_xor(a: Any, b: Any, *, name: str | None = None) -> Tensor:
    """Whether exactly one is true, elementwise; bool inputs broadcast; no gradient."""
    return build_one("logical_xor", [a, b], name=name)


@op("bitwise_and", spec=binary("bitwise_and", DtypeClass.BITS), gradient=NOT_DIFFERENTIABLE)
@api_function
def bitwise_and(a: Any, b: Any, *, name: str | None = None) -> Tensor:
    """The bits that both have: `a & b`.

    Shapes:   a and b broadcast
    Dtypes:   integers or bool, the same, kept; of bools it is what `logical_and` gives
    Gradient: none.
    Raises:   SpecError when shapes do not broadcast or dtypes differ.
    """
    return build_one("bitwise_and", [a, b], name=name)


@op("bitwise_or", spec=binary("bitwise_or", DtypeClass.BITS), gradient=NOT_DIFFERENTIABLE)
@api_function
def bitwise_or(a: Any, b: Any, *, name: str | None = None) -> Tensor:
    """The bits that one or both have: `a | b`; no gradient. Else like `bitwise_and`."""
    return build_one("bitwise_or", [a, b], name=name)


@op("bitwise_xor", spec=binary("bitwise_xor", DtypeClass.BITS), gradient=NOT_DIFFERENTIABLE)
@api_function
def bitwise_xor(a: Any, b: Any, *, name: str | None = None) -> Tensor:
    """The bits that exactly one has: `a ^ b`; no gradient. Else like `bitwise_and`."""
    return build_one("bitwise_xor", [a, b], name=name)


@op("bitwise_invert", spec=unary("bitwise_invert", DtypeClass.BITS), gradient=NOT_DIFFERENTIABLE)
@api_function
def bitwise_invert(x: Any, *, name: str | None = None) -> Tensor:
    """The bits that x has not, `~x`: -x - 1 for signed integers, not x for bools; no gradient."""
    return build_one("bitwise_invert", [x], name=name)


@op("bitwise_left_shift", spec=binary("bitwise_left_shift", DtypeClass.INTEGER), gradient=NOT_DIFFERENTIABLE)
@api_function
def bitwise_left_shift(a: Any, b: Any, *, name: str | None = None) -> Tensor:
    """The bits of a moved b places up, `a << b`, those above the last are lost.

    Shapes:   a and b broadcast
    Dtypes:   integers, the same, kept
    Gradient: none.
    Raises:   SpecError when shapes do not broadcast or dtypes differ. As in numpy a shift by a
              negative number, or by all bits or more, leaves none: 0.
    """
    return build_one("bitwise_left_shift", [a, b], name=name)


@op(
    "bitwise_right_shift", spec=binary("bitwise_right_shift", DtypeClass.INTEGER), gradient=NOT_DIFFERENTIABLE
)
@api_function
def bitwise_right_shift(a: Any, b: Any, *, name: str | None = None) -> Tensor:
    """The bits of a moved b places down, `a >> b`: a/2^b rounded down; no gradient.

    As in numpy a shift by a negative number, or by all bits or more, leaves 0, or -1 of negative
    numbers. Else like `bitwise_left_shift`.
    """
    return build_one("bitwise_right_shift", [a, b], name=name)
