"""Checks functional nodes of a graph that was read: their bodies fit them, and none runs itself."""

from __future__ import annotations

from collections.abc import Mapping

from actorflow.errors import GraphError
from actorflow.graph import opdef
from actorflow.graph.body import Body, bodies_of, keys_of
from actorflow.graph.graph import Graph
from actorflow.graph.node import Node, NodeId, Port
from actorflow.graph.opdef import Effect
from actorflow.spec import Spec


def check_functions(graph: Graph) -> None:
    """Raises GraphError unless the functional nodes of a graph and of its bodies are such as verbs make.

    What a body is given, and what it gives, has the specs that its node says; and no body runs itself, be it
    through others, since a step would have no end of plans.
    """
    bodies: Mapping[str, Body] = graph.bodies
    for where in (graph, *bodies.values()):
        for node in where.nodes:
            if opdef.lookup(node.op).effect is Effect.FUNCTION:
                _check_node(where, node)
    state: dict[str, bool] = {}
    for key in bodies:
        _check_ends(bodies, key, state)


def _check_node(graph: Graph, node: Node) -> None:
    for key in keys_of(node):
        if key not in graph.bodies:
            message = f"the graph has no body {key!r}"
            raise GraphError(message, where=node.where)
    bodies, attrs = bodies_of(graph, node), node.attrs
    inputs = [graph.nodes[p.node].outputs[p.index] for p in node.inputs]
    given = inputs[1:] if node.op == "case" else inputs
    count = attrs["count"] if node.op == "while_loop" else 0
    for body in bodies:
        arguments = [_spec(body, port) for port in body.arguments]
        if len(arguments) != len(given) or body.given != count:
            message = f"{body.what} takes {len(arguments)} arguments, {node.name!r} gives it {len(given)}"
            raise GraphError(message, where=node.where)
        for a, (wanted, got) in enumerate(zip(arguments, given, strict=True)):
            if wanted.dtype != got.dtype or (a >= count and wanted != got):
                message = f"argument {a} of {body.what} is {wanted}, {node.name!r} gives it {got}"
                raise GraphError(message, where=node.where)
    last = bodies[-1]
    results = len(node.outputs) - len(attrs["saved"]) - (1 if node.op == "while_loop" else 0)
    for body in bodies if node.op != "while_loop" else (last,):
        dtypes = [_spec(body, port).dtype for port in body.results]
        if dtypes != [out.dtype for out in node.outputs[:results]]:
            message = f"{body.what} does not give what {node.name!r} does"
            raise GraphError(message, where=node.where)
    if node.op == "while_loop" and (
        len(bodies[0].results) != 1 or _spec(bodies[0], bodies[0].results[0]).dtype.kind != "b"
    ):
        message = f"{bodies[0].what} gives one bool"
        raise GraphError(message, where=node.where)
    for entry in attrs["saved"]:
        body = bodies[entry[0]] if node.op == "case" else last
        node_id, index = entry[-3:-1]
        if not 0 <= node_id < len(body.nodes) or not 0 <= index < len(body.nodes[node_id].outputs):
            message = f"{node.name!r} keeps a value that {body.what} does not have"
            raise GraphError(message, where=node.where)


def _spec(body: Body, port: Port) -> Spec:
    return body.nodes[NodeId(port.node)].outputs[port.index]


def _check_ends(bodies: Mapping[str, Body], key: str, state: dict[str, bool]) -> None:
    """Depth first; `state` is False for a body that is being looked at, True for one that ends."""
    if state.get(key):
        return
    if key in state:
        message = f"a body runs others and not itself, {key!r} does"
        raise GraphError(message)
    state[key] = False
    for node in bodies[key].nodes:
        if opdef.lookup(node.op).effect is Effect.FUNCTION:
            for inner in keys_of(node):
                _check_ends(bodies, inner, state)
    state[key] = True
