"""A part of a program installed in the process that runs it, made from what a session says of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from actorflow.dataflow.engine.executor import Executor
from actorflow.dataflow.engine.node import NodeActor
from actorflow.dataflow.engine.partition import Partition
from actorflow.dataflow.remote.step_messages import Output, PreparePart
from actorflow.errors import PlacementError
from actorflow.graph.graph import Graph
from actorflow.graph.node import Port
from actorflow.plan.control.flatten import flatten
from actorflow.plan.lower import lower_unplaced
from actorflow.plan.partition.fingerprint import fingerprint
from actorflow.plan.partition.partition import Partitioning, partition_program
from actorflow.plan.placement.colocate import can_run
from actorflow.plan.placement.device_copies import with_copies
from actorflow.plan.placement.devices import process_of, within_process
from actorflow.plan.placement.placer import Moves, move_nodes
from actorflow.plan.placement.transfer_controls import TransferControls
from actorflow.plan.program import Edge, Program
from actorflow.plan.prune import prune


@dataclass(frozen=True, slots=True)
class InstalledPart:
    """A part that is ready to run.

    Attributes:
        session: Whose it is.
        fetches: How many fetches lie here.
        takes: Nodes that take what is used where this part does not see it, and the numbers of that.
        peers: Processes from which something comes, or to which something goes.
        initialises: The variable that gets its initial value here; empty for none.
    """

    session: str
    partition: Partition
    fetches: int
    takes: Mapping[NodeActor, int]
    peers: frozenset[str]
    initialises: str


def partition_of(
    program: Program, controls: TransferControls, names: Mapping[str, str], home: str
) -> Partitioning:
    """Returns the parts of a program by the names of processes.

    Args:
        program: The whole, without copies.
        controls: What its transfers wait for.
        names: The name of each process by how its devices call it, `/job:ps/task:0`.
        home: Where the fetches lie, by its name.
    """
    return partition_program(
        program, lambda device: names[process_of(device)], home, within_process, controls
    )


def install_part(prepare: PreparePart, process: str, graph: Graph, executor: Executor) -> InstalledPart:
    """Installs the part of a process.

    Raises:
        PlacementError: when this process means another program than the session, or cannot run its part.
    """
    names = {process_of(p.devices[0]): p.name for p in prepare.processes}
    ports = tuple(_port(graph, out, process) for out in (*prepare.fetches, *prepare.feeds))
    fetches, feeds = ports[: len(prepare.fetches)], ports[len(prepare.fetches) :]
    flat = flatten(graph, fetches, feeds, lower_all=prepare.lower)
    placed = {n.id: device for name, device in prepare.placement if (n := flat.graph.find(name)) is not None}
    if placed.keys() != {i for i in prune(*flat) if can_run(flat.graph.nodes[i])}:
        raise _other(process)
    program = lower_unplaced(*flat, placed, prepare.passes)
    moves = _moves(prepare)
    if not moves.fit(program):
        raise _other(process)
    program = move_nodes(program, moves)
    if fingerprint(program, graph) != prepare.digest:
        raise _other(process)
    made = partition_of(program, moves.transfer_controls, names, prepare.home)
    part = made.parts[process]
    named = executor.devices.names_for(node.device for node in part.program.nodes if node.device)
    for planned in part.program.nodes:
        if planned.device and planned.device not in named:
            message = f"process {process!r} has no device {planned.device!r}; it has {', '.join(named)}"
            raise PlacementError(message, where=planned.where, hint=executor.devices.hint)
    partition = executor.install(with_copies(part.program, named[0], part.transfer_controls))
    for i, numbers in part.consumed_takes.items():
        partition.nodes[i].spends = numbers
    return InstalledPart(
        session=prepare.session,
        partition=partition,
        fetches=len(part.fetches),
        takes={partition.nodes[i]: number for i, number in part.takes.items()},
        peers=frozenset(
            p
            for t in made.transfers
            if process in (t.source, t.destination)
            for p in (t.source, t.destination)
        )
        - {process},
        initialises=prepare.initialises if prepare.home == process else "",
    )


def describe_placement(moves: Moves) -> dict[str, tuple[Any, ...]]:
    """Returns what a placer has chosen as the fields of PreparePart that say so."""
    return {
        "moved": tuple(moves.devices.items()),
        "after": tuple(moves.after.items()),
        "controls": tuple(
            (edge.node, edge.output, device, c) for (edge, device), c in moves.transfer_controls.items()
        ),
    }


def _moves(prepare: PreparePart) -> Moves:
    controls = {(Edge(node, output), device): after for node, output, device, after in prepare.controls}
    return Moves(dict(prepare.moved), dict(prepare.after), controls)


def _port(graph: Graph, out: Output, process: str) -> Port:
    name, index = out
    node = graph.find(name)
    if node is None or index >= len(node.outputs):
        raise _other(process, f"{name}:{index}")
    return Port(node.id, index)


def _other(process: str, name: str = "") -> PlacementError:
    what = f", which has no {name!r}" if name else ""
    message = f"process {process!r} has built another graph than the session{what}"
    return PlacementError(message, hint="build the same graph everywhere, before the first step")
