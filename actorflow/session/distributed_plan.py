"""The plan of a session over several processes for some fetches and feeds: its parts, and who has them."""

from __future__ import annotations

from asyncio import Task
from collections.abc import Sequence
from dataclasses import dataclass, field

from actorflow.dataflow.remote.installed_part import describe_placement, partition_of
from actorflow.dataflow.remote.step_messages import PreparePart, SessionProcess
from actorflow.errors import ConfigError
from actorflow.graph.graph import Graph
from actorflow.plan.lower import plan_program
from actorflow.plan.partition.fingerprint import fingerprint
from actorflow.plan.partition.partition import Partitioning
from actorflow.plan.placement.devices import process_of
from actorflow.plan.placement.placer import Placer
from actorflow.plan.placement.state_placement import State
from actorflow.session.backend import Key, Plan


@dataclass(frozen=True, slots=True)
class Parts:
    """What the steps of a plan begin with.

    Attributes:
        number: The plan's, in its session.
        made: The part of each process, and what goes between them.
    """

    number: int
    made: Partitioning


@dataclass(slots=True, kw_only=True, eq=False)
class DistributedPlan(Plan):
    """A plan over several processes.

    Attributes:
        target: Its parts.
        prepare: What each process is told.
        prepared: Whether all its processes have installed their parts.
        preparing: On its way there.
        missing: Processes that have not said yet that they are prepared.
    """

    target: Parts
    prepare: PreparePart
    prepared: bool = False
    preparing: Task[None] | None = None
    missing: set[str] = field(default_factory=set)


def plan_processes(
    graph: Graph,
    key: Key,
    number: int,
    session: str,
    home: str,
    processes: Sequence[SessionProcess],
    passes: tuple[str, ...],
    state: State,
    placer: Placer,
    *,
    lower: bool,
) -> DistributedPlan:
    """Plans steps over processes.

    Args:
        graph: The graph.
        key: What is fetched and fed.
        number: The plan's, in its session.
        session: The address of the session.
        passes: Which passes make the program cheaper.
        home: The process where the fetches lie.
        processes: All, the one first that a node without a scope is for.
        state: Where state lives that no scope places.
        placer: Chooses where a node may be on several devices.
        lower: Whether all loops, branches and calls run as nodes of their own; see `plan.control.flatten`.

    Raises:
        FeedError: a placeholder is needed and not fed.
        PlacementError: a node fits no device, what has to stay in one process would not, or no order fits
            into memory.
    """
    fetches, feeds, initialises = key
    devices = tuple(d for p in processes for d in p.devices)
    host = next(p.devices[0] for p in processes if p.name == home)
    plan = plan_program(
        graph, fetches, feeds, devices, passes, placer=placer, host=host, state=state, lower_all=lower
    )
    program = plan.placed
    names = {process_of(p.devices[0]): p.name for p in processes}
    nodes = graph.nodes
    prepare = PreparePart(
        session=session,
        plan=number,
        first=0,
        fetches=tuple((nodes[p.node].name, p.index) for p in fetches),
        feeds=tuple((nodes[p.node].name, p.index) for p in feeds),
        placement=tuple((plan.graph.nodes[i].name, device) for i, device in plan.first.items()),
        home=home,
        processes=tuple(processes),
        passes=passes,
        digest=fingerprint(program, graph),
        initialises=initialises,
        lower=lower,
        **describe_placement(plan.moves),
    )
    return DistributedPlan(
        key=key,
        revision=0,
        feeds=tuple((nodes[k.node].name, nodes[k.node].outputs[k.index]) for k in feeds),
        fetches=len(program.fetches),
        hidden=program.hidden,
        messages=program.tokens,
        fills=(),
        uninitialised=program.variables,
        target=Parts(number, partition_of(program, plan.moves.transfer_controls, names, home)),
        prepare=prepare,
    )


def check_processes(processes: Sequence[SessionProcess]) -> None:
    """Raises ConfigError unless each of some processes has devices, and names of its own."""
    places = {process.name: {process_of(device) for device in process.devices} for process in processes}
    if not processes or any(len(found) != 1 for found in places.values()):
        message = f"a session runs on processes that have devices of one job and task, got {places}"
        raise ConfigError(message)
    if len({place for found in places.values() for place in found}) < len(processes):
        message = f"processes have different names and devices, got {places}"
        raise ConfigError(message)
