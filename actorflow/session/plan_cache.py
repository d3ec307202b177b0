"""The plans of a session, by what is fetched and fed: installed once, dropped when there are many."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from weakref import WeakValueDictionary

from actorflow.dataflow.engine.executor import Executor
from actorflow.dataflow.engine.partition import Partition
from actorflow.errors import GrowingGraph, PlacementError
from actorflow.graph.graph import Graph
from actorflow.graph.node import Port
from actorflow.plan.feeds_queues import fed_resources
from actorflow.plan.growth_warning import GrowthWarning
from actorflow.plan.lower import lower
from actorflow.plan.placement.placer import Placer, name_devices
from actorflow.plan.program import Program
from actorflow.plan.structure_key import structure_key
from actorflow.runtime.call_site import users_level
from actorflow.values.spec import Spec

_MAX_PLANS = 256

Key = tuple[tuple[Port, ...], tuple[Port, ...]]
"""The ports that are fetched, and those that are fed."""


@dataclass(slots=True)
class InstalledPlan:
    """A program installed for one set of fetches and feeds.

    Attributes:
        key: What is fetched and fed.
        resets: How often shared state had been dropped by then: its nodes know whom they ask.
        partition: Its actors.
        feeds: Name and spec of what is fed.
        fetches: How many values come.
        hidden: How many of the fetches, the last ones, nobody asked for.
        tokens: How many go along its edges in a step.
        fills: Resources that its steps put something into.
        uninitialised: Variables that it touches and that may have no value yet.
    """

    key: Key
    resets: int
    partition: Partition
    feeds: tuple[tuple[str, Spec], ...]
    fetches: int
    hidden: int
    tokens: int
    fills: tuple[str, ...]
    uninitialised: frozenset[str]


class PlanCache:
    """The plans of one session.

    INVARIANT: there are at most `_MAX_PLANS`; the oldest is made again when it is asked for again.

    Args:
        graph: The session's.
        passes: Which make programs cheaper.
        placer: Where nodes go.
        lower_all: Whether all loops, branches and calls run as nodes of their own.
        initialises: Whether variables get their initial values by themselves.

    Attributes:
        known: Those there are; one may have been made before shared state was dropped.
    """

    def __init__(
        self, graph: Graph, passes: Sequence[str], placer: Placer, *, lower_all: bool, initialises: bool
    ) -> None:
        self.known: dict[Key, InstalledPlan] = {}
        self._graph = graph
        self._passes = passes
        self._placer = placer
        self._lower_all = lower_all
        self._initialises = initialises
        self._partitions: WeakValueDictionary[tuple[int, Hashable], Partition] = WeakValueDictionary()
        self._growth = GrowthWarning()

    def __repr__(self) -> str:
        return f"<PlanCache {len(self.known)}/{_MAX_PLANS}, {len(self._partitions)} programs installed>"

    @property
    def installed(self) -> int:
        """How many programs are installed: plans of programs that do the same share one."""
        return len(self._partitions)

    def plan(self, executor: Executor, ports: tuple[Port, ...], keys: tuple[Port, ...]) -> InstalledPlan:
        """Returns the installed plan for these fetches and feeds, from the cache when it is there.

        Args:
            executor: What runs it.
            ports: What is fetched.
            keys: What is fed.
        """
        resets = executor.resources.resets
        plan = self.known.get((ports, keys))
        if plan is not None and plan.resets == resets:
            return plan
        try:
            devices = executor.devices.names_for(name_devices(self._graph))
            program = lower(
                self._graph,
                ports,
                keys,
                devices,
                self._passes,
                placer=self._placer,
                lower_all=self._lower_all,
            )
        except PlacementError as error:
            if error.hint is None:
                error.hint = executor.devices.hint
            raise
        partition = self._install(executor, program, resets)
        nodes = self._graph.nodes
        if len(self.known) >= _MAX_PLANS:
            del self.known[next(iter(self.known))]
        plan = self.known[ports, keys] = InstalledPlan(
            key=(ports, keys),
            resets=resets,
            partition=partition,
            feeds=tuple((nodes[k.node].name, nodes[k.node].outputs[k.index]) for k in keys),
            fetches=len(program.fetches),
            hidden=program.hidden,
            tokens=program.tokens,
            fills=fed_resources(program.nodes),
            uninitialised=program.variables if self._initialises else frozenset(),
        )
        self._warn_of_growth(ports)
        return plan

    def _install(self, executor: Executor, program: Program, resets: int) -> Partition:
        """Returns a program as actors: those of one that does the same, if a plan still has them.

        For a program of 152 nodes that takes 0.5 ms, and to install it once more 1.2.
        """
        key = (resets, structure_key(program))
        partition = self._partitions.get(key)
        if partition is None:
            partition = self._partitions[key] = executor.install(program)
        return partition

    def _warn_of_growth(self, ports: Sequence[Port]) -> None:
        """Warns once when what is fetched is built anew with every step."""
        nodes = self._graph.nodes
        built = [nodes[port.node] for port in ports]
        lines = tuple((n.defined_at, n.op, n.attrs.get("resource")) for n in built)
        count = self._growth.count_plan(lines, len(nodes))
        if count:
            where = ", ".join(dict.fromkeys(n.defined_at for n in built))
            message = (
                f"the graph grows with every step: what {where} builds has been planned {count} times, and "
                f"it has {len(nodes)} nodes by now. Build once, outside of the loop, and feed what changes"
            )
            warnings.warn(GrowingGraph(message), stacklevel=users_level())

    def kernel_seconds(self) -> dict[tuple[str, str], float]:
        """Returns what kernels take by what was measured, by node and device."""
        return {at: s for plan in self.known.values() for at, s in plan.partition.kernel_seconds().items()}
