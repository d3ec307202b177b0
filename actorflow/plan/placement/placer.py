"""Which device runs which node of a program.

Every node has a first device: the first that it may have (`plan.placement.colocate`), which is the first of
all unless a scope says otherwise. A placer may choose among the others by what they cost, be they of one
process or of several. It moves what computes: state stays, and feeds and fetches are on the host. Where
devices have limits of memory it also says in which order to run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from heapq import heapify, heappop, heappush
from itertools import pairwise
from math import inf
from types import MappingProxyType
from typing import Any

from actorflow.errors import ConfigError, PlacementError
from actorflow.graph.device import ANY
from actorflow.graph.graph import Graph
from actorflow.graph.node import NodeId
from actorflow.plan.placement import dependencies
from actorflow.plan.placement.alap_receives import alap
from actorflow.plan.placement.colocate import Groups
from actorflow.plan.placement.cost import CostModel
from actorflow.plan.placement.devices import parse_device
from actorflow.plan.placement.greedy import greedy
from actorflow.plan.placement.list_scheduling import list_schedule
from actorflow.plan.placement.makespan import forecast
from actorflow.plan.placement.memory import fitting, serial
from actorflow.plan.placement.scheduling_problem import Arrangement, DeviceLink, SchedulingProblem, Value
from actorflow.plan.placement.transfer_controls import TransferControls
from actorflow.plan.program import Edge, NodeKind, PlanNode, Program
from actorflow.values.checks import number

_ON_HOST = frozenset({NodeKind.FEED, NodeKind.FETCH})

WAYS: Mapping[str, Callable[[SchedulingProblem], Arrangement] | None] = MappingProxyType(
    {"first": None, "greedy": greedy, "list": list_schedule}
)
"""How to choose among the devices that a node may have, by name; None takes the first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Placer:
    """How a program is placed.

    Attributes:
        way: "first": everything on the first device that it may have. "greedy": each node where it would
            end first. "list": list scheduling, at least as good as greedy.
        cost: What nodes and edges cost.
        limits: Bytes that a device can hold, by its name; one that is not named holds any number.
        alap: Whether transfers between devices wait until their value is about to be needed.

    Raises:
        ConfigError: for a way that does not exist, or a limit that is no number of bytes.
    """

    way: str = "first"
    cost: CostModel = field(default_factory=CostModel)
    limits: Mapping[str, float] = field(default_factory=dict)
    alap: bool = False

    def __post_init__(self) -> None:
        """Checks the names and numbers."""
        if self.way not in WAYS:
            message = f"there is no placement {self.way!r}; there are {', '.join(WAYS)}"
            raise ConfigError(message)
        for device, limit in self.limits.items():
            if not number(limit) > 0:
                message = f"a device holds a number of bytes above 0, got {limit!r} for {device}"
                raise ConfigError(message)

    @property
    def chooses(self) -> bool:
        """Whether anything is other than it would be without a placer."""
        return self.way != "first" or bool(self.limits) or self.alap


FIRST = Placer()
"""Leaves every node on the first device that it may have."""


def check_placer(placement: str | Placer) -> Placer:
    """Returns the placer that a user means by a name or by itself; raises ConfigError for anything else."""
    given: Any = placement
    if isinstance(given, Placer):
        return given
    if not isinstance(given, str):
        message = f"a placement is a name or a Placer, got {given!r:.60}"
        raise ConfigError(message)
    return Placer(way=given)


def name_devices(graph: Graph) -> tuple[str, ...]:
    """Returns which devices of its own process a graph names, each once; of `/gpu:*` the first.

    What is no name is left out here: it is reported when its node is placed.
    """
    names = [node.device for part in (graph, *graph.bodies.values()) for node in part.nodes]
    names.extend(resource.device for resource in graph.resources.values())
    found: dict[str, None] = {}
    for text in filter(None, dict.fromkeys(names)):
        try:
            name = parse_device(text)
        # What is no name is reported when its node is placed.
        except ConfigError:
            continue
        if name.kind is not None and not name.names_process:
            found[str(replace(name, index="0") if name.index == ANY else name)] = None
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Moves:
    """What a placer has chosen, in terms of the nodes of a program by their indices.

    Attributes:
        devices: Of nodes that leave their first device.
        after: The control inputs that nodes get, by which everything fits into memory.
        transfer_controls: What transfers wait for.
    """

    devices: Mapping[int, str] = field(default_factory=dict)
    after: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    transfer_controls: TransferControls = field(default_factory=dict)

    def fit(self, program: Program) -> bool:
        """Tells whether they speak of nodes that the program has."""
        named = {*self.devices, *self.after, *(edge.node for edge, _ in self.transfer_controls)}
        named.update(c for before in (*self.after.values(), *self.transfer_controls.values()) for c in before)
        return all(0 <= i < len(program.nodes) for i in named)


