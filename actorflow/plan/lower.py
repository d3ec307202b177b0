"""From a graph, fetches and feeds to a program: prune, order, lay out, place, improve, copy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType

from actorflow.errors import FeedError, PlacementError
from actorflow.graph import opdef
from actorflow.graph.graph import Graph
from actorflow.graph.node import Node, NodeId, Port
from actorflow.graph.opdef import Effect
from actorflow.graph.resource import VariableDef
from actorflow.plan.control.atomic_blocks import block_edges, ends, join_controls
from actorflow.plan.control.flatten import flatten
from actorflow.plan.control.program_order import program_order, touched_variables
from actorflow.plan.control.routines import routine_of
from actorflow.plan.control_flow_ops import KINDS
from actorflow.plan.flat_graph import Flat, back_of
from actorflow.plan.layout_order import layout_order
from actorflow.plan.passes.pass_table import ALL, apply_passes
from actorflow.plan.placement.colocate import colocate
from actorflow.plan.placement.cost import has_kernel
from actorflow.plan.placement.device_copies import with_copies
from actorflow.plan.placement.devices import parse_device
from actorflow.plan.placement.placer import FIRST, Moves, Placer, move_nodes, place
from actorflow.plan.placement.state_placement import NOWHERE, State
from actorflow.plan.program import Constant, Edge, Holder, Holding, NodeKind, PlanNode, Program
from actorflow.plan.prune import prune

_KINDS = {
    Effect.PURE: NodeKind.KERNEL,
    Effect.RANDOM: NodeKind.RANDOM,
    Effect.READ: NodeKind.REQUEST,
    Effect.WRITE: NodeKind.REQUEST,
    Effect.COMMIT: NodeKind.WAIT,
    Effect.WAIT: NodeKind.WAIT,
    Effect.ASK: NodeKind.WAIT,
    Effect.LOCK: NodeKind.WAIT,
    Effect.UNLOCK: NodeKind.RELEASE,
    Effect.FUNCTION: NodeKind.ROUTINE,
}


@dataclass(frozen=True, slots=True)
class PlannedProgram:
    """A program before it is partitioned or gets copies, and where its nodes go.

    Attributes:
        graph: That of which the nodes are: the given one, or what `plan.control.flatten` made of it.
        first: The first device of each node of the graph that is needed and runs.
        program: With every node on its first device.
        moves: What a placer makes of that.
    """

    graph: Graph
    first: Mapping[NodeId, str]
    program: Program
    moves: Moves

    @property
    def placed(self) -> Program:
        """The program as the placer wants it."""
        return move_nodes(self.program, self.moves)


def lower(
    graph: Graph,
    fetches: Sequence[Port],
    feeds: Sequence[Port],
    devices: Sequence[str],
    passes: Sequence[str] = ALL,
    *,
    placer: Placer = FIRST,
    lower_all: bool = False,
) -> Program:
    """Returns the program that computes `fetches` when `feeds` are given, for one process.

    Args:
        graph: The graph.
        fetches: What is computed.
        feeds: What is given.
        devices: The first is the host: state, feeds and fetches are there.
        passes: Names of `plan.passes.pass_table`.
        placer: Chooses where a node may be on several devices, by default the first.
        lower_all: Whether all loops, branches and calls run as nodes of their own; see
            `plan.control.flatten`.

    Raises:
        FeedError: when a placeholder is needed and not fed; names it.
        PlacementError: when a node names a device that does not exist, deals in bytes on a card, or cannot be
            where another is that it must share a device with; or when no order fits into memory.
        ConfigError: when a node asks for what is no name of a device.
    """
    found = plan_program(graph, fetches, feeds, devices, passes, placer=placer, lower_all=lower_all)
    # ORDER: copies last, when every node has its device.
    return with_copies(found.placed, devices[0], found.moves.transfer_controls)


def plan_program(
    graph: Graph,
    fetches: Sequence[Port],
    feeds: Sequence[Port],
    devices: Sequence[str],
    passes: Sequence[str] = ALL,
    *,
    placer: Placer = FIRST,
    host: str = "",
    state: State = NOWHERE,
    lower_all: bool = False,
) -> PlannedProgram:
    """Plans a program for the devices of one process or of several; see `lower`.

    Args:
        graph: The graph.
        fetches: What is computed.
        feeds: What is given.
        devices: Of all processes; a node without a scope is for the first.
        passes: Names of `plan.passes.pass_table`.
        placer: Chooses where a node may be on several devices.
        host: The device where feeds and fetches are, by default the first.
        state: Where state lives that no scope places.
        lower_all: See `lower`.
    """
    # ORDER: loops and branches first: what they become is pruned, ordered and placed as any other node.
    graph, fetches, feeds = flatten(graph, fetches, feeds, lower_all=lower_all)
    needed = prune(graph, fetches, feeds)
    # Only who chooses among devices has to know which of them has a kernel; else installing finds out.
    groups = colocate(graph, needed, devices, None if placer.way == "first" else has_kernel, state)
    first = {i: groups.first(i) for i in groups.of}
    program = _build(graph, needed, fetches, feeds, first, passes)
    # A placer sees the program, groups know the graph: names lead from one to the other.
    ids = {graph.nodes[i].name: i for i in groups.of}
    inner = _inner(program, graph)
    return PlannedProgram(graph, first, program, place(program, ids, groups, devices, placer, host, inner))


def _inner(program: Program, graph: Graph) -> frozenset[int]:
    """Returns the nodes of a program that come of bodies, and those that lead into loops."""
    if not isinstance(graph, Flat):
        return frozenset()
    names = {graph.nodes[i].name for i in graph.inner}
    return frozenset(i for i, node in enumerate(program.nodes) if node.name in names)


def lower_unplaced(
    graph: Graph,
    fetches: Sequence[Port],
    feeds: Sequence[Port],
    first: Mapping[NodeId, str],
    passes: Sequence[str] = ALL,
) -> Program:
    """Returns a program before anybody places it: with every node on its first device."""
    return _build(graph, prune(graph, fetches, feeds), fetches, feeds, first, passes)


def _build(
    graph: Graph,
    needed: Sequence[NodeId],
    fetches: Sequence[Port],
    feeds: Sequence[Port],
    first: Mapping[NodeId, str],
    passes: Sequence[str],
    constants: Mapping[Port, Constant] = MappingProxyType({}),
) -> Program:
    flat = graph if isinstance(graph, Flat) else None
    # A flat graph has its order as control edges already.
    order = join_controls(program_order(graph, needed), block_edges(graph, needed)) if flat is None else {}
    frames = {} if flat is None else flat.frames
    nodes: list[PlanNode] = []
    edges: dict[Port, Edge | Constant] = {}
    index: dict[NodeId, int] = {}
    variables: set[str] = set()
    for port in feeds:
        node = graph.nodes[port.node]
        if port in edges:
            message = f"{node.name!r} is fed twice in one step"
            raise FeedError(message, where=node.where, hint="feed it by its tensor or by its name")
        # ORDER: feeds before all others: a fed port takes precedence over what its node would compute.
        edges[port] = Edge(len(nodes))
        spec = node.outputs[port.index]
        nodes.append(PlanNode(node.name, "feed", NodeKind.FEED, (), outputs=(spec,), where=node.where))
    edges.update(constants)
    fed = frozenset(feeds)
    wanted = {*fetches, *(port for i in needed for port in graph.nodes[i].inputs)}
    for i in layout_order(graph, needed, order):
        node = graph.nodes[i]
        effect = opdef.lookup(node.op).effect
        variables.update(
            n for n in touched_variables(node) if isinstance(graph.resources.get(n), VariableDef)
        )
        # What is fed has its node already, and an argument is given by whoever runs the body.
        if effect is Effect.ARGUMENT or (effect is Effect.FEED and Port(i) in fed):
            continue
        if effect is Effect.FEED:
            message = f"placeholder {node.name!r} must be fed, {node.outputs[0]}"
            raise FeedError(message, where=node.where, hint=f"add {node.name!r} to the feeds of this step")
        if effect is Effect.CONSTANT:
            # No token travels for it: it lies in the slot of whoever takes it.
            edges.setdefault(Port(i), Constant(graph.constants[node.attrs["constant"]]))
            continue
        # `setdefault`: a fed output stays fed, even where the node runs for another output.
        for k in range(len(node.outputs)):
            edges.setdefault(Port(i, k), Edge(len(nodes), k))
        device = first[i]
        _check_no_bytes(graph, node, effect, device)
        # Of nodes that do not run there is nothing to wait for.
        controls = tuple(dict.fromkeys(index[c] for c in (*node.controls, *order.get(i, ())) if c in index))
        index[i] = len(nodes)
        routine = None
        if effect is Effect.FUNCTION:
            inputs = [edges[port] for port in node.inputs]
            # Of values kept for gradients a routine computes those that somebody asks for, so it must know
            # who does.
            routine = routine_of(graph, node, inputs, wanted, device, partial(_body, passes=passes))
        nodes.append(
            PlanNode(
                name=node.name,
                op=node.op,
                kind=KINDS[node.op] if effect is Effect.FLOW else _KINDS[effect],
                inputs=tuple(edges[port] for port in node.inputs),
                controls=controls,
                attrs=node.attrs,
                outputs=node.outputs,
                device=device,
                frame=frames.get(i, ()),
                resource=_holder(node, effect),
                routine=routine,
                where=node.where,
            )
        )
    # ORDER: when all have a place: the edge that leads back comes from behind.
    for i, at in index.items():
        back = back_of(graph.nodes[i])
        if back is not None:
            nodes[at] = replace(nodes[at], inputs=(*nodes[at].inputs, Edge(index[back])), attrs={})
    computed = len(nodes)
    # Ends of atomic blocks are fetched by nobody, and yet the step must not be over before they have fired.
    hidden = [Port(i) for i in ends(graph, needed)]
    for port in (*fetches, *hidden):
        node = graph.nodes[port.node]
        spec = node.outputs[port.index]
        nodes.append(
            PlanNode(node.name, "fetch", NodeKind.FETCH, (edges[port],), outputs=(spec,), where=node.where)
        )
    program = Program(
        nodes=tuple(nodes),
        feeds=tuple(range(len(feeds))),
        fetches=tuple(range(computed, len(nodes))),
        variables=frozenset(variables),
        hidden=len(hidden),
        parallel_iterations={} if flat is None else flat.parallel,
    )
    return apply_passes(program, passes)


def _body(
    body: Graph,
    fetches: Sequence[Port],
    feeds: Sequence[Port],
    device: str,
    constants: Mapping[Port, Constant],
    *,
    passes: Sequence[str],
) -> Program:
    """Returns the program of a body, with all its nodes on one device."""
    needed = prune(body, fetches, feeds)
    return _build(body, needed, fetches, feeds, dict.fromkeys(needed, device), passes, constants)


def _check_no_bytes(graph: Graph, node: Node, effect: Effect, device: str) -> None:
    """Raises PlacementError when what is on a card is to take or make bytes, which cards do not hold."""
    # Cards hold no bytes: whatever would take or make them there is told at planning, with its line.
    if effect not in (Effect.PURE, Effect.RANDOM, Effect.FLOW) or parse_device(device).kind != "gpu":
        return
    inputs = [graph.nodes[p.node].outputs[p.index] for p in node.inputs]
    for spec in (*inputs, *node.outputs):
        if spec.dtype.kind == "O":
            message = f"bytes stay on the host, got {spec} for {node.op!r} on {device}"
            raise PlacementError(message, where=node.where, hint="place it on /cpu:0 with af.device")


def _holder(node: Node, effect: Effect) -> Holder | None:
    """Returns whom the node asks, None for a node that computes."""
    if effect is Effect.COMMIT:
        return Holder(Holding.OPTIMIZER, node.attrs["optimizer"])
    if effect is Effect.ASK:
        if "actor" in node.attrs:
            return Holder(Holding.ACTOR, node.attrs["actor"])
        return Holder(Holding.FUNCTION, node.attrs["object"])
    if effect in (Effect.READ, Effect.WRITE, Effect.WAIT, Effect.LOCK):
        return Holder(Holding.RESOURCE, node.attrs["resource"])
    return None
