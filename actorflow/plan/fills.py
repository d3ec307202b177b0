"""Which resources a set of nodes puts something into that others wait for there.

Pure: a function of the nodes, of a graph or of a program.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from actorflow.graph import opdef


class AnyNode(Protocol):
    """A node of a graph or of a program."""

    @property
    def op(self) -> str:
        """The name of its op."""
        ...

    @property
    def attrs(self) -> Mapping[str, Any]:
        """Its attributes."""
        ...


def fills(node: AnyNode) -> bool:
    """Tells whether the node puts something into its resource; nodes that only programs have do not."""
    entry = opdef.table().get(node.op)
    return entry is not None and entry.fills


def filled(nodes: Iterable[AnyNode]) -> tuple[str, ...]:
    """Returns the names of the resources that the nodes put something into, sorted."""
    return tuple(sorted({node.attrs["resource"] for node in nodes if fills(node)}))
