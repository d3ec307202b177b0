"""Dead code: drops the nodes that compute for nobody, and numbers the others anew.

`plan.prune` leaves out what the fetches do not depend on; this pass drops what they do not depend on
any more, after other passes.
"""

from __future__ import annotations

from dataclasses import replace

from actorflow.plan.program import Edge, NodeKind, PlanNode, Program

_KEPT = frozenset({NodeKind.FEED, NodeKind.FETCH, NodeKind.REQUEST, NodeKind.WAIT, NodeKind.RELEASE})


def eliminate_dead_code(program: Program) -> Program:
    """Returns the program without its dead nodes; itself when there is none."""
    # What asks an actor stays: a read of a variable without a value is an error, also when nobody looks at
    # it.
    stack = [i for i, node in enumerate(program.nodes) if node.kind in _KEPT]
    live = set(stack)
    while stack:
        node = program.nodes[stack.pop()]
        before = {source.node for source in node.inputs if isinstance(source, Edge)} | set(node.controls)
        stack.extend(before - live)
        live |= before
    if len(live) == len(program.nodes):
        return program
    # The order stays, so every edge still leads forward.
    index = {old: new for new, old in enumerate(sorted(live))}

    def renumbered(node: PlanNode) -> PlanNode:
        inputs = tuple(Edge(index[s.node], s.output) if isinstance(s, Edge) else s for s in node.inputs)
        return replace(node, inputs=inputs, controls=tuple(index[c] for c in node.controls))

    return replace(
        program,
        nodes=tuple(renumbered(program.nodes[i]) for i in index),
        feeds=tuple(index[i] for i in program.feeds),
        fetches=tuple(index[i] for i in program.fetches),
    )
