"""What each node of a program needs before it, as if each loop turned once: without edges that lead back.

A loop ends when all that enters it has come, so what leaves it needs that as well: who orders nodes by these
dependencies never has something enter a loop after what waits for its end.
"""

from __future__ import annotations

from actorflow.plan.program import Edge, NodeKind, Program

Dependency = Edge | int
"""A value, or a node that has to have fired."""


def dependencies(program: Program) -> list[tuple[Dependency, ...]]:
    """Returns by node what it needs, each once."""
    nodes = program.nodes
    entries: dict[tuple[str, ...], list[int]] = {}
    for i, node in enumerate(nodes):
        if node.kind is NodeKind.ENTER:
            entries.setdefault((*node.frame, node.attrs["frame"]), []).append(i)
    found: list[tuple[Dependency, ...]] = []
    for node in nodes:
        values = [
            source
            for source in node.inputs
            # Edges that lead back are left out: as if each loop turned once.
            if isinstance(source, Edge) and nodes[source.node].kind is not NodeKind.NEXT_ITERATION
        ]
        # A loop ends when all that enters it has come. So who orders nodes by this never has something enter
        # a loop after what waits for its end.
        entered = entries.get(node.frame, ()) if node.kind is NodeKind.EXIT else ()
        found.append(tuple(dict.fromkeys((*values, *node.controls, *entered))))
    return found


def before(needed: tuple[Dependency, ...]) -> set[int]:
    """Returns the nodes behind what one needs."""
    return {need.node if isinstance(need, Edge) else need for need in needed}
