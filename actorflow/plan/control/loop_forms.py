"""In which form a functional node runs: in one go within its node, or as nodes of its own, turn by turn.

As nodes where its bodies touch state, which actors hold, or ask code of the user, or are placed on several
devices, or where that is asked for, with `lower=True` or for all of a session; and where something within has
to. In one go otherwise, since that is faster.
"""

from __future__ import annotations

from collections.abc import Iterator

from actorflow.errors import GraphError
from actorflow.graph import opdef
from actorflow.graph.body import Body, bodies_of
from actorflow.graph.graph import Graph
from actorflow.graph.node import Node
from actorflow.graph.opdef import Effect

_PLACED = frozenset({Effect.PURE, Effect.RANDOM, Effect.FUNCTION})
_REFUSED = {
    Effect.LOCK: "no atomic block stands in a loop or branch",
}


class LoopForms:
    """Tells of the functional nodes of one graph, and of its bodies, in which form they run.

    Args:
        lower_all: Whether all run as nodes that do not say otherwise.
    """

    def __init__(self, *, lower_all: bool = False) -> None:
        self._lower_all = lower_all
        self._known: dict[tuple[int, int], bool] = {}

    def is_lowered(self, graph: Graph, node: Node) -> bool:
        """Tells whether a node becomes several.

        Raises:
            GraphError: when it has to and refuses, or when what it runs can do neither.
        """
        if opdef.lookup(node.op).effect is not Effect.FUNCTION:
            return False
        # A body is asked for each node that runs it.
        key = (id(graph), node.id)
        if key not in self._known:
            self._known[key] = self._of(graph, node)
        return self._known[key]

    def _of(self, graph: Graph, node: Node) -> bool:
        asked = node.attrs["lower"]
        return self._must(graph, node) or (self._lower_all and asked is not False)

    def _must(self, graph: Graph, node: Node) -> bool:
        asked = node.attrs["lower"]
        # ORDER: asked even where the answer is known: what neither form can run is refused.
        why = next(self._reasons(graph, node), None)
        if why is not None and asked is False:
            message = f"what runs in one go only computes, and on one device, got {node.name!r}, {why}"
            hint = "leave out lower=False: it then runs as nodes of its own"
            raise GraphError(message, where=node.where, hint=hint)
        return why is not None or asked is True

    def _reasons(self, graph: Graph, node: Node) -> Iterator[str]:
        attrs = node.attrs
        # In a fixed order, for the error.
        touched = sorted({*attrs["reads"], *attrs["writes"], *attrs["waits"]})
        bodies = bodies_of(graph, node)
        for body in bodies:
            _check_allowed(body)
        if touched:
            yield f"which touches {', '.join(name.lstrip(chr(0)) for name in touched)}"
        if attrs["asks"]:
            yield "which asks code of the user"
        for body in bodies:
            for inner in body.nodes:
                effect = opdef.lookup(inner.op).effect
                # A routine runs on one device, whatever its nodes say.
                if effect in _PLACED and inner.device != node.device:
                    yield f"in which {inner.name!r} is on {inner.device or 'any device'!r}"
                # One that must become nodes makes nodes of all around it.
                if effect is Effect.FUNCTION and self._must(body, inner):
                    yield f"in which {inner.name!r} does not"


def _check_allowed(body: Body) -> None:
    """Raises GraphError for what neither form can run."""
    for inner in body.nodes:
        why = _REFUSED.get(opdef.lookup(inner.op).effect)
        if why is not None:
            message = f"{why}, got {inner.op} in {body.what}"
            hint = "build it before or after, of what the loop or branch gives"
            raise GraphError(message, where=inner.where, hint=hint)
