"""Makes routines of functional nodes: each body becomes a program, as a graph does."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set

from actorflow.graph.body import Body, bodies_of
from actorflow.graph.graph import Graph
from actorflow.graph.node import Node, NodeId, Port
from actorflow.plan.program import Constant, Edge, Program
from actorflow.plan.routine import ControlFlow, Routine

Build = Callable[[Graph, Sequence[Port], Sequence[Port], str, Mapping[Port, Constant]], Program]
"""(body, fetches, feeds, device, those feeds that are constants) -> its program."""


def routine_of(
    graph: Graph,
    node: Node,
    inputs: Sequence[Edge | Constant],
    wanted: Set[Port],
    device: str,
    build: Build,
) -> Routine:
    """Returns what a functional node runs in one go.

    Args:
        graph: Where it is.
        node: It.
        inputs: Where its inputs come from; a constant that a body captures is one in its program as well.
        wanted: The ports that the program asks for: of values that are kept for gradients only these are.
        device: Where it runs.
        build: Makes the program of a body.
    """
    attrs = node.attrs
    saved = attrs["saved"]
    first_kept = len(node.outputs) - len(saved)
    # Of values kept for gradients only what the program asks for is computed.
    asked = [Port(node.id, first_kept + k) in wanted for k in range(len(saved))]
    bodies = bodies_of(graph, node)
    fetches = [list(body.results) for body in bodies]
    kept: list[tuple[int, int] | None] = []
    for entry, is_asked in zip(saved, asked, strict=True):
        if not is_asked:
            kept.append(None)
            continue
        # Of a loop it is the turn that keeps, of a call its only body; a branch says which.
        body, node_id, index = {"while_loop": (1, *entry[:2]), "call": (0, *entry[:2])}.get(
            node.op, entry[:3]
        )
        kept.append((body, len(fetches[body])))
        # Further results, behind those that the body has.
        fetches[body].append(Port(NodeId(node_id), index))
    # The number of the branch is no argument.
    given = inputs[1:] if node.op == "case" else inputs
    programs = tuple(
        build(body, ports, body.arguments, device, _constants(body, given))
        for body, ports in zip(bodies, fetches, strict=True)
    )
    is_loop = node.op == "while_loop"
    return Routine(
        control_flow=ControlFlow.LOOP
        if is_loop
        else ControlFlow.BRANCH
        if node.op == "case"
        else ControlFlow.CALL,
        bodies=programs,
        results=attrs["count"] if is_loop else first_kept,
        kept=tuple(kept),
        frame=node.name if is_loop else "",
        most=attrs["max_iterations"] if is_loop else None,
        draws=attrs["random"],
    )


def _constants(body: Body, given: Sequence[Edge | Constant]) -> dict[Port, Constant]:
    """The arguments of a body that are the same constants each time."""
    shared = zip(body.arguments[body.given :], given[body.given :], strict=True)
    # The same each time: as a constant of the body it needs no token, and passes may fold it.
    return {port: source for port, source in shared if isinstance(source, Constant)}
