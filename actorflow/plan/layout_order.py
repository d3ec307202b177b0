"""Lays the nodes of a program out level by level, which is about the order in which they fire.

The ring holds the firings of one level while they make those of the next. Nodes that lie in memory
in that order are twice as fast to visit as chain after chain: 100 chains of 100 additions went from
0.74-1.06 M to 1.43-2.41 M firings/s (two orders turn about in one run, 300 MiB of shared cache).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from actorflow.graph.graph import Graph
from actorflow.graph.node import NodeId


def layout_order(
    graph: Graph, needed: Iterable[NodeId], order: Mapping[NodeId, tuple[NodeId, ...]]
) -> tuple[NodeId, ...]:
    """Returns `needed` (ascending ids) by the longest way from a source, then by id.

    Args:
        graph: Where they are.
        needed: The nodes of the program.
        order: The extra control inputs of `plan.control.program_order`.
    """
    levels: dict[NodeId, int] = {}
    for i in needed:
        node = graph.nodes[i]
        before = (*(port.node for port in node.inputs), *node.controls, *order.get(i, ()))
        # Ids ascend with the edges, so what is before a node has its level; an edge that leads back counts
        # for nothing.
        levels[i] = 1 + max((levels.get(b, -1) for b in before), default=-1)
    return tuple(sorted(levels, key=levels.__getitem__))
