"""Checks functional nodes of a graph that was read: their bodies fit them, and none runs itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from actorflow.errors import GraphError
from actorflow.graph import opdef
from actorflow.graph.body import ARGUMENT, Body, as_attr, bodies_of, keys_of
from actorflow.graph.graph import Graph
from actorflow.graph.node import Attr, Node, NodeId, Port
from actorflow.graph.opdef import Effect
from actorflow.values.spec import Spec

_NONE = type(None)
_EVERY = {"outputs": (tuple,), "saved": (tuple,), "lower": (bool, _NONE), "random": (bool,)}
_NAMES = ("reads", "writes", "waits")
_OWN: Mapping[str, Mapping[str, tuple[type, ...]]] = {
    "while_loop": {
        "cond": (str,),
        "body": (str,),
        "count": (int,),
        "parallel_iterations": (int,),
        "max_iterations": (int, _NONE),
    },
    "case": {"branches": (tuple,)},
    "call": {"body": (str,)},
}


def check_functions(graph: Graph) -> None:
    """Raises GraphError unless the functional nodes of a graph and its bodies are as API functions make them.

    What a body is given, and what it gives, has the specs that its node says; and no body runs itself.
    """
    bodies: Mapping[str, Body] = graph.bodies
    # ORDER: each node by itself first, so that keys and counts can be believed below.
    for where in (graph, *bodies.values()):
        _check_arguments(where)
        for node in where.nodes:
            if opdef.lookup(node.op).effect is Effect.FUNCTION:
                _check_node(where, node)
    # No body runs itself, be it through others: a step would have no end of plans.
    state: dict[str, bool] = {}
    for key in bodies:
        _check_ends(bodies, key, state)


def _check_arguments(graph: Graph) -> None:
    """What a graph is given is said by its nodes and by its list alike; only bodies are given anything."""
    listed = [port.node for port in graph.arguments] if isinstance(graph, Body) else []
    for node in graph.nodes:
        if node.op == ARGUMENT and listed.count(node.id) != 1:
            message = f"an argument is one of those that its body names, {node.name!r} is not"
            raise GraphError(message, where=node.where)


def _check_attrs(node: Node) -> None:
    kinds = {**_EVERY, **dict.fromkeys(_NAMES, (tuple,)), **_OWN.get(node.op, {})}
    for key, allowed in kinds.items():
        # A default that no field has, so that a missing one is refused as well.
        if type(node.attrs.get(key, kinds)) not in allowed:
            said = " or ".join("None" if kind is _NONE else kind.__name__ for kind in allowed)
            message = f"attribute {key!r} of {node.op!r} is {said}, got {node.attrs.get(key)!r:.60}"
            raise GraphError(message, where=node.where)
    texts = [name for key in _NAMES for name in node.attrs[key]]
    if not all(isinstance(text, str) for text in (*texts, *keys_of(node))) or not keys_of(node):
        message = (
            f"{node.op!r} names bodies, and what they touch, got {texts!r:.60} and {keys_of(node)!r:.60}"
        )
        raise GraphError(message, where=node.where)


def _check_node(graph: Graph, node: Node) -> None:
    _check_attrs(node)
    for key in keys_of(node):
        if key not in graph.bodies:
            message = f"the graph has no body {key!r}"
            raise GraphError(message, where=node.where)
    bodies, attrs = bodies_of(graph, node), node.attrs
    inputs = [graph.nodes[p.node].outputs[p.index] for p in node.inputs]
    # The number of the branch is no argument.
    given = inputs[1:] if node.op == "case" else inputs
    count = attrs["count"] if node.op == "while_loop" else 0
    for body in bodies:
        arguments = [_spec(body, port) for port in body.arguments]
        if len(arguments) != len(given) or body.given != count:
            message = (
                f"{body.what} takes {len(arguments)} arguments, {body.given} of them anew each time, "
                f"{node.name!r} gives it {len(given)} and {count}"
            )
            raise GraphError(message, where=node.where)
        for a, (wanted, got) in enumerate(zip(arguments, given, strict=True)):
            # What is given anew each time may change its shape from turn to turn; a capture is what it is.
            if wanted.dtype != got.dtype or (a >= count and wanted != got):
                message = f"argument {a} of {body.what} is {wanted}, {node.name!r} gives it {got}"
                raise GraphError(message, where=node.where)
    last = bodies[-1]
    # A loop gives its turns besides.
    results = len(node.outputs) - len(attrs["saved"]) - (1 if node.op == "while_loop" else 0)
    # What the condition of a loop gives is looked at below.
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
        _check_saved(node, bodies, entry)


def _check_saved(node: Node, bodies: Sequence[Body], entry: Attr) -> None:
    """A value that is kept is one of a body, and said to be what it is."""
    # Of several branches an entry says which.
    size = 4 if node.op == "case" else 3
    numbers = entry[:-1] if isinstance(entry, tuple) and len(entry) == size else ()
    whole = len(numbers) == size - 1 and all(type(n) is int and n >= 0 for n in numbers)
    if whole and (size == 3 or numbers[0] < len(bodies)):
        body = bodies[numbers[0]] if size == 4 else bodies[-1]
        made = body.nodes[numbers[-2]].outputs if numbers[-2] < len(body.nodes) else ()
        if numbers[-1] < len(made) and as_attr(made[numbers[-1]]) == entry[-1]:
            return
    message = f"{node.name!r} keeps a value that its bodies do not have, {entry!r:.60}"
    raise GraphError(message, where=node.where)


def _spec(body: Body, port: Port) -> Spec:
    return body.nodes[NodeId(port.node)].outputs[port.index]


def _check_ends(bodies: Mapping[str, Body], key: str, state: dict[str, bool]) -> None:
    """Depth first; `state` is False for a body that is being looked at, True for one that ends."""
    if state.get(key):
        return
    # Seen before and not ended: on the way down.
    if key in state:
        message = f"a body runs others and not itself, {key!r} does"
        raise GraphError(message)
    state[key] = False
    for node in bodies[key].nodes:
        if opdef.lookup(node.op).effect is Effect.FUNCTION:
            for inner in keys_of(node):
                _check_ends(bodies, inner, state)
    state[key] = True
