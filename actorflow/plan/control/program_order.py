"""Program order: reads and writes of one variable happen in the order in which they were built.

Users add no control edges for that. Within one step every write waits for the reads and the write
built before it, and every read for the last write before it; reads do not wait for reads. Node ids
grow in program order, so the added edges can never close a cycle.

An atomic block stands in this order as one write of all its variables: what was built before waits for
none of its locks, what was built after for its end.
"""

from __future__ import annotations

from collections.abc import Iterable

from actorflow.graph import opdef
from actorflow.graph.graph import Graph
from actorflow.graph.node import Node, NodeId
from actorflow.graph.opdef import Effect

_SEVERAL = frozenset({Effect.COMMIT, Effect.LOCK, Effect.UNLOCK})
_LOCKS = frozenset({Effect.LOCK, Effect.UNLOCK})
_BLOCKS = ("",)  # what all atomic blocks touch; no variable has that name


def touched_variables(node: Node) -> tuple[str, ...]:
    """Returns the names of the variables that the node reads, writes, trains or locks with others.

    Of an ordered call of an actor that is the key of it, behind a mark that begins no name.
    """
    return tuple(is_stateful(node))


def is_stateful(node: Node) -> dict[str, bool]:
    """Returns what the node touches, by the same names, and whether that changes it."""
    effect = opdef.lookup(node.op).effect
    if effect in _SEVERAL:
        return dict.fromkeys(node.attrs["resources"], True)
    if effect in (Effect.READ, Effect.WRITE):
        return {node.attrs["resource"]: effect is Effect.WRITE}
    if effect is Effect.FUNCTION:
        return {**dict.fromkeys(node.attrs["reads"], False), **dict.fromkeys(node.attrs["writes"], True)}
    if effect is Effect.ASK and node.attrs.get("ordered"):
        # Ordered calls of one actor stand in the order of the program as writes of it. The mark begins no
        # name.
        return {f"\0{node.attrs['actor']}": True}
    return {}


def program_order(graph: Graph, needed: Iterable[NodeId]) -> dict[NodeId, tuple[NodeId, ...]]:
    """Returns the extra control inputs of each node among `needed` (ascending ids)."""
    extra: dict[NodeId, tuple[NodeId, ...]] = {}
    for i, before in Order(graph, needed).before.items():
        node = graph.nodes[i]
        # What it waits for anyway needs no edge.
        direct = {port.node for port in node.inputs} | set(node.controls)
        found = tuple(sorted({b for names in before.values() for b in names} - direct))
        if found:
            extra[i] = found
    return extra


class Order:
    """What each of some nodes waits for, by the resource on whose account.

    Args:
        graph: Where they are.
        needed: The nodes (ascending ids).

    Attributes:
        before: By node and resource: the nodes that come directly before it, none for one that comes first.
    """

    def __init__(self, graph: Graph, needed: Iterable[NodeId]) -> None:
        self.before: dict[NodeId, dict[str, tuple[NodeId, ...]]] = {}
        self._last_write: dict[str, NodeId] = {}
        self._reads: dict[str, list[NodeId]] = {}
        for i in needed:
            node = graph.nodes[i]
            names = is_stateful(node)
            if not names:
                continue
            # Blocks of one step stand in order among themselves, whatever they lock: a step never holds the
            # locks of one and waits for those of another.
            if opdef.lookup(node.op).effect in _LOCKS:
                names = {**names, **dict.fromkeys(_BLOCKS, True)}
            self.before[i] = {name: self._next(i, name, writes=writes) for name, writes in names.items()}

    def _next(self, i: NodeId, name: str, *, writes: bool) -> tuple[NodeId, ...]:
        # ids ascend in program order, so the last write so far is the one before
        found = (self._last_write[name],) if name in self._last_write else ()
        # Reads wait for the last write, not for each other.
        if not writes:
            self._reads.setdefault(name, []).append(i)
            return found
        self._last_write[name] = i
        # A write waits for the write before and for all reads since.
        return (*found, *self._reads.pop(name, ()))

    def last(self, name: str) -> tuple[NodeId, ...]:
        """Returns the nodes after which a resource is as the program leaves it, and all reads are done."""
        # Reads since the last write wait for it themselves.
        reads = self._reads.get(name, ())
        return tuple(reads) or ((self._last_write[name],) if name in self._last_write else ())
