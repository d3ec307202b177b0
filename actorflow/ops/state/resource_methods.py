"""Ops that are methods of handles: the actor of a resource answers them, and no kernel computes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from actorflow.graph.node import Attr
from actorflow.graph.opdef import NOT_DIFFERENTIABLE, Effect, SpecRule, op
from actorflow.values.spec import spec


def method(
    name: str,
    rule: SpecRule,
    effect: Effect,
    constructor: Callable[..., Any],
    asked_with: tuple[Mapping[str, Attr], ...] = (),
    *,
    fills: bool = False,
) -> None:
    """Registers an op; its constructor is the method, with the handle in front.

    `fills` says that it puts something in that others wait for.
    """
    op(
        name,
        spec=rule,
        gradient=NOT_DIFFERENTIABLE,
        effect=effect,
        takes_bytes=True,
        asked_with=asked_with,
        fills=fills,
    )(constructor)


def scalar(dtype: str) -> SpecRule:
    """The rule of an op that gives one number or truth, whatever it is asked with."""
    found = (spec(dtype),)
    return lambda inputs, attrs: found
