"""The gradient program of a training update: what a replica computes, and what it is given for that.

A local step reads the variables, computes loss, metrics and gradients, and applies these. A replica does
what lies between: every read of a variable is fed with the value that was pulled, and the inputs of the
`apply_gradients` node are fetched. The nodes in between are the same and go through the same passes, so
they give the same bits.

Pure: a function of the graph. What a step changes beside its update, or asks of state that each process
would have for itself, is refused here, before anything runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from actorflow.errors import CoordinationError
from actorflow.graph import opdef
from actorflow.graph.builder import Tensor
from actorflow.graph.graph import Graph
from actorflow.graph.node import Node, NodeId, Port
from actorflow.graph.opdef import Effect
from actorflow.graph.resource import HashTableDef
from actorflow.plan.lower import lower
from actorflow.plan.passes import ALL
from actorflow.plan.program import Program
from actorflow.plan.prune import prune
from actorflow.spec import Spec

_READ = "read_variable"
_WHY = {
    Effect.WRITE: "writes state beside its update, and each worker would write its own",
    Effect.COMMIT: "makes a second update, and the workers agree on one",
    Effect.LOCK: "locks variables for an atomic block, and they live in other processes",
    Effect.UNLOCK: "locks variables for an atomic block, and they live in other processes",
    Effect.WAIT: "waits for what others put in, and each worker would have its own",
    Effect.READ: "reads state that each worker would have for itself",
}
_TRY = "feed it with the batch, or train this program in one session"


@dataclass(frozen=True, slots=True)
class Update:
    """What a training update consists of, for a given choice of feeds.

    Attributes:
        node: The `apply_gradients` node.
        reads: Each read of a variable that the step needs: its port, and the variable.
        waits: Nodes that must run although only what is fed, or the update, waits for them.
    """

    node: Node
    reads: tuple[tuple[Port, str], ...]
    waits: tuple[Port, ...]

    @property
    def trained(self) -> tuple[str, ...]:
        """The variables that are updated, in the order of the gradients."""
        return tuple(self.node.attrs["resources"])

    @property
    def frozen(self) -> tuple[str, ...]:
        """The variables that are read and not updated, in the order of their first reads."""
        return tuple(dict.fromkeys(v for _, v in self.reads if v not in self.node.attrs["resources"]))


@dataclass(frozen=True, slots=True)
class GradientProgram:
    """A program that computes scalars and gradients.

    Attributes:
        update: What it was made of.
        program: Fed with the batch, then with a value for each of the update's reads.
        batch: Name and spec of each feed of the batch, in order.
        values: Variable and spec of each read, in order.
        scalars: How many of the fetches, the first ones, are loss and metrics; the gradients follow.
    """

    update: Update
    program: Program
    batch: tuple[tuple[str, Spec], ...]
    values: tuple[tuple[str, Spec], ...]
    scalars: int

    def gradients(self, fetched: Sequence[Any]) -> dict[str, Any]:
        """Returns what was fetched behind the scalars, by variable; (indices, rows) for one of some rows."""
        attrs = self.update.node.attrs
        rest = iter(fetched[self.scalars :])
        return {
            name: (next(rest), next(rest)) if sparse else next(rest)
            for name, sparse in zip(attrs["resources"], attrs["sparse"], strict=True)
        }


def gradient_program(
    graph: Graph,
    scalars: Sequence[Tensor],
    train: Any,
    batch: Sequence[Port],
    devices: Sequence[str],
    passes: Sequence[str] = ALL,
) -> GradientProgram:
    """Returns the program that computes `scalars` and the gradients of `train`.

    Args:
        graph: The graph.
        scalars: The loss, then metrics.
        train: What `minimize` returned.
        batch: What a batch feeds.
        devices: As for `plan.lower`: the first is the host.
        passes: Likewise.

    Raises:
        CoordinationError: the step cannot be shared by several workers; names node, line and why.
        FeedError, PlacementError: as for a step in a session.
    """
    update = update_of(graph, scalars, train, batch)
    nodes = graph.nodes
    fetches = [*(t.port for t in scalars), *update.node.inputs, *update.waits]
    program = lower(graph, fetches, [*batch, *(port for port, _ in update.reads)], devices, passes)
    return GradientProgram(
        update=update,
        program=program,
        batch=tuple((nodes[p.node].name, nodes[p.node].outputs[p.index]) for p in batch),
        values=tuple((name, nodes[p.node].outputs[p.index]) for p, name in update.reads),
        scalars=len(scalars),
    )


def update_of(
    graph: Graph, scalars: Sequence[Tensor], train: Any, batch: Sequence[Port] | None = None
) -> Update:
    """Returns what the update consists of; without `batch`, when all placeholders are fed.

    Raises:
        CoordinationError: several workers cannot share it; names node, line and why.
    """
    node = _commit(graph, train)
    nodes = graph.nodes
    if batch is None:
        batch = [Port(n.id) for n in nodes if opdef.lookup(n.op).effect is Effect.FEED]
    needed = prune(graph, [*(t.port for t in scalars), Port(node.id)], batch)
    _check_before(nodes, needed, node)
    reads: list[tuple[Port, str]] = []
    waits: dict[Port, None] = {}
    for i in needed:
        each = nodes[i]
        _check_effect(graph, each, node)
        if each.op == _READ:
            reads.append((Port(i), each.attrs["resource"]))
        if each.op == _READ or i == node.id:
            waits.update((Port(c), None) for c in each.controls if _runs(nodes[c]))
    return Update(node, tuple(reads), tuple(waits))


def _commit(graph: Graph, train: Any) -> Node:
    if isinstance(train, Tensor) and train.graph is graph:
        node = graph.nodes[train.port.node]
        if opdef.lookup(node.op).effect is Effect.COMMIT:
            return node
        message = f"workers share the update that minimize returned, got {node.op} {node.name!r}"
        raise CoordinationError(message, where=node.where, hint="pass what minimize(...) returned itself")
    message = f"workers share an update of the program's graph, got {train!r:.80}"
    raise CoordinationError(message, hint="pass what minimize(...) returned itself")


def _runs(node: Node) -> bool:
    """Whether a node that others wait for does anything in a replica: feeds and constants do not."""
    return node.op != _READ and opdef.lookup(node.op).effect not in (Effect.FEED, Effect.CONSTANT)


def _check_effect(graph: Graph, node: Node, commit: Node) -> None:
    """Raises CoordinationError unless the node computes, or asks only what a replica has."""
    effect = opdef.lookup(node.op).effect
    if effect not in _WHY or node is commit:
        return
    if effect is Effect.READ:
        resource = graph.resources.get(node.attrs["resource"])
        if isinstance(resource, HashTableDef) and not resource.mutable:
            return  # made of constants: the same everywhere
        if node.op == _READ:
            if node.id > commit.id and node.attrs["resource"] in commit.attrs["resources"]:
                message = (
                    f"{node.name!r} reads {node.attrs['resource']!r} after the update {commit.name!r}, "
                    "which the workers' steps come before"
                )
                hint = "build what reads it before minimize(...)"
                raise CoordinationError(message, where=node.where, hint=hint)
            return
    message = f"several workers cannot share a step in which {node.op} {node.name!r} {_WHY[effect]}"
    raise CoordinationError(message, where=node.where, hint=_TRY)


def _check_before(nodes: Sequence[Node], needed: Iterable[NodeId], commit: Node) -> None:
    """Raises CoordinationError for the first node that needs the update to have been made."""
    for i in needed:
        node = nodes[i]
        if commit.id in node.controls or any(port.node == commit.id for port in node.inputs):
            message = f"{node.name!r} needs the update {commit.name!r}, which the workers' steps come before"
            hint = "fetch it in a session of its own, after training"
            raise CoordinationError(message, where=node.where, hint=hint)
