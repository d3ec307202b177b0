"""What is known of a tensor's value while the graph is built: constants, and what follows from them.

ONNX gives shapes, axes and repeats as tensors. Exporters compute them from `Shape` nodes, which are
constants here when the sizes are known; so the kernels of the few nodes between are run at once.
"""

from __future__ import annotations

import numpy as np

from actorflow.graph import opdef
from actorflow.graph.builder import Tensor
from actorflow.graph.node import Node, Port
from actorflow.graph.opdef import Effect
from actorflow.kernels.definition import registry
from actorflow.values.arrays import Array
from actorflow.values.spec import Dim


def known_value(tensor: Tensor) -> Array | None:
    """Returns the value that `tensor` has in every step, or None when it depends on more than constants."""
    graph = tensor.graph
    nodes = _ancestors(tensor)
    # One impure node among them, and the value may differ from step to step.
    if not all(_is_pure(node) for node in nodes):
        return None
    values: dict[Port, Array] = {}
    # NaN and infinities of constants are as good as others.
    with np.errstate(all="ignore"):
        for node in nodes:
            if node.op == "constant":
                outputs = (graph.constants[node.attrs["constant"]],)
            else:
                # The kernel for numpy, run at once.
                kernel = registry.find(node.op).bind(node.attrs)
                found = kernel(*(values[port] for port in node.inputs))
                outputs = found if isinstance(found, tuple) else (found,)
            values.update((Port(node.id, i), value) for i, value in enumerate(outputs))
    return values[tensor.port]


def placeholders_of(tensor: Tensor) -> tuple[Node, ...]:
    """Returns the placeholders that the value of `tensor` depends on."""
    return tuple(node for node in _ancestors(tensor) if node.op == "placeholder")


def value_inputs(tensor: Tensor) -> tuple[Node, ...]:
    """Returns those of them whose own values it depends on, and not on their sizes alone."""
    return tuple(node for node in _ancestors(tensor, through_sizes=False) if node.op == "placeholder")


def _ancestors(tensor: Tensor, *, through_sizes: bool = True) -> list[Node]:
    """The nodes that `tensor` needs, those before others that need them: a graph only grows."""
    graph = tensor.graph
    found = {tensor.port.node}
    left = [tensor.port.node]
    while left:
        node = graph.nodes[left.pop()]
        # What is known of sizes alone need not be fixed.
        for port in node.inputs if through_sizes or node.op not in ("shape", "size") else ():
            if port.node not in found:
                found.add(port.node)
                left.append(port.node)
    # In the order in which they were built: inputs come first.
    return [graph.nodes[i] for i in sorted(found)]


def _is_pure(node: Node) -> bool:
    return opdef.lookup(node.op).effect in (Effect.PURE, Effect.CONSTANT)


def known_sizes(tensor: Tensor) -> tuple[Dim, ...] | None:
    """Returns the elements of a vector (or scalar) of integers, None for those that are not known.

    What exporters make of shapes with an open size: parts of a `shape`, joined with numbers. None as
    a whole when not even the number of elements is known.
    """
    value = known_value(tensor)
    if value is not None:
        return tuple(int(size) for size in value.reshape(-1))
    node = tensor.node
    inputs = [Tensor(tensor.graph, port) for port in node.inputs]
    if node.op == "shape":
        return inputs[0].shape
    # Joined of parts, each of which may be known.
    if node.op in ("concat", "stack"):
        parts = [known_sizes(part) for part in inputs]
        return None if None in parts else tuple(size for part in parts for size in part or ())
    # What changes no element, or only how it is laid out.
    if node.op in ("cast", "identity", "reshape", "expand_dims", "squeeze") and len(inputs) == 1:
        return known_sizes(inputs[0])
    if node.op in ("gather", "slice"):
        chosen = _choose(node, inputs)
        if chosen is not None:
            return chosen
    sizes = tensor.shape
    if sizes is None or len(sizes) > 1 or None in sizes:
        return None
    # As many numbers as the vector has, none of them known.
    return (None,) * (sizes[0] or 0) if sizes else (None,)


def _choose(node: Node, inputs: list[Tensor]) -> tuple[Dim, ...] | None:
    """The elements that a node takes from a vector, None when it cannot be seen which."""
    sizes = known_sizes(inputs[0])
    if sizes is None or inputs[0].spec.rank != 1:
        return None
    places = np.arange(len(sizes))
    if node.op == "slice":
        (part,) = node.attrs["index"]
        # A text stands for an index that the step computes.
        if isinstance(part, str):
            return None
        chosen = places[slice(*part[1:])] if isinstance(part, tuple) else places[part]
    else:
        indices = known_value(inputs[1])
        # An index out of range is left to the step's error.
        if indices is None or not all(-len(sizes) <= i < len(sizes) for i in indices.reshape(-1)):
            return None
        chosen = places[indices]
    return tuple(sizes[i] for i in np.reshape(chosen, -1))
