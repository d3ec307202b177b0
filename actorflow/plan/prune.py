"""Which nodes a step needs: everything the fetches depend on, up to what is fed."""

from __future__ import annotations

from collections.abc import Iterable

from actorflow.graph import opdef
from actorflow.graph.atomic_block import end_of
from actorflow.graph.graph import Graph
from actorflow.graph.node import NodeId, Port
from actorflow.graph.opdef import Effect
from actorflow.plan.flat_graph import back_of


def prune(graph: Graph, fetches: Iterable[Port], feeds: Iterable[Port]) -> tuple[NodeId, ...]:
    """Returns the needed nodes in order of their ids, which is a topological order.

    The search goes backwards over data and control edges and stops at fed ports.
    """
    fed = frozenset(feeds)
    needed: set[NodeId] = set()
    stack: list[NodeId] = [port.node for port in fetches if port not in fed]
    while stack:
        i = stack.pop()
        if i in needed:
            continue
        needed.add(i)
        node = graph.nodes[i]
        # Backwards over data edges, up to what is fed: a node whose needed outputs are all fed is not needed.
        stack.extend(port.node for port in node.inputs if port not in fed)
        effect = opdef.lookup(node.op).effect
        # A control edge needs the whole node. A constant waits for nothing: its value is there when the plan
        # is made, so its control edges say nothing.
        if effect is not Effect.CONSTANT:
            stack.extend(node.controls)
        # Of a block that is entered the end is needed, and with it, by its inputs, all writes of the block.
        if effect is Effect.LOCK:
            # Of a loop variable also what comes back in a later turn.
            stack.append(end_of(graph.nodes, node).id)
        elif effect is Effect.FLOW and (back := back_of(node)) is not None:
            stack.append(back)
    # Ids ascend along the edges, so this is a topological order, but for edges that lead back.
    return tuple(sorted(needed))
