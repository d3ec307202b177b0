"""The reference interpreter: runs a graph node by node, in the order of the user's program.

No actors, no plan, no fusion: what the runtime computes must be what this computes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from actorflow.graph import opdef
from actorflow.graph.builder import Tensor, as_tensor
from actorflow.graph.graph import Graph
from actorflow.graph.node import Node, Port
from actorflow.graph.opdef import Effect
from actorflow.graph.slices import IndexedSlices
from actorflow.kernels.definition import registry
from actorflow.values.spec import ListSpec, Spec
from actorflow.values.tensor_list import TensorList

Values = dict[Port, Any]


def evaluate(graph: Graph, fetches: Any, feeds: Mapping[Tensor, Any] | None = None) -> Any:
    """Returns the value of a tensor, or a list of those of a sequence of tensors; slices are dense.

    `feeds` gives the values of placeholders, or replaces those of any other tensors.
    """
    with graph:
        several = fetches if isinstance(fetches, list | tuple) else [fetches]
        several = [fetch.to_dense() if isinstance(fetch, IndexedSlices) else fetch for fetch in several]
        wanted = [fetch if isinstance(fetch, Tensor) else as_tensor(fetch) for fetch in several]
    values: Values = {t.port: np.asarray(v, t.dtype) for t, v in (feeds or {}).items()}
    for node_id in needed(graph, [t.port for t in wanted], values):
        run(graph, graph.nodes[node_id], values)
    found = [values[t.port] for t in wanted]
    return found if isinstance(fetches, list | tuple) else found[0]


def needed(graph: Graph, ports: Sequence[Port], known: Mapping[Port, Any]) -> list[int]:
    """The nodes that `ports` depend on, in order; those behind known ports left out."""
    found: set[int] = set()
    ahead = [p for p in ports if p not in known]
    while ahead:
        node = graph.nodes[ahead.pop().node]
        if node.id not in found:
            found.add(node.id)
            ahead.extend(p for p in node.inputs if p not in known)
    return sorted(found)


def run(graph: Graph, node: Node, values: Values) -> None:
    """Computes the outputs of one node into `values`."""
    effect = opdef.lookup(node.op).effect
    if effect is Effect.CONSTANT:
        outputs: tuple[Any, ...] = (graph.constants[node.attrs["constant"]],)
    elif effect in (Effect.PURE, Effect.RANDOM):
        outputs = call(node.op, [values[p] for p in node.inputs], node.attrs, counter=node.id)
    else:
        raise AssertionError(f"{node.name} needs a value: {node.op} is {effect.value}")
    for i, (value, spec) in enumerate(zip(outputs, node.outputs, strict=True)):
        assert holds(spec, value), f"{node.name}:{i} is {spec}, got {value!r}"
        values.setdefault(Port(node.id, i), value)


def holds(spec: Spec, value: Any) -> bool:
    """Whether a value is one of those that a spec describes; of a list all that is in it."""
    if isinstance(spec, ListSpec):
        sized = isinstance(value, TensorList) and spec.size in (None, len(value))
        return sized and all(holds(spec.element, v) for _, v in value.items())
    return spec.fits(np.shape(value), value.dtype)


def call(op: str, arrays: Sequence[Any], attrs: Mapping[str, Any], *, counter: int = 0) -> tuple[Any, ...]:
    """Returns what the numpy kernel of `op` computes, always as a tuple."""
    extra = {"counter": (0, 0, 0, counter)} if opdef.lookup(op).effect is Effect.RANDOM else {}
    made = registry.find(op).function(*arrays, **attrs, **extra)
    return made if isinstance(made, tuple) else (made,)
