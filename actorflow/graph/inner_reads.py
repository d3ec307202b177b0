"""Finds reads of a variable inside bodies that carry gradients: those do not come out of a body.

A variable that is used as a tensor is read outside, and its value goes into the body as any other: so
gradients reach it. A gradient for what is read inside would be missing, and nobody would see that.
"""

from __future__ import annotations

from collections.abc import Sequence

from actorflow.graph.body import Body, bodies_of
from actorflow.graph.graph import Graph
from actorflow.graph.node import Node, Port
from actorflow.graph.opdef import NOT_DIFFERENTIABLE, Effect, lookup
from actorflow.values.arrays import is_differentiable


def find_inner_read(graph: Graph, ys: Sequence[Port], variable: str) -> tuple[Node, Body] | None:
    """Returns a read of a variable inside a body on which `ys` depend by a path that carries gradients.

    Args:
        graph: Where the ys are.
        ys: What is differentiated.
        variable: Its name.
    """
    # Attributes of functional nodes say what their bodies read, so most graphs need no search.
    reading = [node for node in graph.nodes if _reads(node, variable)]
    if not reading:
        return None
    before = behind(graph, ys)
    for node in reading:
        # Only by a path that carries gradients to a y.
        if not any(Port(node.id, k) in before for k in range(len(node.outputs))):
            continue
        for body in bodies_of(graph, node):
            # The read may lie in a body of a body.
            found = _direct(body, variable) or find_inner_read(body, body.results, variable)
            if found is not None:
                return found
    return None


def _reads(node: Node, variable: str) -> bool:
    return lookup(node.op).effect is Effect.FUNCTION and variable in node.attrs["reads"]


def _direct(body: Body, variable: str) -> tuple[Node, Body] | None:
    found = behind(body, body.results)
    for node in body.nodes:
        if node.op == "read_variable" and node.attrs["resource"] == variable and Port(node.id) in found:
            return node, body
    return None


def behind(graph: Graph, ys: Sequence[Port]) -> set[Port]:
    """Returns the ports from which gradients flow to ys: floating values, by ops that have gradients."""
    found: set[Port] = set()
    ahead = list(ys)
    while ahead:
        port = ahead.pop()
        node = graph.nodes[port.node]
        if port in found or not is_differentiable(node.outputs[port.index].dtype):
            continue
        found.add(port)
        if lookup(node.op).gradient is not NOT_DIFFERENTIABLE and node.op != "stop_gradient":
            ahead.extend(node.inputs)
    return found
