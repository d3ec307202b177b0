"""Which resources a set of nodes puts something into that others wait for there.

Pure: a function of the nodes, of a graph or of a program.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol

from actorflow.graph import opdef
from actorflow.graph.body import bodies_of
from actorflow.graph.graph import Graph
from actorflow.graph.node import Node, NodeId
from actorflow.graph.opdef import Effect


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


def feeds(node: AnyNode) -> bool:
    """Tells whether the node puts something into its resource; nodes that only programs have do not."""
    # Nodes that only programs have are no ops of a graph, and fill nothing.
    entry = opdef.table().get(node.op)
    return entry is not None and entry.fills


def fed_resources(nodes: Iterable[AnyNode]) -> tuple[str, ...]:
    """Returns the names of the resources that the nodes put something into, sorted."""
    return tuple(sorted({node.attrs["resource"] for node in nodes if feeds(node)}))


def nodes_within(graph: Graph, needed: Iterable[NodeId]) -> Iterator[Node]:
    """Yields nodes of a graph, and those of the bodies that they run."""
    for i in needed:
        node = graph.nodes[i]
        yield node
        if opdef.lookup(node.op).effect is Effect.FUNCTION:
            for body in bodies_of(graph, node):
                yield from nodes_within(body, (inner.id for inner in body.nodes))
