"""Which device runs which node when there are several processes: where its scope says, and state rules.

A node that asks a variable, a queue or other state goes where that lives; an optimizer goes to the
process of its variables, a lock to that of its block. A scope that leaves something open, such as
`/job:ps`, means the first device that it allows, and no scope the first of all, which is at home.

Pure: a function of the graph and of the names of devices.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from actorflow.errors import PlacementError, Where
from actorflow.graph.graph import Graph
from actorflow.graph.node import Node, NodeId
from actorflow.plan.devices import matching, process_of

State = Mapping[str, str]
"""Where state lives that no scope of the graph places: names of resources to devices."""

NOWHERE: State = MappingProxyType({})


def homes(
    graph: Graph, needed: Iterable[NodeId], devices: Sequence[str], state: State = NOWHERE
) -> dict[NodeId, str]:
    """Returns the device of each node among `needed`.

    Args:
        graph: The graph.
        needed: What a step needs of it.
        devices: Whole names, of all processes; the first is the one at home.
        state: Where state lives that no scope places; else on the first device.

    Raises:
        PlacementError: when no device fits, or an optimizer or a block deals with variables of several
            processes.
    """
    return {i: _home(graph, graph.nodes[i], devices, state) for i in needed}


def resource_home(
    graph: Graph, name: str, devices: Sequence[str], state: State = NOWHERE, where: Where | None = None
) -> str:
    """Returns the device where a variable, a queue or other state lives."""
    return _first(graph.resources[name].device or state.get(name, ""), devices, where)


def _home(graph: Graph, node: Node, devices: Sequence[str], state: State) -> str:
    several = node.attrs.get("resources")
    if several:
        return _shared(graph, node, several, devices, state)
    if "resource" in node.attrs:
        return resource_home(graph, node.attrs["resource"], devices, state, node.where)
    if node.colocate is None:
        return _first(node.device, devices, node.where)
    if node.colocate in graph.resources:
        return resource_home(graph, node.colocate, devices, state, node.where)
    return _home(graph, graph.node(node.colocate), devices, state)


def _shared(graph: Graph, node: Node, names: Iterable[str], devices: Sequence[str], state: State) -> str:
    """Returns the device where several resources live, which must be in one process."""
    found = {name: resource_home(graph, name, devices, state, node.where) for name in names}
    if len({process_of(device) for device in found.values()}) > 1:
        told = ", ".join(f"{name!r} on {device}" for name, device in found.items())
        message = f"{node.op!r} deals with variables of one process, got {told}"
        hint = "place them in one process, or train them with one optimizer for each process"
        raise PlacementError(message, where=node.where, hint=hint)
    return next(iter(found.values()))


def _first(wanted: str, devices: Sequence[str], where: Where | None) -> str:
    allowed = matching(wanted, devices)
    if not allowed:
        message = f"no device fits {wanted!r}; there are {', '.join(devices)}"
        raise PlacementError(message, where=where)
    return allowed[0]
