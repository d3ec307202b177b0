"""Which device runs which node of a program.

Every node has a first device: the first that it may have (`plan.colocate`), which is the host unless a scope
says otherwise. A placer may choose among the others by what they cost. It moves what computes: state stays,
and feeds and fetches are on the host. Where devices have limits of memory it also says in which order to run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from types import MappingProxyType
from typing import Any

from actorflow.errors import ConfigError, PlacementError
from actorflow.graph.device import ANY
from actorflow.graph.graph import Graph
from actorflow.plan.colocate import Groups
from actorflow.plan.cost import CostModel
from actorflow.plan.devices import named
from actorflow.plan.greedy import greedy
from actorflow.plan.late import late
from actorflow.plan.listing import listed
from actorflow.plan.makespan import forecast
from actorflow.plan.memory import fitting, serial
from actorflow.plan.program import Edge, Kind, PlanNode, Program
from actorflow.plan.workload import Arrangement, Link, Value, Workload

Gates = Mapping[tuple[Edge, str], tuple[int, ...]]
"""(output, device that receives it) -> indices of nodes that go before the transfer."""

_ON_HOST = frozenset({Kind.FEED, Kind.FETCH})

WAYS: Mapping[str, Callable[[Workload], Arrangement] | None] = MappingProxyType(
    {"first": None, "greedy": greedy, "list": listed}
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
        late: Whether transfers between devices wait until their value is about to be needed.

    Raises:
        ConfigError: for a way that does not exist, or a limit that is no number of bytes.
    """

    way: str = "first"
    cost: CostModel = field(default_factory=CostModel)
    limits: Mapping[str, float] = field(default_factory=dict)
    late: bool = False

    def __post_init__(self) -> None:
        """Checks the names and numbers."""
        if self.way not in WAYS:
            message = f"there is no placement {self.way!r}; there are {', '.join(WAYS)}"
            raise ConfigError(message)
        for device, limit in self.limits.items():
            if not limit > 0:
                message = f"a device holds a number of bytes above 0, got {limit!r} for {device}"
                raise ConfigError(message)

    @property
    def chooses(self) -> bool:
        """Whether anything is other than it would be without a placer."""
        return self.way != "first" or bool(self.limits) or self.late


FIRST = Placer()
"""Leaves every node on the first device that it may have."""


def checked(placement: str | Placer) -> Placer:
    """Returns the placer that a user means by a name or by itself; raises ConfigError for anything else."""
    given: Any = placement
    if isinstance(given, Placer):
        return given
    if not isinstance(given, str):
        message = f"a placement is a name or a Placer, got {given!r:.60}"
        raise ConfigError(message)
    return Placer(way=given)


def devices_named(graph: Graph) -> tuple[str, ...]:
    """Returns which devices of its own process a graph names, each once; of `/gpu:*` the first.

    What is no name is left out here: it is reported when its node is placed.
    """
    names = [node.device for node in graph.nodes]
    names.extend(resource.device for resource in graph.resources.values())
    found: dict[str, None] = {}
    for text in filter(None, dict.fromkeys(names)):
        try:
            name = named(text)
        except ConfigError:
            continue
        if name.kind is not None and not name.names_process:
            found[str(replace(name, index="0") if name.index == ANY else name)] = None
    return tuple(found)


def placed(
    program: Program, names: Mapping[str, int], groups: Groups, devices: Sequence[str], placer: Placer
) -> tuple[Program, Gates]:
    """Returns the program with the devices that the placer chose, and what transfers wait for.

    Args:
        program: With every node on its first device; every edge leads forward.
        names: The group of each node, by name.
        groups: Which devices each group may have.
        devices: All of them, the host first.
        placer: How to choose.

    Raises:
        PlacementError: when no order was found that fits into the memory of the devices.
        ConfigError: when the cost model does not know a kind of device.
    """
    if not placer.chooses or not program.nodes:
        return program, {}
    work = workload(program, names, groups, devices, placer)
    arranged = _arranged(work, program, devices, placer)
    nodes = [replace(n, device=devices[d]) for n, d in zip(program.nodes, arranged.device, strict=True)]
    for i, before in _controls(program, arranged).items():
        nodes[i] = replace(nodes[i], controls=tuple(dict.fromkeys((*nodes[i].controls, *before))))
    for i in (*program.feeds, *program.fetches):
        nodes[i] = program.nodes[i]
    return replace(program, nodes=tuple(nodes)), _gates(program, work, devices, arranged)


