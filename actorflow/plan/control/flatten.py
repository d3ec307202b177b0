"""From functional nodes to nodes with frames: the tagged-token form of loops, branches and calls.

A loop: each variable enters the frame, is merged with what comes back from the turn before, and goes by a
switch into the turn or out of the frame, as the condition says. A branch: what it captures comes through
switches, what branches give is merged. A call is put in place of its node.

Order of state: for each resource that a loop touches, a token is carried as a further variable. So what a
turn does to a resource is done before the next turn begins with it, and turns overlap in everything else.

Sources: Yu et al., Dynamic Control Flow in Large-Scale Machine Learning, EuroSys 2018, sections 4.1 and 4.2.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from actorflow.graph.graph import Graph
from actorflow.graph.node import NodeId, Port
from actorflow.plan.control.atomic_blocks import block_edges
from actorflow.plan.control.loop_forms import LoopForms
from actorflow.plan.control.lowering import Lowering
from actorflow.plan.control.region import Region
from actorflow.plan.flat_graph import Flat
from actorflow.plan.prune import prune


class Flattened(NamedTuple):
    """A graph without functional nodes that have to be lowered, and what is asked of it."""

    graph: Graph
    fetches: tuple[Port, ...]
    feeds: tuple[Port, ...]


def flatten(
    graph: Graph, fetches: Sequence[Port], feeds: Sequence[Port], *, lower_all: bool = False
) -> Flattened:
    """Returns the graph that a plan is made of: the given one when nothing in it has to be lowered.

    Args:
        graph: The graph.
        fetches: What is computed.
        feeds: What is given.
        lower_all: Whether all functional nodes are lowered that do not say otherwise.

    Raises:
        GraphError: when a functional node says `lower=False` and has to be, or has an atomic block or an
            update of an optimizer within.
    """
    # Most graphs have no bodies, and stay what they are.
    if not graph.bodies:
        return Flattened(graph, tuple(fetches), tuple(feeds))
    needed = prune(graph, fetches, feeds)
    forms = LoopForms(lower_all=lower_all)
    # What stays in one node needs no flat graph.
    if not any(forms.is_lowered(graph, graph.nodes[i]) for i in needed):
        return Flattened(graph, tuple(fetches), tuple(feeds))
    flat = Flat(graph)
    region = Region(flat, graph)
    # ORDER: what is fed stands for its node before anybody needs it.
    _give(region, needed, forms, feeds)
    # Blocks are found in the graph, where their ids lie in a row; in the flat one they do not.
    for i, before in block_edges(graph, needed).items():
        region.besides[i] = before
    wanted = frozenset((*fetches, *(p for i in needed for p in graph.nodes[i].inputs)))
    Lowering(forms).fill(region, needed, wanted)
    return Flattened(flat, tuple(map(region.value, fetches)), tuple(map(region.value, feeds)))


def _give(region: Region, needed: Sequence[NodeId], forms: LoopForms, feeds: Sequence[Port]) -> None:
    """Adds placeholders for what is fed in place of nodes that are lowered, or that are not there."""
    nodes, there = region.graph.nodes, frozenset(needed)
    for port in feeds:
        node = nodes[port.node]
        # The node is there, and `_build` feeds it in its place.
        if port in region.values or (port.node in there and not forms.is_lowered(region.graph, node)):
            continue
        made = region.flat.put(
            "placeholder", node.name, (), (), {}, (node.outputs[port.index],), defined_at=node.defined_at
        )
        region.values[port] = Port(made)
