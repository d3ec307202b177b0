"""Gradients on their way to an optimizer: how a node or a shard hands them over, and their shapes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from actorflow.errors import NumericError, StateError
from actorflow.values.arrays import Array
from actorflow.values.finite import not_finite, seem_finite
from actorflow.values.sparse import dense
from actorflow.values.spec import show

Gradients = Mapping[str, Any]
"""By variable: an array, or SparseRows of one."""


@dataclass(frozen=True, slots=True, eq=False)
class Decision:
    """Whoever decides whether a staged update is committed, when that takes others' agreement.

    Attributes:
        staged: Called once, when everything is staged: from then on the commit cannot fail.
        commit: True commits, False discards; awaited after that. The optimizer takes no other update,
            and nobody else's can be staged, before it is known.
    """

    staged: Callable[[], None]
    commit: asyncio.Future[bool]


@dataclass(frozen=True, slots=True)
class ApplyGradients:
    """Node → optimizer: one gradient for each variable, in order; answered with the update count.

    One of some rows is (indices, values): int64, distinct and ascending, and a row for each.

    Attributes:
        decision: Whether the update is committed once it is staged; None commits it at once.
        staleness: Updates since the oldest parameters that the gradients were computed from.
        max_not_finite: How many updates may be dropped since a gradient is not finite, before one is an
            error; None for no look at that.
        looked: Whether the gradients are known to be finite.
        shares: What is added to the variables is divided by it.
    """

    gradients: tuple[Array | tuple[Array, Array], ...]
    decision: Decision | None = None
    staleness: int = 0
    max_not_finite: int | None = None
    looked: bool = False
    shares: int = 1


@dataclass(frozen=True, slots=True)
class MakeState:
    """Process agent → shard → optimizer, asked: make the state before the first update; answered when done.

    Attributes:
        limit_s: How long that may take.
    """

    limit_s: float


def check_shape(name: str, grad: Any, shape: tuple[int, ...]) -> None:
    """Raises StateError when a gradient is not of a variable of that shape."""
    if type(grad) is tuple:
        at, values = grad
        fits = bool(shape) and values.shape[1:] == shape[1:] and (not at.size or at[-1] < shape[0])
        got = f"rows of {show(values.shape[1:])}" + (f" up to row {at[-1]}" if at.size else "")
    else:
        fits, got = grad.shape == shape, show(grad.shape)
    if not fits:
        message = f"a gradient has the shape of its variable, {name!r} is {show(shape)} now, got {got}"
        hint = "an assign changed it after the gradient had read it: run them in steps one after the other"
        raise StateError(message, hint=hint)


def first_not_finite(names: Sequence[str], gradients: Sequence[Any]) -> NumericError | None:
    """Returns what is wrong with the first gradient that is not finite; None when all are."""
    if seem_finite([g[1] if type(g) is tuple else g for g in gradients]):
        return None
    for name, gradient in zip(names, gradients, strict=True):
        wrong = not_finite(name, gradient)
        if wrong is not None:
            return wrong
    return None


def all_dense(grads: Gradients) -> dict[str, Array]:
    """Returns the gradients as arrays of the whole shapes."""
    return {name: dense(grad) for name, grad in grads.items()}


def _gradients(args: Sequence[Any], sparse: Sequence[bool]) -> tuple[Any, ...]:
    """One gradient for each variable: an input, or two for one of some rows."""
    rest = iter(args)
    return tuple((next(rest), next(rest)) if two else next(rest) for two in sparse)


MADE: Mapping[str, Callable[[Sequence[Any], Mapping[str, Any]], Any]] = {
    "apply_gradients": lambda args, attrs: ApplyGradients(
        _gradients(args, attrs["sparse"]), max_not_finite=attrs.get("max_not_finite", 0)
    ),
}
