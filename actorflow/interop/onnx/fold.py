"""What is known of a tensor's value while the graph is built: constants, and what follows from them.

ONNX gives shapes, axes and repeats as tensors. Exporters compute them from `Shape` nodes, which are
constants here when the sizes are known; so the kernels of the few nodes between are run at once.
"""

from __future__ import annotations

import numpy as np

from actorflow.arrays import Array
from actorflow.graph import opdef
from actorflow.graph.builder import Tensor
from actorflow.graph.node import Node, Port
from actorflow.graph.opdef import Effect
from actorflow.kernels import registry


def known_value(tensor: Tensor) -> Array | None:
    """Returns the value that `tensor` has in every step, or None when it depends on more than constants."""
    graph = tensor.graph
    nodes = _ancestors(tensor)
    if not all(_is_pure(node) for node in nodes):
        return None
    values: dict[Port, Array] = {}
    with np.errstate(all="ignore"):
        for node in nodes:
            if node.op == "constant":
                outputs = (graph.constants[node.attrs["constant"]],)
            else:
                kernel = registry.find(node.op).bind(node.attrs)
                found = kernel(*(values[port] for port in node.inputs))
                outputs = found if isinstance(found, tuple) else (found,)
            values.update((Port(node.id, i), value) for i, value in enumerate(outputs))
    return values[tensor.port]


def placeholders_of(tensor: Tensor) -> tuple[Node, ...]:
    """Returns the placeholders that the value of `tensor` depends on."""
    return tuple(node for node in _ancestors(tensor) if node.op == "placeholder")


def _ancestors(tensor: Tensor) -> list[Node]:
    """The nodes that `tensor` needs, those before others that need them: a graph only grows."""
    graph = tensor.graph
    found = {tensor.port.node}
    left = [tensor.port.node]
    while left:
        for port in graph.nodes[left.pop()].inputs:
            if port.node not in found:
                found.add(port.node)
                left.append(port.node)
    return [graph.nodes[i] for i in sorted(found)]


def _is_pure(node: Node) -> bool:
    return opdef.lookup(node.op).effect in (Effect.PURE, Effect.CONSTANT)
