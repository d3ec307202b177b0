"""The table of ops: what is known about a kind of computation, by name.

`ops` fills the table; `graph.builder` and `graph.autodiff` read it. An op is a constructor, a
spec rule, a gradient rule and, in `kernels`, one array function of the same name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeVar

from actorflow.errors import GraphError
from actorflow.graph.node import Attr
from actorflow.spec import Spec

SpecRule = Callable[[Sequence[Spec], Mapping[str, Attr]], Sequence[Spec]]
"""(input specs, attributes) -> output specs; raises SpecError without a place."""

GradientRule = Callable[..., Sequence[Any]]
"""(use, gradient of each output or None) -> gradient of each input or None; see `autodiff.Use`."""

Constructor = TypeVar("Constructor", bound=Callable[..., Any])


class Effect(Enum):
    """What a node touches beside its inputs; decides who runs it and in which order."""

    PURE = "pure"  # a kernel; same inputs, same outputs
    RANDOM = "random"  # a kernel that is handed a seed and a counter
    FEED = "feed"  # its value comes with the step
    CONSTANT = "constant"  # its value lies in the graph's table
    READ = "read"  # asks the actor of attrs["resource"]; ordered after writes before it
    WRITE = "write"  # tells it; ordered after reads and writes before it
    COMMIT = "commit"  # a training update of all attrs["resources"], in one commit group
    QUEUE = "queue"  # may wait in a queue actor; not ordered with other queue ops


class _NotDifferentiable:
    """Marks an op through which no gradient flows, on purpose: the path just ends there."""

    def __repr__(self) -> str:
        return "NOT_DIFFERENTIABLE"


NOT_DIFFERENTIABLE = _NotDifferentiable()


@dataclass(frozen=True, slots=True)
class OpDef:
    """An entry of the table.

    Attributes:
        gradient: The rule, NOT_DIFFERENTIABLE, or None when nobody has written one yet (then a
            gradient through the op is an error that names the path).
        sparse: Whether the rule takes IndexedSlices for the gradient of an output; else it is handed
            the dense tensor. Every rule may give them.
    """

    name: str
    constructor: Callable[..., Any]
    spec: SpecRule
    gradient: GradientRule | _NotDifferentiable | None
    effect: Effect
    sparse: bool = False


_TABLE: dict[str, OpDef] = {}


def op(
    name: str,
    *,
    spec: SpecRule,
    gradient: GradientRule | _NotDifferentiable | None = None,
    effect: Effect = Effect.PURE,
    sparse: bool = False,
) -> Callable[[Constructor], Constructor]:
    """Registers the decorated constructor as op `name`.

    Raises:
        GraphError: when another op has that name.
    """

    def register(constructor: Constructor) -> Constructor:
        if name in _TABLE:
            message = f"op names are unique, {name!r} is taken by {_TABLE[name].constructor!r}"
            raise GraphError(message)
        _TABLE[name] = OpDef(name, constructor, spec, gradient, effect, sparse)
        return constructor

    return register


def lookup(name: str) -> OpDef:
    """Returns the entry of op `name`; raises GraphError listing near names when there is none."""
    found = _TABLE.get(name)
    if found is None:
        near = sorted(n for n in _TABLE if n[:3] == name[:3]) or sorted(_TABLE)
        message = f"there is no op {name!r}; near it are {', '.join(near[:12])}"
        raise GraphError(message)
    return found


def table() -> Mapping[str, OpDef]:
    """Returns every registered op by name; do not change it."""
    return _TABLE
