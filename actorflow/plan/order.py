"""Program order: reads and writes of one variable happen in the order in which they were built.

Users add no control edges for that. Within one step every write waits for the reads and the write
built before it, and every read for the last write before it; reads do not wait for reads. Node ids
grow in program order, so the added edges can never close a cycle.

An atomic block stands in this order as one write of all its variables: what was built before waits for
none of its locks, what was built after for its end. So do the blocks of one step among themselves, whatever
they lock: a step never holds the locks of one and waits for those of another.

Ordered calls of an actor of the user stand in this order as writes of it.
"""

from __future__ import annotations

from collections.abc import Iterable

from actorflow.graph import opdef
from actorflow.graph.graph import Graph
from actorflow.graph.node import Node, NodeId
from actorflow.graph.opdef import Effect

_SEVERAL = frozenset({Effect.COMMIT, Effect.LOCK, Effect.UNLOCK})
_WRITES = frozenset({Effect.WRITE, Effect.ASK, *_SEVERAL})
_BLOCKS = ("",)  # what all atomic blocks touch; no variable has that name


def touched(node: Node) -> tuple[str, ...]:
    """Returns the names of the variables that the node reads, writes, trains or locks with others.

    Of an ordered call of an actor that is the key of it, behind a mark that begins no name.
    """
    effect = opdef.lookup(node.op).effect
    if effect in _SEVERAL:
        return tuple(node.attrs["resources"])
    if effect in (Effect.READ, Effect.WRITE):
        return (node.attrs["resource"],)
    if effect is Effect.FUNCTION:
        return tuple(dict.fromkeys((*node.attrs["reads"], *node.attrs["writes"])))
    if effect is Effect.ASK and node.attrs.get("ordered"):
        return (f"\0{node.attrs['actor']}",)
    return ()


def program_order(graph: Graph, needed: Iterable[NodeId]) -> dict[NodeId, tuple[NodeId, ...]]:
    """Returns the extra control inputs of each node among `needed` (ascending ids)."""
    last_write: dict[str, NodeId] = {}
    reads: dict[str, list[NodeId]] = {}
    extra: dict[NodeId, tuple[NodeId, ...]] = {}
    for i in needed:
        node = graph.nodes[i]
        names = touched(node)
        if not names:
            continue
        effect = opdef.lookup(node.op).effect
        writes = effect in _WRITES
        if effect in (Effect.LOCK, Effect.UNLOCK):
            names += _BLOCKS
        before: list[NodeId] = []
        for name in names:
            if name in last_write:
                before.append(last_write[name])
            if writes:
                before.extend(reads.pop(name, ()))
                last_write[name] = i
            else:
                reads.setdefault(name, []).append(i)
        direct = {port.node for port in node.inputs} | set(node.controls)
        found = tuple(sorted(set(before) - direct))
        if found:
            extra[i] = found
    return extra
