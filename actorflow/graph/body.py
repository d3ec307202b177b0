"""Bodies: the subgraphs that functional nodes run, and what they take from the graphs around them.

A loop, a branch, a function that is computed again: each is one node that holds subgraphs by name. Only
what is built while a body is the current graph is part of it. A tensor from around it is *captured*: it
becomes an argument, so that all that a body depends on is an input of its node: constants too, since
gradients may go to them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b

from actorflow.errors import GraphError, InternalError, Where
from actorflow.graph.graph import Graph, Scope, current_or_none
from actorflow.graph.node import Attr, Node, NodeId, Port
from actorflow.values.arrays import name_of
from actorflow.values.spec import ListSpec, Spec, spec

ARGUMENT = "argument"
"""The op of what a body is given."""


class Body(Graph):
    """A graph that a node of `outer` runs.

    Constants, state, objects and bodies lie in the tables of the outermost graph; nodes are its own.

    Args:
        outer: The graph in which its node stands.
        key: Its name in `graph.bodies`, numbered where it is taken; begins the names of its nodes.
        what: What errors call it, for example `the body of while_loop 'loop'`.
        defined_at: The user's line that asked for it.

    Attributes:
        arguments: The ports of its arguments: first what its node gives it each time, then the captures.
        captured: For each capture, in their order, the port of `outer` that it stands for.
        results: What it gives, once it is complete.
        implicit: Reads of variables that were used as tensors, for which nobody asked by name.
    """

    def __init__(self, outer: Graph, key: str, what: str, defined_at: str) -> None:
        super().__init__(seed=outer.seed)
        free, n = key, 0
        # Kept under a number where a loop of that name has been built before.
        while free in outer.bodies:
            n += 1
            free = f"{key}_{n}"
        self.outer = outer
        self.key = key = free
        self.what = what
        self.defined_at = defined_at
        self.arguments: list[Port] = []
        self.captured: list[Port] = []
        self.results: tuple[Port, ...] = ()
        self.implicit: set[NodeId] = set()
        self.complete = False
        # The tables are the outermost graph's: keys and indices mean the same in all bodies.
        self.constants, self.resources = outer.constants, outer.resources
        self.objects, self.likenesses, self.bodies = outer.objects, outer.likenesses, outer.bodies
        # Random ops of two bodies must not draw alike, though their ids do: the key tells them apart.
        self.salt = int.from_bytes(blake2b(key.encode(), digest_size=7).digest(), "big")
        around = outer.scope
        # Of the scope around only what means something here: control inputs and neighbours are nodes of
        # another graph.
        self.scope = Scope(
            name=f"{key}/",
            device=around.device,
            container=around.container,
            defined_at=around.defined_at,
        )
        self._captures: dict[Port, Port] = {}
        self.bodies[key] = self

    def __repr__(self) -> str:
        given = len(self.arguments) - len(self.captured)
        return (
            f"<Body {self.key} of {len(self.nodes)} nodes, {given} arguments, {len(self.captured)} captures>"
        )

    @property
    def given(self) -> int:
        """How many arguments its node gives it each time; the others are captures."""
        return len(self.arguments) - len(self.captured)

    def add_argument(self, given: Spec, name: str, defined_at: str) -> Port:
        """Adds an argument of that spec."""
        if self.complete:
            message = f"{self.what} is complete, nothing is added to it"
            raise InternalError(message, where=Where(defined_at=self.defined_at))
        # An argument has no place of its own, whatever scope is open.
        scope = self.scope
        self.scope = Scope(name=f"{self.key}/")
        try:
            node = self.add(
                ARGUMENT,
                name=name,
                inputs=(),
                attrs={"spec": as_attr(given)},
                outputs=(given,),
                defined_at=defined_at,
            )
        finally:
            self.scope = scope
        self.arguments.append(Port(node.id))
        return Port(node.id)

    @property
    def captures(self) -> Mapping[Port, Port]:
        """What stands in the body for each port of `outer` that it has captured."""
        return self._captures

    def find_capture(self, graph: Graph, port: Port) -> Port | None:
        """Returns what stands here for a tensor of a graph around, None where it is not captured."""
        if graph is not self.outer:
            # Known one body further out: it may have been captured from there.
            within = self.outer.find_capture(graph, port) if isinstance(self.outer, Body) else None
            return None if within is None else self._captures.get(within)
        return self._captures.get(port)

    def capture(self, graph: Graph, port: Port) -> Port:
        """Returns what stands in this body for a tensor of a graph around it.

        Raises:
            GraphError: when `graph` is not around it.
        """
        if graph is not self.outer:
            if not isinstance(self.outer, Body) or not is_around(graph, self.outer):
                node = graph.nodes[port.node]
                message = f"{node.name!r} is not computed around {self.what}"
                raise GraphError(message, where=node.where, hint=_hint(graph))
            # From body to body inwards: each takes it as an argument of its own node.
            port = self.outer.capture(graph, port)
        found = self._captures.get(port)
        if found is None:
            found = self._captures[port] = self._capture(port)
        return found

    def _capture(self, port: Port) -> Port:
        node = self.outer.nodes[port.node]
        self.captured.append(port)
        return self.add_argument(node.outputs[port.index], f"outer/{node.name}", node.defined_at)

    def stand_for(self, read: NodeId, outside: Port) -> None:
        """Puts a capture in the place of a node without inputs: its value comes from outside.

        Args:
            read: The node, of one output.
            outside: The port of `outer` that gives the value.
        """
        node = self.nodes[read]
        known = self._captures.get(outside)
        # Not captured yet: the read becomes the argument itself.
        if known is None:
            self.captured.append(outside)
            self.arguments.append(Port(read))
        elif known.node > read:  # edges lead forward: the earlier node becomes the argument
            self.arguments[self.arguments.index(known)] = Port(read)
            self._same(known.node, Port(read))
        else:
            # An earlier node stands for it: this one passes that on.
            self._same(read, known)
            return
        self._captures[outside] = Port(read)
        node = self.nodes[read]
        attrs = {"spec": as_attr(node.outputs[0])}
        # The node keeps its id and its name, so what uses it does not change.
        self.nodes[read] = replace(node, op=ARGUMENT, controls=(), attrs=attrs, colocate=None)

    def _same(self, node: NodeId, port: Port) -> None:
        """Has a node pass on what an earlier one gives."""
        found = self.nodes[node]
        self.nodes[node] = replace(found, op="identity", inputs=(port,), controls=(), attrs={}, colocate=None)

    def finish(self, results: Sequence[Port], captured: Sequence[Port]) -> None:
        """Completes it: with these results, and an argument for each of these captures, in their order."""
        # What is given each time comes first; captures in the order that all bodies of the node share.
        given = self.arguments[: self.given]
        for port in captured:
            # Captured by another body of the node, not by this one: it gets the argument all the same.
            if port not in self._captures:
                node = self.outer.nodes[port.node]
                self._captures[port] = self.add_argument(
                    node.outputs[port.index], f"outer/{node.name}", node.defined_at
                )
        self.arguments = [*given, *(self._captures[port] for port in captured)]
        self.captured = list(captured)
        self.results = tuple(results)
        self.complete = True

    def restored(self, arguments: Sequence[Port], given: int, results: Sequence[Port]) -> None:
        """Completes a body that was read: of what its captures stand for, only their number is known."""
        self.arguments = list(arguments)
        # It stands for nothing that could be looked up: the graph around is not known any more.
        self.captured = [Port(NodeId(-1))] * (len(arguments) - given)
        self.results = tuple(results)
        self.complete = True


def bodies_of(graph: Graph, node: Node) -> list[Body]:
    """Returns the bodies of a functional node, of a loop its condition and its turn."""
    return [graph.bodies[key] for key in keys_of(node)]


def keys_of(node: Node) -> tuple[str, ...]:
    """Returns the keys of the bodies of a functional node, in their order."""
    found: tuple[str, ...] = (
        node.attrs["branches"]
        if "branches" in node.attrs
        else tuple(node.attrs[role] for role in ("cond", "body") if role in node.attrs)
    )
    return found


def root_of(graph: Graph) -> Graph:
    """Returns the outermost graph around `graph`: itself, when it is no body."""
    while isinstance(graph, Body):
        graph = graph.outer
    return graph


def is_open(graph: Graph) -> bool:
    """Tells whether a graph is being built: itself, or a body within it."""
    inner = current_or_none()
    return inner is not None and root_of(inner) is root_of(graph)


def is_around(graph: Graph, inner: Graph) -> bool:
    """Tells whether `inner` is `graph`, or a body somewhere within it."""
    while inner is not graph and isinstance(inner, Body):
        inner = inner.outer
    return inner is graph


def elsewhere(graph: Graph, here: Graph) -> tuple[str, str]:
    """Returns why nothing of `graph` can be used in `here`, as the end of a sentence, and what to try."""
    # Of the same outermost graph it can be got out of the body, of another it cannot.
    if isinstance(graph, Body) and root_of(graph) is root_of(here):
        why = f"is computed inside {graph.what} ({graph.defined_at}), and known only there"
        return why, "let that return it, and use what the op gives"
    return "belongs to another graph", _TOGETHER


def _hint(graph: Graph) -> str:
    if isinstance(graph, Body):
        return f"it is computed inside {graph.what} ({graph.defined_at}): let that return it"
    return _TOGETHER


_TOGETHER = "build both inside one `with Graph()`"


def as_attr(of: Spec) -> Attr:
    """Returns a spec as an attribute."""
    if isinstance(of, ListSpec):
        return ("list", as_attr(of.element), of.shape[0] if of.shape else None)
    return (name_of(of.dtype), of.shape)


def as_spec(attr: Attr) -> Spec:
    """Returns the spec that `as_attr` made an attribute of."""
    if attr[0] == "list":
        return ListSpec(as_spec(attr[1]), attr[2])
    return spec(attr[0], attr[1])
