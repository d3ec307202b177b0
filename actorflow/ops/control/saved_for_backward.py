"""Gradients of bodies: what they need of the forward pass, and copies of bodies in another graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from typing import Any

from actorflow.graph import opdef
from actorflow.graph.autodiff import back_through
from actorflow.graph.body import ARGUMENT, Body, as_attr
from actorflow.graph.builder import Tensor, as_tensor
from actorflow.graph.graph import Graph, current
from actorflow.graph.node import NodeId, Port
from actorflow.graph.slices import Gradient, IndexedSlices
from actorflow.ops.array.constants import zeros_like
from actorflow.ops.array.shape_queries import ensure_shape
from actorflow.ops.control.bodies import add_arguments
from actorflow.ops.control.tensor_list import empty_like
from actorflow.values.arrays import is_differentiable
from actorflow.values.spec import ListSpec, Spec


class Backward:
    """The gradient of one body, as a body of its own around which the forward one lies.

    Attributes:
        found: For each x its gradient in `body`, None where no path leads.
        body: The subgraph; its first arguments are the gradients of the ys.
        values: For each capture of `body` the port of the forward body that it stands for, None where only
            gradients need it that nobody asked for.
    """

    def __init__(self, forward: Body, ys: Sequence[Port], xs: Sequence[Port], title: str, line: str) -> None:
        self.forward = forward
        # Within the forward body, so that forward values are captures of the gradient.
        self.body = Body(forward, title, f"the gradient of {forward.what}", line)
        # A gradient has the spec of what it is of.
        specs = [forward.nodes[port.node].outputs[port.index] for port in ys]
        starts = add_arguments(self.body, specs, "gradient", line)
        with self.body:
            self.found = back_through(forward, list(zip(ys, starts, strict=True)), xs)
        # Gradients that nobody asked for have nodes in the body, too.
        self._needed = _behind(self.body, [port for grad in self.found for port in _ports_of(grad)])
        # Those behind the given ones stand for captures.
        arguments = self.body.arguments[self.body.given :]
        # A value that only they need is neither kept nor read.
        self.values = [
            port if argument.node in self._needed else None
            for argument, port in zip(arguments, self.body.captured, strict=True)
        ]

    def forget(self) -> None:
        """Takes the body out of the table: it was a draft, or has been copied to where it is needed."""
        del self.body.bodies[self.body.key]

    def copy(self, starts: Sequence[Tensor], values: Sequence[Tensor | None]) -> list[Gradient | None]:
        """Builds it in the current graph.

        Args:
            starts: The gradients of the ys.
            values: What stands for the `values`.
        """
        # Starts stand for the given arguments, values for the captures.
        ports = copy_body(self.body, (*starts, *values), only=self._needed)

        def of_tensor(tensor: Tensor) -> Tensor:
            return Tensor(current(), ports[tensor.port])

        def of(grad: Gradient | None) -> Gradient | None:
            if not isinstance(grad, IndexedSlices):
                return None if grad is None else of_tensor(grad)
            # A number of rows that the step computes is a tensor as well.
            rows = of_tensor(grad.rows) if isinstance(grad.rows, Tensor) else grad.shape or ()
            made = IndexedSlices(of_tensor(grad.values), of_tensor(grad.indices), rows)
            # As well known as it was: the ports alone say less.
            made.spec = grad.spec
            return made

        return [of(grad) for grad in self.found]


def _ports_of(grad: Gradient | None) -> list[Port]:
    if isinstance(grad, IndexedSlices):
        rows = [grad.rows.port] if isinstance(grad.rows, Tensor) else []
        return [grad.values.port, grad.indices.port, *rows]
    return [] if grad is None else [grad.port]


def _behind(graph: Graph, ports: Sequence[Port]) -> set[NodeId]:
    """The nodes on which ports depend."""
    found: set[NodeId] = set()
    ahead = [port.node for port in ports]
    while ahead:
        node = ahead.pop()
        if node not in found:
            found.add(node)
            # Controls too: what an effect waits for comes along.
            ahead.extend(port.node for port in graph.nodes[node].inputs)
            ahead.extend(graph.nodes[node].controls)
    return found


def copy_body(
    body: Body,
    args: Sequence[Tensor | None],
    *,
    ways: Mapping[Port, Port] | None = None,
    only: Set[NodeId] | None = None,
    after: Sequence[NodeId] = (),
) -> dict[Port, Port]:
    """Builds the nodes of a body in the current graph; returns the port there of each of its ports.

    Args:
        body: The body.
        args: What stands for its arguments, captures included, None where nobody asks for it; empty where
            `ways` says so.
        ways: What stands for ports besides.
        only: Which nodes; None for all.
        after: Nodes of the current graph for which they wait.
    """
    graph = current()
    ports: dict[Port, Port] = dict(ways or {})
    # Arguments have no node in the copy.
    for argument, arg in zip(body.arguments, args, strict=bool(args)):
        if arg is not None:
            ports[argument] = as_tensor(arg).port
    ids: dict[NodeId, NodeId] = {}
    around = graph.scope
    # ORDER: nodes are topological: inputs have been copied.
    for node in body.nodes:
        if node.op == ARGUMENT or (only is not None and node.id not in only):
            continue
        # What the current scope waits for, and the copies of what the node waited for.
        waits = (*around.controls, *after, *(ids[c] for c in node.controls if c in ids))
        scope = replace(
            around,
            # A node keeps the place that it was given; the rest is placed where the copy is built.
            device=node.device or around.device,
            colocate=node.colocate or around.colocate,
            controls=tuple(dict.fromkeys(waits)),
        )
        with graph.use_scope(scope):
            copy = graph.add(
                node.op,
                # Named after its place here, not in the body.
                name=node.name.removeprefix(f"{body.key}/"),
                inputs=tuple(ports[port] for port in node.inputs),
                attrs=node.attrs,
                outputs=node.outputs,
                # Errors tell the user's line, not that of the gradient.
                defined_at=node.defined_at,
            )
        ids[node.id] = copy.id
        ports.update({Port(node.id, k): Port(copy.id, k) for k in range(len(node.outputs))})
    return ports


def save_for_backward(graph: Graph, node: NodeId, key: tuple[Any, ...], of: Spec) -> Tensor:
    """Returns the output of a functional node that gives a value of its bodies, which it may grow for that.

    Args:
        graph: Where the node is.
        node: It.
        key: How an entry of its attribute `saved` begins that asks for the value.
        of: The spec of the value.
    """
    found = graph.nodes[node]
    saved = found.attrs["saved"]
    # Asked for before, by another gradient: one output serves both.
    for k, entry in enumerate(saved):
        if entry[: len(key)] == key:
            return Tensor(graph, Port(node, len(found.outputs) - len(saved) + k))
    # ORDER: new entries behind old ones, so that ports of old ones stay.
    attrs = {**found.attrs, "saved": (*saved, (*key, as_attr(of)))}
    inputs = [graph.nodes[p.node].outputs[p.index] for p in found.inputs]
    # The op's own rule tells the specs of the grown node.
    outputs = tuple(opdef.lookup(found.op).spec(inputs, attrs))
    graph.grow(node, attrs, outputs)
    return Tensor(graph, Port(node, len(outputs) - 1))


def argument_of(body: Body, port: Port) -> int | None:
    """Returns which argument of a body a port is, None for what it computes."""
    return body.arguments.index(port) if body.nodes[port.node].op == ARGUMENT else None


def saved_key(port: Port) -> tuple[int, int]:
    """Returns how an entry of `saved` names a port of a body."""
    return int(port.node), port.index


def carries(of: Spec) -> bool:
    """Tells whether gradients flow through values of that spec."""
    return is_differentiable(of.dtype)


def zeros_for(value: Tensor) -> Tensor:
    """Returns zeros like a tensor; for a list the list without elements, which stands for zeros."""
    return empty_like(value) if isinstance(value.spec, ListSpec) else zeros_like(value)


def fit_gradient(grad: Tensor, of: Spec) -> Tensor:
    """Returns a gradient as one whose shape is known as well as that of what it is of."""
    wanted, known = of.shape, grad.shape
    if isinstance(of, ListSpec) or wanted is None:
        return grad
    # Nothing is lost: the gradient says as much.
    if known is not None and all(w is None or w == n for w, n in zip(wanted, known, strict=True)):
        return grad
    return ensure_shape(grad, wanted)
