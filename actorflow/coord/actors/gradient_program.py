"""The gradient program of a training update: what a replica computes, and what it is given for that.

A local step reads the variables, computes loss, metrics and gradients, and applies these. A replica does
what lies between: every read of a variable is fed with the value that was pulled, and the inputs of the
`apply_gradients` node are fetched. The nodes in between are the same and go through the same passes, so
they give the same bits.

A variable of which the step uses nothing but rows, which the batch alone numbers, is not pulled whole. The
numbers are fetched, and in place of the variable the results of its gathers are fed. Gradients know nothing
of that: they are of the numbers that the graph has, as before.

Values come when the step has begun, so their feeds are nodes that take what others send (`NodeKind.RECV`).

Pure: a function of the graph. What a step changes beside its update, or asks of state that each process
would have for itself, is refused here, before anything runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from actorflow.errors import CoordinationError
from actorflow.graph import opdef
from actorflow.graph.body import bodies_of
from actorflow.graph.builder import Tensor
from actorflow.graph.graph import Graph
from actorflow.graph.node import Node, NodeId, Port
from actorflow.graph.opdef import Effect
from actorflow.graph.resource import HashTableDef
from actorflow.plan.lower import lower
from actorflow.plan.passes.pass_table import ALL
from actorflow.plan.program import NodeKind, Program
from actorflow.plan.prune import prune
from actorflow.values.spec import Spec

_READ = "read_variable"
_WHY = {
    Effect.WRITE: "writes state beside its update, and each worker would write its own",
    Effect.COMMIT: "makes a second update, and the workers agree on one",
    Effect.LOCK: "locks variables for an atomic block, and they live in other processes",
    Effect.UNLOCK: "locks variables for an atomic block, and they live in other processes",
    Effect.WAIT: "waits for what others put in, and each worker would have its own",
    Effect.ASK: "runs code of the user, and each worker would have its own",
    Effect.READ: "reads state that each worker would have for itself",
}
_TRY = "feed it with the batch, or train this program in one session"


@dataclass(frozen=True, slots=True)
class RowLookup:
    """Rows that a step takes of a variable of which it uses nothing else.

    Attributes:
        node: The `gather`.
        variable: Whose rows.
        count: How many rows that has.
        rows: What some of them fit.
    """

    node: Node
    variable: str
    count: int
    rows: Spec


@dataclass(frozen=True, slots=True)
class Update:
    """What a training update consists of, for a given choice of feeds.

    Attributes:
        node: The `apply_gradients` node.
        reads: Each read of a variable that the step needs: its port, and the variable.
        waits: Nodes that must run although only what is fed, or the update, waits for them.
        lookups: What takes rows, of variables of which no more is needed.
    """

    node: Node
    reads: tuple[tuple[Port, str], ...]
    waits: tuple[Port, ...]
    lookups: tuple[RowLookup, ...] = ()

    @property
    def trained(self) -> tuple[str, ...]:
        """The variables that are updated, in the order of the gradients."""
        return tuple(self.node.attrs["resources"])

    @property
    def frozen(self) -> tuple[str, ...]:
        """The variables that are read and not updated, in the order of their first reads."""
        return tuple(dict.fromkeys(v for _, v in self.reads if v not in self.node.attrs["resources"]))

    @property
    def whole(self) -> tuple[tuple[Port, str], ...]:
        """The reads of variables that are needed whole."""
        by_rows = {lookup.variable for lookup in self.lookups}
        return tuple((port, name) for port, name in self.reads if name not in by_rows)


@dataclass(frozen=True, slots=True)
class GradientProgram:
    """A program that computes scalars and gradients.

    Attributes:
        update: What it was made of.
        program: Fed with the batch. What comes later has keys: a value for each read of a whole variable,
            then one for each lookup.
        batch: Name and spec of each feed of the batch, in order.
        values: Variable and spec of each read of a whole variable, in order.
        scalars: How many of the fetches, the first ones, are loss and metrics. The gradients follow, then the
            indices of each lookup.
        devices: What kernels may run on; the first is that of kernels that have no place of their own.
    """

    update: Update
    program: Program
    batch: tuple[tuple[str, Spec], ...]
    values: tuple[tuple[str, Spec], ...]
    scalars: int
    devices: tuple[str, ...]

    @property
    def places(self) -> dict[str, tuple[int, ...]]:
        """Which fetches are the gradient of each variable: one, or indices and rows."""
        attrs = self.update.node.attrs
        found: dict[str, tuple[int, ...]] = {}
        at = self.scalars
        for name, sparse in zip(attrs["resources"], attrs["sparse"], strict=True):
            found[name] = (at, at + 1) if sparse else (at,)
            at += len(found[name])
        return found

    @property
    def indices(self) -> range:
        """Which fetches are the indices of the lookups."""
        first = self.scalars + len(self.update.node.inputs)
        return range(first, first + len(self.update.lookups))


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
    indices = [lookup.node.inputs[1] for lookup in update.lookups]
    fetches = [*(t.port for t in scalars), *update.node.inputs, *indices, *update.waits]
    values = [*(port for port, _ in update.whole), *(Port(lookup.node.id) for lookup in update.lookups)]
    program = lower(graph, fetches, [*batch, *values], devices, passes)
    return GradientProgram(
        update=update,
        program=_later(program, len(batch)),
        batch=tuple((nodes[p.node].name, nodes[p.node].outputs[p.index]) for p in batch),
        values=tuple((name, nodes[p.node].outputs[p.index]) for p, name in update.whole),
        scalars=len(scalars),
        devices=tuple(devices),
    )


def _later(program: Program, first: int) -> Program:
    """The program with feeds from `first` on that come when its step has begun, each under its key."""
    nodes = list(program.nodes)
    for key, i in enumerate(program.feeds[first:]):
        attrs = {"key": key, "source": "the shards"}
        nodes[i] = replace(nodes[i], kind=NodeKind.RECV, attrs=attrs)
    return replace(program, nodes=tuple(nodes), feeds=program.feeds[:first])


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
    lookups = _lookups(graph, needed, reads, frozenset(t.port for t in scalars), batch)
    for lookup in lookups:
        waits.update((Port(c), None) for c in lookup.node.controls if _runs(nodes[c]))
    return Update(node, tuple(reads), tuple(waits), lookups)


def _lookups(
    graph: Graph,
    needed: Sequence[NodeId],
    reads: Sequence[tuple[Port, str]],
    fetched: frozenset[Port],
    batch: Sequence[Port],
) -> tuple[RowLookup, ...]:
    """What takes rows of variables, of those that are needed in no other way."""
    variable = dict(reads)
    whole = {name for port, name in reads if port in fetched}
    controls = {c for i in needed for c in graph.nodes[i].controls}
    found = []
    for i in needed:
        for k, port in enumerate(graph.nodes[i].inputs):
            name = variable.get(port)
            if name is None or name in whole:
                continue
            lookup = _lookup(graph, graph.nodes[i], k, name, batch) if i not in controls else None
            if lookup is None:
                whole.add(name)
            else:
                found.append(lookup)
    return tuple(lookup for lookup in found if lookup.variable not in whole)


def _lookup(graph: Graph, node: Node, k: int, name: str, batch: Sequence[Port]) -> RowLookup | None:
    """How a node uses the variable that is its input `k`, if it takes rows that the batch alone numbers."""
    if node.op != "gather" or k != 0:
        return None
    port, indices = node.inputs
    spec = graph.nodes[port.node].outputs[port.index]
    if not spec.shape or spec.shape[0] is None or node.attrs["axis"] not in (0, -len(spec.shape)):
        return None
    if any(graph.nodes[i].op == _READ for i in prune(graph, [indices], batch)):
        return None
    return RowLookup(node, name, spec.shape[0], Spec((None, *spec.shape[1:]), spec.dtype))


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
    if effect is Effect.FUNCTION:
        for inner in _within(graph, node):
            _check_inside(graph, inner)
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


def _within(graph: Graph, node: Node) -> Iterator[Node]:
    """Yields the nodes of the bodies of a functional node, and of those within them."""
    for body in bodies_of(graph, node):
        for inner in body.nodes:
            yield inner
            if opdef.lookup(inner.op).effect is Effect.FUNCTION:
                yield from _within(graph, inner)


def _check_inside(graph: Graph, node: Node) -> None:
    """Raises CoordinationError unless a node of a body asks for nothing that comes from elsewhere."""
    effect = opdef.lookup(node.op).effect
    if effect not in _WHY:
        return
    resource = graph.resources.get(node.attrs.get("resource", ""))
    if effect is Effect.READ and isinstance(resource, HashTableDef) and not resource.mutable:
        return
    why, hint = _WHY[effect], _TRY
    if node.op == _READ:
        why = "reads a variable inside of a loop or branch, where its value does not come to"
        hint = "use the variable as a tensor, without read(): so it is read outside"
    message = f"several workers cannot share a step in which {node.op} {node.name!r} {why}"
    raise CoordinationError(message, where=node.where, hint=hint)


def _check_before(nodes: Sequence[Node], needed: Iterable[NodeId], commit: Node) -> None:
    """Raises CoordinationError for the first node that needs the update to have been made."""
    for i in needed:
        node = nodes[i]
        if commit.id in node.controls or any(port.node == commit.id for port in node.inputs):
            message = f"{node.name!r} needs the update {commit.name!r}, which the workers' steps come before"
            hint = "fetch it in a session of its own, after training"
            raise CoordinationError(message, where=node.where, hint=hint)
