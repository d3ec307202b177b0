"""When atomic blocks begin and end: the control edges of their first locks and of their ends.

Everything that a block uses from outside is computed before its first lock is taken. And the
end comes when all has been computed that the step needs of the block.
Pure: a function of the graph and of what a step needs of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from actorflow.graph import opdef
from actorflow.graph.graph import Graph
from actorflow.graph.node import NodeId
from actorflow.graph.opdef import Effect

Controls = Mapping[NodeId, tuple[NodeId, ...]]
"""Extra control inputs by node."""


def block_edges(graph: Graph, needed: Iterable[NodeId]) -> Controls:
    """Returns the extra control inputs of first locks and of ends among `needed` (ascending ids)."""
    extra: dict[NodeId, tuple[NodeId, ...]] = {}
    first: NodeId | None = None
    inside: list[NodeId] = []
    outside: dict[NodeId, None] = {}
    for i in needed:
        node = graph.nodes[i]
        effect = opdef.lookup(node.op).effect
        # Ids of a block lie in a row, from its first lock to its end; further locks of it lie between.
        if effect is Effect.LOCK and first is None:
            first, inside, outside = i, [], {}
        if first is None:
            continue
        if effect is Effect.UNLOCK:
            # All that it uses from outside is computed before it locks: it is held no longer than it takes
            # itself, and nobody waits for anything but locks while holding one.
            extra[first] = tuple(outside)
            # It ends when all has been computed that the step needs of it: a kernel that fails inside is
            # there before anything becomes visible.
            extra[i] = tuple(inside)
            first = None
            continue
        before = (*(port.node for port in node.inputs), *node.controls)
        # Whatever was built before the first lock is outside.
        outside.update(dict.fromkeys(b for b in before if b < first))
        inside.append(i)
    return extra


def ends(graph: Graph, needed: Iterable[NodeId]) -> tuple[NodeId, ...]:
    """Returns the ends of the blocks that a step enters: it is not over before they have fired."""
    return tuple(i for i in needed if opdef.lookup(graph.nodes[i].op).effect is Effect.UNLOCK)


def join_controls(one: Controls, other: Controls) -> Controls:
    """Returns the control inputs of both."""
    return {i: tuple(dict.fromkeys((*one.get(i, ()), *other.get(i, ())))) for i in (*one, *other)}
