"""Which nodes use up what others took out of a queue: something made of it was written elsewhere.

A step that is aborted gives back what it took and has not used. So an element that moves from one
queue to another, or is trained on, is in one place whenever the step ends: it has arrived, or it is
back where it was. An element counts as used once any node that was handed something computed from it
has written.

Pure: a function of the program.
"""

from __future__ import annotations

from actorflow.graph import opdef
from actorflow.graph.opdef import Effect
from actorflow.plan.program import Edge, NodeKind, PlanNode, Program

_ASKS = frozenset({NodeKind.REQUEST, NodeKind.WAIT})
_NONE: frozenset[int] = frozenset()


def consumed_takes(program: Program) -> dict[int, frozenset[int]]:
    """Returns, for each node that writes, the nodes that took what it writes; both by their indices.

    A node that takes is one that may wait and has no data inputs; only data edges hand things on.
    """
    nodes = program.nodes
    takes = [_takes(node) for node in nodes]
    # What each node is made of: which takes lead to it along data edges. Control edges hand nothing on.
    made_of = [frozenset({i}) if take else _NONE for i, take in enumerate(takes)]
    if not any(takes):
        return {}
    changed = True
    while changed:  # once for a program in order, once more a loop
        changed = False
        for i, node in enumerate(nodes):
            if node.inputs:
                found = made_of[i].union(*(made_of[e.node] for e in node.inputs if isinstance(e, Edge)))
                if found != made_of[i]:
                    made_of[i], changed = found, True
    # What is written inside a block can be rolled back until the block ends: only then it has been used.
    ends = {node.attrs["block"]: i for i, node in enumerate(nodes) if node.kind is NodeKind.RELEASE}
    found_in: dict[int, frozenset[int]] = {}
    for i, node in enumerate(nodes):
        if made_of[i] and node.inputs and _writes(node):
            writer = ends.get(node.attrs.get("block"), i)
            found_in[writer] = found_in.get(writer, _NONE) | made_of[i]
    return found_in


def _takes(node: PlanNode) -> bool:
    """Tells whether a node takes something out of a resource for good."""
    if node.kind is not NodeKind.WAIT or node.inputs:
        return False
    entry = opdef.table().get(node.op)
    # Code of the user gives back nothing: what it did has been done.
    return entry is None or entry.effect is not Effect.ASK


def _writes(node: PlanNode) -> bool:
    """Tells whether a node hands what it is given to an actor that keeps it."""
    if node.kind not in _ASKS:
        return False
    entry = opdef.table().get(node.op)
    # Looking something up by an element is no use of it; that code of the user has run with it is one.
    return entry is None or entry.effect is not Effect.READ