def move_nodes(program: Program, moves: Moves) -> Program:
    """Returns a program with its nodes where a placer wants them, and in its order."""
    if not moves.devices and not moves.after:
        return program
    nodes = list(program.nodes)
    for i, device in moves.devices.items():
        nodes[i] = replace(nodes[i], device=device)
    for i, before in moves.after.items():
        nodes[i] = replace(nodes[i], controls=tuple(dict.fromkeys((*nodes[i].controls, *before))))
    return replace(program, nodes=tuple(nodes))


def place(
    program: Program,
    ids: Mapping[str, NodeId],
    groups: Groups,
    devices: Sequence[str],
    placer: Placer,
    host: str = "",
    inner: Set[int] = frozenset(),
) -> Moves:
    """Returns what the placer chooses for a program.

    Args:
        program: With every node on its first device; every edge leads forward, but for those of turns.
        ids: The nodes of the graph, by name.
        groups: Which devices each group may have.
        devices: All of them, of one process or of several.
        placer: How to choose.
        host: Where feeds and fetches are; by default the first device.
        inner: Nodes in loops and branches, which others must not wait for, nor they for others.

    Raises:
        PlacementError: when no order was found that fits into the memory of the devices.
        ConfigError: when the cost model does not know a kind of device.
    """
    if not placer.chooses or not program.nodes:
        return Moves()
    host = host or devices[0]
    # Any order along the edges would do; this one the user can follow.
    order = order_as_built(program, ids)
    work = scheduling_problem(program, order, ids, groups, devices, placer, host)
    arranged = _arrange(work, [program.nodes[i].device or host for i in order], devices, placer)
    chosen = {i: devices[d] for i, d in zip(order, arranged.device, strict=True)}
    return Moves(
        devices={
            i: device
            for i, device in sorted(chosen.items())
            # Feeds and fetches have no device of their own: the host was theirs for planning only.
            if program.nodes[i].kind not in _ON_HOST and program.nodes[i].device != device
        },
        after={i: before for i, before in _controls(program, order, arranged, inner).items() if before},
        transfer_controls=_transfer_controls(program, order, devices, arranged, inner),
    )


def order_as_built(program: Program, ids: Mapping[str, NodeId]) -> list[int]:
    """Returns the nodes in the order in which the user built them, as far as edges allow.

    Feeds come first, fetches last.
    """
    ends = {NodeKind.FEED: -1, NodeKind.FETCH: 1}

    def turn(i: int) -> tuple[int, int, int]:
        node = program.nodes[i]
        # Of those that could come next the one that was built first.
        return ends.get(node.kind, 0), ids.get(node.name, -1), i

    # Kahn's algorithm: in the heap are those that wait for nothing more.
    needed = [dependencies.before(found) for found in dependencies.dependencies(program)]
    waits = list(map(len, needed))
    behind: dict[int, list[int]] = {}
    for i, found in enumerate(needed):
        for k in found:
            behind.setdefault(k, []).append(i)
    ready = [turn(i) for i, count in enumerate(waits) if not count]
    heapify(ready)
    order: list[int] = []
    while ready:
        *_, i = heappop(ready)
        order.append(i)
        for k in behind.get(i, ()):
            waits[k] -= 1
            if not waits[k]:
                heappush(ready, turn(k))
    return order


