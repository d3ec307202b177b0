"""One use of an op in a graph, and where its edges end. Plain, frozen data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, NewType

from actorflow.errors import Where
from actorflow.values.spec import Spec

NodeId = NewType("NodeId", int)

Attr = Any
"""An attribute: None, bool, int, float, str, or a tuple of attributes; nothing else."""


def is_plain(value: Any) -> bool:
    """Tells whether `value` may be an attribute, so that a graph can be written down."""
    if type(value) is tuple:
        return all(is_plain(v) for v in value)
    # Exactly these: a subclass may be anything.
    return value is None or type(value) in (bool, int, float, str)


class Port(NamedTuple):
    """Output `index` of node `node`: where an edge begins."""

    node: NodeId
    index: int = 0  # type: ignore[assignment]  # hides tuple.index, which no one misses


@dataclass(frozen=True, slots=True)
class Node:
    """One use of an op.

    INVARIANT: every input and control comes from a node with a smaller id, so ids are a
    topological order and the order of the user's program.
    """

    id: NodeId
    name: str
    op: str
    inputs: tuple[Port, ...]
    controls: tuple[NodeId, ...]
    attrs: Mapping[str, Attr]
    outputs: tuple[Spec, ...]
    device: str
    colocate: str | None
    defined_at: str

    @property
    def where(self) -> Where:
        """The place of this node, for errors."""
        return Where(node=self.name, op=self.op, device=self.device or None, defined_at=self.defined_at)
