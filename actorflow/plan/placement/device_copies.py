"""Puts copy nodes where an edge leads from one device to another.

State lives on the host: variables, queues and optimizers hold numpy arrays. Feeds, fetches and what
travels between processes are numpy arrays too, so the nodes that deal in these stand on the host
whatever their scope says. A value that several nodes of a device need is copied there once. Constants need
no node: each device gets its own when the program is installed. Control edges carry no value and stay as they
are. Of a list all is copied that is in it, whatever was copied of another one before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from actorflow.errors import InternalError
from actorflow.plan.placement.transfer_controls import NO_CONTROLS, TransferControls
from actorflow.plan.program import Edge, NodeKind, PlanNode, Program

_DECIDES = {NodeKind.SWITCH: 1, NodeKind.LOOP_COND: 0}
"""The input port at which a node looks itself: what comes there must be on the host."""

_ON_HOST = frozenset(
    {
        NodeKind.FEED,
        NodeKind.FETCH,
        NodeKind.SEND,
        NodeKind.RECV,
        NodeKind.REQUEST,
        NodeKind.WAIT,
        NodeKind.RELEASE,
        NodeKind.LOOP_COND,
    }
)


def with_copies(program: Program, host: str, controls: TransferControls = NO_CONTROLS) -> Program:
    """Returns the program with a COPY node on every edge between devices; itself when there is none.

    A COPY node has the device that it copies to, `attrs["source"]` names the other, and it fails in
    the name of the node that made the value. `controls` says for which nodes the copy of a value to a device
    waits besides; whoever chose these knew the nodes with that device, so it must be made for these alone.
    """
    if all(_home(node, host) == host for node in program.nodes):
        return program
    nodes = list(program.nodes)
    homes = [_home(node, host) for node in nodes]
    open_ways = _shared_copies(program, homes, host) if controls else frozenset()
    made: dict[tuple[Edge, str, tuple[str, ...]], Edge] = {}

    def brought(edge: Edge, to: str, frame: tuple[str, ...]) -> Edge:
        """Returns the edge along which the value comes on the device `to`."""
        source = homes[edge.node]
        if nodes[edge.node].kind is NodeKind.MERGE and edge.output == 1:
            source = host  # the index of the live input
        if source == to:
            return edge
        # One copy for all nodes of a device that take the value in one frame.
        key = (edge, to, frame)
        # The same in all turns: it is copied before it enters, once, and enters on each device by itself.
        if key not in made and _is_constant(nodes[edge.node]):
            made[key] = entered(edge.node, to)
        if key not in made:
            # Between two devices of which none is the host a value goes through the host.
            if host not in (source, to):
                edge = brought(edge, host, frame)
                source = host
            maker = nodes[edge.node]
            # An edge that leads back crosses turns, and a copy would stand in either.
            if maker.kind is NodeKind.NEXT_ITERATION:
                message = f"the turns of a loop must stay on one device, got {source} and {to}"
                raise InternalError(message, where=maker.where)
            made[key] = Edge(len(nodes))
            nodes.append(
                PlanNode(
                    name=f"{maker.name}:{edge.output}{to}",
                    op="copy",
                    kind=NodeKind.COPY,
                    inputs=(edge,),
                    # The controls were chosen for the nodes of that device alone: a copy that serves others
                    # as well must not wait for them.
                    controls=() if (edge, to) in open_ways else controls.get((edge, to), ()),
                    attrs={"source": source},
                    outputs=(maker.outputs[edge.output],),
                    device=to,
                    frame=frame,
                    where=maker.where,
                )
            )
            homes.append(to)
        return made[key]

    def entered(enter: int, to: str) -> Edge:
        """Returns the edge along which what is the same in all turns enters on the device `to`."""
        node = program.nodes[enter]
        inputs = tuple(brought(s, to, node.frame) if isinstance(s, Edge) else s for s in node.inputs)
        found = Edge(len(nodes))
        nodes.append(replace(node, name=f"{node.name}{to}", inputs=inputs, device=to))
        homes.append(to)
        return found

    for k, node in enumerate(program.nodes):
        inputs = tuple(
            # A switch looks at its predicate itself, so that must be on the host.
            brought(source, host if _DECIDES.get(node.kind) == port else homes[k], node.frame)
            if isinstance(source, Edge)
            else source
            for port, source in enumerate(node.inputs)
        )
        if inputs != node.inputs:
            nodes[k] = replace(node, inputs=inputs)
    return replace(program, nodes=tuple(nodes))


def _shared_copies(program: Program, homes: Sequence[str], host: str) -> frozenset[tuple[Edge, str]]:
    """Returns the copies (value, device) that serve others than the nodes which have that device by name.

    They are on their way to another device, or the host's share of a node that has its place elsewhere.
    """
    found: set[tuple[Edge, str]] = set()
    for k, node in enumerate(program.nodes):
        for port, edge in enumerate(node.inputs):
            if isinstance(edge, Edge):
                to = host if _DECIDES.get(node.kind) == port else homes[k]
                # Between two cards the host has a copy on the way.
                on_the_way = {to, host} if homes[edge.node] not in (to, host) else {to}
                found.update((edge, d) for d in on_the_way if d != (node.device or host))
                # What enters a loop is copied outside of it: there it serves whoever takes it inside.
                while isinstance(edge, Edge) and _is_constant(program.nodes[edge.node]):
                    edge = program.nodes[edge.node].inputs[0]
                    if isinstance(edge, Edge):
                        found.update((edge, d) for d in (to, host))
    return frozenset(found)


def _is_constant(node: PlanNode) -> bool:
    """Tells whether what a node brings into a loop is the same in all turns."""
    return node.kind is NodeKind.ENTER and bool(node.attrs.get("is_constant"))


def _home(node: PlanNode, host: str) -> str:
    """Returns the device whose arrays a node takes and makes."""
    if node.kind in _ON_HOST:
        return host
    return node.device or host
