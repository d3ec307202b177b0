"""Finds paths of gradients that leave a body: `gradients` inside of it goes through what is built there.

What a body uses from outside is the same for it whatever it does. If a y depends on an x through such a
tensor as well, the gradient would lack that part, and nobody would see that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set

from actorflow.graph.body import Body
from actorflow.graph.graph import Graph
from actorflow.graph.inner_reads import behind
from actorflow.graph.node import Node, Port


def outer_path(body: Body, ys: Sequence[Port], ports_of: Callable[[Graph], Set[Port]]) -> Node | None:
    """Returns a node outside of a body through which `ys` depend on an x; None where there is none.

    Args:
        body: Where the ys are.
        ys: What is differentiated.
        ports_of: What stands for the x in a graph.
    """
    inside, own = behind(body, ys), ports_of(body)
    # What is captured is the same for the body whatever it does: gradients end there.
    for port, argument in body.captures.items():
        # The x itself, handed in: its gradient is what the body computes.
        if argument in own or argument not in inside:
            continue
        if behind(body.outer, [port]) & ports_of(body.outer):
            return body.outer.nodes[port.node]
        # Captured from further out: there as well a path may lead to the x.
        if isinstance(body.outer, Body):
            found = outer_path(body.outer, [port], ports_of)
            if found is not None:
                return found
    return None
