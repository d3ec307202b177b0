"""State that a graph declares and its steps share: what an actor holds for it, as data.

A definition says what a session needs to start the actor, and nothing of what that holds. Nodes
name it in `attrs["resource"]`. `@kind` enters a class in the table from which graphs are read back;
its fields have the types that `graph.serial` lists.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

from actorflow.errors import GraphError
from actorflow.graph.node import Port
from actorflow.values.arrays import is_floating, name_of
from actorflow.values.spec import Spec, spec


@dataclass(frozen=True, kw_only=True)
class ResourceDef:
    """State under a name that is unique in the graph.

    Attributes:
        kind: What sort of state it is; begins the name of its actor.
        device: The device scope in which it was declared.
        container: The container in which its shared name means something.
        shared_name: Under which other graphs and sessions find the same state; None keeps it private.
    """

    kind: ClassVar[str]

    name: str
    device: str = ""
    defined_at: str = ""
    container: str = ""
    shared_name: str | None = None

    @property
    def description(self) -> str:
        """What it holds, in a few words, for tables and pictures."""
        return self.kind

    @property
    def contents(self) -> Mapping[str, Port]:
        """The constants that its actor is handed when it is started, by the field that names them."""
        return {}


KINDS: dict[str, type[ResourceDef]] = {}
"""The classes of definitions, by kind."""

HANDLES: dict[str, Callable[[Any, str], Any]] = {}
"""By kind, what makes the handle that users have of a resource: (graph, name) -> it. Entered by the ops."""

Defined = TypeVar("Defined", bound=type[ResourceDef])


def kind(name: str) -> Callable[[Defined], Defined]:
    """Enters the decorated class of definitions as the kind `name`."""

    def enter(definition: Defined) -> Defined:
        definition.kind = name
        KINDS[name] = definition
        return definition

    return enter


@kind("variable")
@dataclass(frozen=True, kw_only=True)
class VariableDef(ResourceDef):
    """A variable: a value of one spec; `initial` computes the first one."""

    spec: Spec
    initial: Port | None
    trainable: bool

    @property
    def description(self) -> str:
        """The spec."""
        return str(self.spec) + ("" if self.trainable else ", not trainable")

    @property
    def is_trained(self) -> bool:
        """Whether it is trained where nobody says what is: trainable, and of floating numbers."""
        return self.trainable and is_floating(self.spec.dtype)


@kind("queue")
@dataclass(frozen=True, kw_only=True)
class QueueDef(ResourceDef):
    """A bounded queue of tuples, first in first out.

    Attributes:
        components: What each component of an element fits.
        capacity: How many elements fit; None is no limit.
        max_bytes: How many bytes fit; None is no limit.
    """

    components: tuple[Spec, ...]
    capacity: int | None
    max_bytes: int | None = None

    @property
    def description(self) -> str:
        """The specs of the components, and the limits."""
        held = ", ".join(map(str, self.components))
        limit = "" if self.capacity is None else f", at most {self.capacity}"
        of_bytes = "" if self.max_bytes is None else f", at most {self.max_bytes} bytes"
        return f"{self.kind.replace('_', ' ')} of [{held}]{limit}{of_bytes}"


@kind("shuffle_queue")
@dataclass(frozen=True, kw_only=True)
class ShuffleQueueDef(QueueDef):
    """A queue that gives any of its elements; `min_after_dequeue` stay inside until it is closed.

    Attributes:
        seed: Where it draws from, in every session anew.
    """

    min_after_dequeue: int
    seed: int

    def __post_init__(self) -> None:
        """Refuses what would never give anything: raises GraphError."""
        kept, most = self.min_after_dequeue, self.capacity
        if kept < 0 or (most is not None and kept >= most):
            message = f"shuffle queue {self.name!r} keeps {kept} elements of at most {most}"
            raise GraphError(message)

    @property
    def description(self) -> str:
        """As for any queue, and how many stay."""
        return f"{super().description}, {self.min_after_dequeue} stay"


@kind("priority_queue")
@dataclass(frozen=True, kw_only=True)
class PriorityQueueDef(QueueDef):
    """A queue that gives the element with the smallest component 0, a scalar of int64."""

    def __post_init__(self) -> None:
        """Refuses what has no priority: raises GraphError."""
        if self.components[:1] != (spec("int64"),):
            message = f"component 0 of priority queue {self.name!r} must be {spec('int64')}"
            raise GraphError(message)


@kind("padding_queue")
@dataclass(frozen=True, kw_only=True)
class PaddingQueueDef(QueueDef):
    """A queue, first in first out, whose batches are made of elements of different sizes."""


@kind("barrier")
@dataclass(frozen=True, kw_only=True)
class BarrierDef(ResourceDef):
    """A barrier: tuples put together by key; `capacity` counts keys, None is no limit."""

    components: tuple[Spec, ...]
    capacity: int | None

    @property
    def description(self) -> str:
        """The specs of the components, and the limit."""
        limit = "" if self.capacity is None else f", at most {self.capacity}"
        return f"barrier of [{', '.join(map(str, self.components))}]{limit}"


@kind("accumulator")
@dataclass(frozen=True, kw_only=True)
class AccumulatorDef(ResourceDef):
    """A conditional accumulator of gradients that fit `spec`; `reduction` is "mean" or "sum"."""

    spec: Spec
    reduction: str

    @property
    def description(self) -> str:
        """What is made of the gradients, and their spec."""
        return f"{self.reduction} of {self.spec}"


@kind("sparse_accumulator")
@dataclass(frozen=True, kw_only=True)
class SparseAccumulatorDef(AccumulatorDef):
    """A conditional accumulator of rows; `per_index` divides each row by how many gradients had it."""

    per_index: bool

    @property
    def description(self) -> str:
        """What is made of the gradients, and their spec."""
        return f"{self.reduction} of rows of {self.spec}{', per index' if self.per_index else ''}"


@kind("hash_table")
@dataclass(frozen=True, kw_only=True)
class HashTableDef(ResourceDef):
    """A table of values by key; `default`, `keys` and `values` are constants with which it begins."""

    key: Spec
    value: Spec
    default: Port | None
    keys: Port | None
    values: Port | None
    mutable: bool
    max_size: int | None

    @property
    def description(self) -> str:
        """What belongs to what, and the limit."""
        limit = "" if self.max_size is None else f", at most {self.max_size}"
        return f"{self.value} by {name_of(self.key.dtype)}{limit}{'' if self.mutable else ', fixed'}"

    @property
    def contents(self) -> Mapping[str, Port]:
        """The default, keys and values."""
        ports = {"default": self.default, "keys": self.keys, "values": self.values}
        return {name: port for name, port in ports.items() if port is not None}


@kind("counter")
@dataclass(frozen=True, kw_only=True)
class CounterDef(ResourceDef):
    """A counter from `start` up to `limit`, which it never gives; None is no limit."""

    start: int
    limit: int | None

    @property
    def description(self) -> str:
        """Where it starts and ends."""
        return f"counter from {self.start}{'' if self.limit is None else f' to {self.limit}'}"


@kind("stack")
@dataclass(frozen=True, kw_only=True)
class StackDef(ResourceDef):
    """A stack of elements that fit `spec`; None is no limit."""

    spec: Spec
    max_size: int | None
    max_bytes: int | None

    @property
    def description(self) -> str:
        """The spec of an element, and the limits."""
        limits = ((self.max_size, "elements"), (self.max_bytes, "bytes"))
        return f"stack of {self.spec}" + "".join(
            f", at most {n} {what}" for n, what in limits if n is not None
        )
