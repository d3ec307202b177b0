"""Which device runs which node. In one process: the one that the node names, or the first.

Kernels are chosen by the device's library afterwards, so a node that names a device without a
kernel for its op is found when the plan is made, not when it runs.
"""

from __future__ import annotations

from collections.abc import Sequence

from actorflow.errors import PlacementError
from actorflow.graph.graph import Graph
from actorflow.graph.node import Node


def devices_named(graph: Graph) -> tuple[str, ...]:
    """Returns what the nodes, variables and queues of a graph call their devices, each name once."""
    names = [node.device for node in graph.nodes]
    names.extend(resource.device for resource in graph.resources.values())
    return tuple(filter(None, dict.fromkeys(names)))


def place(graph: Graph, node: Node, devices: Sequence[str]) -> str:
    """Returns the name of the device for `node`.

    A node that asks a variable or a queue goes where that lives. A colocated node goes where its
    target goes; a device scope names a device in full (`/cpu:0`) or by its end (`cpu:0`); no scope
    means the first device.

    Raises:
        PlacementError: for an unknown device; lists those that exist.
    """
    wanted = node.device
    owner = graph.resources.get(node.attrs.get("resource", ""))
    if owner is not None:
        wanted = owner.device
    elif node.colocate is not None:
        resource = graph.resources.get(node.colocate)
        wanted = resource.device if resource is not None else place(graph, graph.node(node.colocate), devices)
    if not wanted:
        return devices[0]
    for name in devices:
        if name == wanted or name.endswith("/" + wanted.lstrip("/")):
            return name
    message = f"unknown device {wanted!r}; this session has {', '.join(devices)}"
    raise PlacementError(message, where=node.where)