def _arrange(
    work: SchedulingProblem, homes: Sequence[str], devices: Sequence[str], placer: Placer
) -> Arrangement:
    way = WAYS[placer.way]
    where = {name: d for d, name in enumerate(devices)}
    first = [where[home] for home in homes]
    in_turn = tuple(map(float, range(work.size)))
    as_it_is = Arrangement(tuple(first), in_turn)
    arranged: Arrangement | None = as_it_is if way is None else way(work)
    assert arranged is not None
    if placer.limits:
        # What was chosen for speed may not fit where everything on its first device does.
        arranged = fitting(work, arranged) or fitting(work, as_it_is)
        if arranged is None:
            # Not even one after the other: then a single device is named, with what it would have to hold.
            peaks = forecast(work, serial(work, first)).peak_bytes
            full = [(d, p, m) for d, p, m in zip(devices, peaks, work.limits, strict=True) if p > m]
            device, peak, limit = full[0]
            message = f"a step must fit into the {limit:.0f} bytes of {device}, got {peak:.0f} one by one"
            raise PlacementError(message, hint="raise the limit, or spread the nodes over devices by scopes")
    return alap(work, arranged) if placer.alap else arranged


def scheduling_problem(
    program: Program,
    order: Sequence[int],
    ids: Mapping[str, NodeId],
    groups: Groups,
    devices: Sequence[str],
    placer: Placer,
    host: str,
) -> SchedulingProblem:
    """Returns the program as placers see it; task `k` is node `order[k]`."""
    cost, count = placer.cost, len(groups.allowed)
    task_of = {i: task for task, i in enumerate(order)}
    seconds: list[list[float]] = []
    numbers: dict[int, int] = {}
    together: list[int] = []
    for i in order:
        node = program.nodes[i]
        known = None if node.kind in _ON_HOST else ids.get(node.name)
        # Feeds and fetches have no group of the graph's: each is one by itself.
        group = count + i if known is None else groups.of[known]
        # Numbers without gaps: of the groups of the graph only those that run.
        together.append(numbers.setdefault(group, len(numbers)))
        allowed = (node.device or host,) if known is None else _allowed_devices(groups, group)
        allowed = _without_bytes(node, program, allowed)
        units = cost.node_units(node, program)
        times = [0.0 if node.kind in _ON_HOST else cost.node_s(node.name, units, d) for d in devices]
        seconds.append([s if d in allowed else inf for d, s in zip(devices, times, strict=True)])
    values: list[Value] = []
    for source, takers in _takers(program, order).items():
        # A node for which others only wait sends no bytes.
        if isinstance(source, int):
            maker, size = source, 0.0
        else:
            maker, size = source.node, cost.edge_bytes(program.nodes[source.node].outputs[source.output])
        values.append(Value(task_of[maker], tuple(task_of[i] for i in takers), size))
    # ORDER: behind all values, since `_transfer_controls` tells signals by their numbers.
    values += list(_ends(program, values, task_of))
    links: list[list[DeviceLink]] = [[cost.link(a, b) for b in devices] for a in devices]
    return SchedulingProblem(seconds, values, links, together, [placer.limits.get(d, inf) for d in devices])


def _ends(program: Program, values: Sequence[Value], task_of: Mapping[int, int]) -> Iterator[Value]:
    """Yields the signals by which all feeds are there from the start, and fetched values until the end."""
    feeds = sorted(task_of[i] for i in program.feeds)
    fetches = sorted(task_of[i] for i in program.fetches)
    # Feeds are all there before anything starts, and fetched values stay until the end: so each counts
    # against memory for as long as a step really holds it.
    for before, after in (*pairwise(feeds), *pairwise(fetches)):
        yield Value(before, (after,))
    fed = frozenset(feeds)
    # Those that take from feeds alone, or nothing at all: they begin behind the last feed.
    later = {taker for value in values if value.maker not in fed for taker in value.takers}
    first = tuple(task for task in sorted(task_of.values()) if task not in fed and task not in later)
    if feeds and first:
        yield Value(feeds[-1], first)
    if fetches:
        # Fetches have the highest numbers. The first of them waits for all that is fetched, so each is held
        # until then.
        fetched = {v.maker for v in values if any(taker >= fetches[0] for taker in v.takers)}
        yield from (Value(maker, (fetches[0],)) for maker in sorted(fetched))