def _arranged(work: Workload, program: Program, devices: Sequence[str], placer: Placer) -> Arrangement:
    way = WAYS[placer.way]
    where = {name: d for d, name in enumerate(devices)}
    first = [where.get(node.device, 0) for node in program.nodes]
    in_turn = tuple(map(float, range(work.size)))
    as_it_is = Arrangement(tuple(first), in_turn)
    arranged: Arrangement | None = as_it_is if way is None else way(work)
    assert arranged is not None
    if placer.limits:
        arranged = fitting(work, arranged) or fitting(work, as_it_is)
        if arranged is None:
            peaks = forecast(work, serial(work, first)).peak_bytes
            full = [(d, p, m) for d, p, m in zip(devices, peaks, work.limits, strict=True) if p > m]
            device, peak, limit = full[0]
            message = f"a step must fit into the {limit:.0f} bytes of {device}, got {peak:.0f} one by one"
            raise PlacementError(message, hint="raise the limit, or spread the nodes over devices by scopes")
    return late(work, arranged) if placer.late else arranged


def workload(
    program: Program, names: Mapping[str, int], groups: Groups, devices: Sequence[str], placer: Placer
) -> Workload:
    """Returns the program as placers see it; task `i` is node `i`."""
    cost, count = placer.cost, len(groups.allowed)
    outputs: dict[Edge, dict[int, None]] = {}
    signals: dict[int, dict[int, None]] = {}
    seconds: list[list[float]] = []
    tasks: list[int] = []
    for i, node in enumerate(program.nodes):
        group = None if node.kind in _ON_HOST else names.get(node.name)
        tasks.append(count + i if group is None else group)
        allowed = (node.device or devices[0],) if group is None else _allowed(groups, group)
        allowed = _without_bytes(node, program, allowed)
        units = cost.node_units(node, program)
        seconds.append([cost.node_s(node.name, units, d) if d in allowed else inf for d in devices])
        for source in node.inputs:
            if isinstance(source, Edge):
                outputs.setdefault(source, {})[i] = None
        for before in node.controls:
            signals.setdefault(before, {})[i] = None
    values = [
        Value(edge.node, tuple(takers), cost.edge_bytes(program.nodes[edge.node].outputs[edge.output]))
        for edge, takers in outputs.items()
    ]
    values += [Value(before, tuple(takers)) for before, takers in signals.items()]
    links: list[list[Link]] = [[cost.link(a, b) for b in devices] for a in devices]
    dense: dict[int, int] = {}
    numbers = [dense.setdefault(group, len(dense)) for group in tasks]
    return Workload(seconds, values, links, numbers, [placer.limits.get(d, inf) for d in devices])


def _allowed(groups: Groups, group: int) -> tuple[str, ...]:
    return groups.allowed[group][:1] if group in groups.stays else groups.allowed[group]


def _without_bytes(node: PlanNode, program: Program, allowed: tuple[str, ...]) -> tuple[str, ...]:
    """Returns the devices that can hold what a node takes and makes: bytes stay off cards."""
    takes = [program.nodes[s.node].outputs[s.output] for s in node.inputs if isinstance(s, Edge)]
    if all(spec.dtype.kind != "O" for spec in (*takes, *node.outputs)):
        return allowed
    return tuple(d for d in allowed if named(d).kind != "gpu") or allowed


def _controls(program: Program, arranged: Arrangement) -> dict[int, tuple[int, ...]]:
    """Returns the order of an arrangement as control edges between nodes, past feeds and fetches."""
    before: dict[int, list[int]] = {}
    for first, then in arranged.after:
        before.setdefault(then, []).append(first)
    found: dict[int, tuple[int, ...]] = {}
    for i in sorted(before):
        if program.nodes[i].kind in _ON_HOST:
            continue
        stack, kept = list(before[i]), []
        while stack:
            k = stack.pop()
            if program.nodes[k].kind in _ON_HOST:
                stack.extend(before.get(k, ()))
            else:
                kept.append(k)
        found[i] = tuple(kept)
    return found


def _gates(program: Program, work: Workload, devices: Sequence[str], arranged: Arrangement) -> Gates:
    """Returns the gates of an arrangement in terms of the program; bare signals have none."""
    edges = list(dict.fromkeys(s for n in program.nodes for s in n.inputs if isinstance(s, Edge)))
    found: dict[tuple[Edge, str], tuple[int, ...]] = {}
    for gate in arranged.gates:
        if gate.value < len(edges) and program.nodes[gate.after].kind not in _ON_HOST:
            key = (edges[gate.value], devices[gate.device])
            found[key] = (*found.get(key, ()), gate.after)
    return found
