"""What holds of every program with frames."""

from __future__ import annotations

from actorflow.plan.program import Constant, Edge, NodeKind, PlanNode, Program


def left_in(node: PlanNode) -> tuple[str, ...]:
    """Returns the frame in which what a node gives is met."""
    if node.kind is NodeKind.ENTER:
        return (*node.frame, node.attrs["frame"])
    return node.frame[:-1] if node.kind is NodeKind.EXIT else node.frame


def check_frames(program: Program) -> None:
    """Asserts that edges stay in their frames, that these are entered and decided about, and what leads back."""
    nodes = program.nodes
    for i, node in enumerate(nodes):
        for source in node.inputs:
            if isinstance(source, Constant):
                assert node.kind is not NodeKind.MERGE, f"{node.name} merges a constant"
                continue
            maker = nodes[source.node]
            assert left_in(maker) == node.frame, f"{maker.name} of {left_in(maker)} leads to {node.name}"
            back = maker.kind is NodeKind.NEXT_ITERATION
            assert back or source.node < i, f"{node.name} stands before what it needs"
            assert not back or node.kind is NodeKind.MERGE, f"{maker.name} leads back to {node.name}"
        for c in node.controls:
            assert left_in(nodes[c]) == node.frame, (
                f"{nodes[c].name} of {left_in(nodes[c])} before {node.name}"
            )
            assert c < i, f"{node.name} waits for what comes later"
        if node.kind is NodeKind.EXIT:
            assert node.frame, f"{node.name} leaves no frame"
    for frame in {node.frame for node in nodes if node.frame}:
        inside = [node for node in nodes if node.frame == frame]
        assert frame in program.parallel_iterations
        assert any(n.kind is NodeKind.ENTER and left_in(n) == frame for n in nodes), f"nobody enters {frame}"
        assert sum(n.kind is NodeKind.LOOP_COND for n in inside) == 1, (
            f"one node decides about turns of {frame}"
        )
        turns = [n for n in inside if n.kind is NodeKind.NEXT_ITERATION]
        loops = [n for n in inside if n.kind is NodeKind.MERGE and any(_back(nodes, n))]
        assert len(turns) == len(loops) > 0
        for node in inside:
            given = any(isinstance(s, Edge) for s in node.inputs) or bool(node.controls)
            assert given, f"{node.name} would fire in every turn, whatever happens"


def _back(nodes: tuple[PlanNode, ...], merge: PlanNode) -> list[bool]:
    return [isinstance(s, Edge) and nodes[s.node].kind is NodeKind.NEXT_ITERATION for s in merge.inputs]