def _takers(program: Program, order: Sequence[int]) -> dict[Edge | int, dict[int, None]]:
    """Returns who takes each output, and who waits for each node by a control edge."""
    outputs: dict[Edge | int, dict[int, None]] = {}
    needed = dependencies.dependencies(program)
    for i in order:
        for source in needed[i]:
            outputs.setdefault(source, {})[i] = None
    return outputs


def _allowed_devices(groups: Groups, group: int) -> tuple[str, ...]:
    return groups.allowed[group][:1] if group in groups.stays else groups.allowed[group]


def _without_bytes(node: PlanNode, program: Program, allowed: tuple[str, ...]) -> tuple[str, ...]:
    """Returns the devices that can hold what a node takes and makes: bytes stay off cards."""
    takes = [program.nodes[s.node].outputs[s.output] for s in node.inputs if isinstance(s, Edge)]
    if all(spec.dtype.kind != "O" for spec in (*takes, *node.outputs)):
        return allowed
    return tuple(d for d in allowed if parse_device(d).kind != "gpu") or allowed


def _awaited_nodes(program: Program, order: Sequence[int]) -> list[int]:
    """Returns by node the set of nodes for which it waits that may wait for long, as the bits of a number."""
    sets = [0] * len(program.nodes)
    needed = dependencies.dependencies(program)
    for i in order:
        for k in dependencies.before(needed[i]):
            sets[i] |= sets[k]
        if program.nodes[i].kind is NodeKind.WAIT:
            sets[i] |= 1 << i
    return sets


def _controls(
    program: Program, order: Sequence[int], arranged: Arrangement, inner: Set[int]
) -> dict[int, tuple[int, ...]]:
    """Returns the order of an arrangement as control edges between nodes, past feeds and fetches.

    INVARIANT: nothing comes to wait for a queue or a lock that did not wait for it before.
    """
    before = _rows(order, arranged)
    awaited = _awaited_nodes(program, order)
    return {
        i: _keep_waits(program, awaited, before, before[i], awaited[i], inner)
        for i in sorted(before)
        # INVARIANT: no node of those is dead: a control edge from a dead node would kill the other. And none
        # is in a loop, where it would fire once a turn.
        if program.nodes[i].kind not in _ON_HOST and i not in inner
    }


def _rows(order: Sequence[int], arranged: Arrangement) -> dict[int, list[int]]:
    """Returns by node those before which an arrangement does not let it start."""
    before: dict[int, list[int]] = {}
    for first, then in arranged.after:
        before.setdefault(order[then], []).append(order[first])
    return before


def _keep_waits(
    program: Program,
    awaited: Sequence[int],
    before: Mapping[int, Sequence[int]],
    wanted: Sequence[int],
    waits: int,
    inner: Set[int],
) -> tuple[int, ...]:
    """Returns what to wait for in place of `wanted`: what is before one that may not be waited for."""
    stack = list(wanted)
    kept: list[int] = []
    while stack:
        k = stack.pop()
        # What fills the queue might be behind it: it may be waited for only by who waits for it already. In
        # its place whatever goes before it.
        if program.nodes[k].kind in _ON_HOST or k in inner or awaited[k] & ~waits:
            stack.extend(before.get(k, ()))
        else:
            kept.append(k)
    return tuple(kept)


def _transfer_controls(
    program: Program,
    order: Sequence[int],
    devices: Sequence[str],
    arranged: Arrangement,
    inner: Set[int],
) -> TransferControls:
    """Returns the transfer controls of an arrangement in terms of the program; bare signals have none.

    INVARIANT: as for control edges.
    """
    sources = list(_takers(program, order))
    before = _rows(order, arranged)
    awaited = _awaited_nodes(program, order)
    found: dict[tuple[Edge, str], tuple[int, ...]] = {}
    for gate in arranged.transfer_controls:
        # Bare signals have no value that could be held back.
        if gate.value >= len(sources):
            continue
        source = sources[gate.value]
        # As no node of a loop gets a control edge, nothing that it sends waits.
        if isinstance(source, Edge) and source.node not in inner:
            after = _keep_waits(program, awaited, before, [order[gate.after]], awaited[source.node], inner)
            if after:
                key = (source, devices[gate.device])
                found[key] = tuple(dict.fromkeys((*found.get(key, ()), *after)))
    return found
