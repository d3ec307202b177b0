"""The session over many processes: one StartPart a process and step, and one end for all of them.

`DistributedSession.run` is `Session.run`, wherever the nodes are. The session lives in one process, at home;
a runner (`dataflow.remote.runner`) in each process runs the parts. What the session says to them goes through
refs alone, so it does not know how they are reached.

What a session in one process has and this has not: it does not tell when a wait at a queue is in vain (a
deadline ends it), it reports no dump of what the other processes do, and it refuses, when it plans, atomic
blocks and optimizers that lie in several processes.
"""

from __future__ import annotations

import asyncio
import itertools
from asyncio import Future
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any
from weakref import WeakKeyDictionary

from actorflow.actors.system import ActorSystem
from actorflow.dataflow.engine.resources import InitialValue
from actorflow.dataflow.remote.part_step import PartStep
from actorflow.dataflow.remote.runner import Reach
from actorflow.dataflow.remote.step_messages import CloseSession, SessionProcess
from actorflow.errors import ActorflowError, ConfigError, PeerLost, SessionClosed
from actorflow.graph.graph import Graph
from actorflow.plan.passes.pass_table import ALL, check_passes
from actorflow.plan.placement.devices import process_of
from actorflow.plan.placement.placer import Placer, check_placer
from actorflow.plan.placement.state_placement import NOWHERE, State, check_names, check_state, place_state
from actorflow.session.backend import Key, SessionSteps
from actorflow.session.distributed_plan import DistributedPlan, Parts, check_processes, plan_processes
from actorflow.session.distributed_steps import DistributedStep, DistributedSteps, RunnerReports
from actorflow.session.plan_preparation import PlanPreparation, log_exception
from actorflow.session.session import Session
from actorflow.values.checks import at_least, seconds

_SESSIONS: WeakKeyDictionary[ActorSystem, Iterator[int]] = WeakKeyDictionary()


class DistributedBackend:
    """Runs the steps of a session over several processes; its arguments are `DistributedSession`'s.

    INVARIANT: an initial value that has been given was given to an incarnation that is there: the loss of
    that takes it out.

    Attributes:
        system: The actor system of the session's process.
        owns_system: Whether that is its own: never.
        address: Where runners report.
        home: The process in which the session lives.
        processes: All of them, in the incarnations that the session means.
        steps: Those that have begun.
        revision: Plans that may not be used any more are dropped, so it stays.
    """

    owns_system = False
    step_class = DistributedStep
    settles = True
    revision = 0

    def __init__(
        self,
        graph: Graph,
        system: ActorSystem,
        processes: Sequence[SessionProcess],
        reach: Reach,
        *,
        home: str | None,
        grace_s: float | None,
        passes: Sequence[str],
        placement: str | Placer,
        lower: bool,
        state: State,
    ) -> None:
        check_processes(processes)
        self._state = check_state(state, [d for p in processes for d in p.devices])
        self._graph = graph
        self.system = system
        self.home = processes[0].name if home is None else home
        self.processes = {p.name: p for p in processes}
        if self.home not in self.processes:
            message = f"home is one of the processes {', '.join(self.processes)}, got {self.home!r}"
            raise ConfigError(message)
        number = next(_SESSIONS.setdefault(system, itertools.count(1)))
        self.address = f"{self.home}/spread{number}.{self.processes[self.home].incarnation}"
        self.steps = DistributedSteps(system, self.address, reach, seconds(grace_s, "grace_s"))
        self._preparation = PlanPreparation(self.steps, self.address, self.processes, system)
        self._passes = check_passes(passes)
        self._placer = check_placer(placement)
        self._lower_all = lower
        self._plan_numbers = itertools.count(1)
        self._initial_values: dict[str, InitialValue] = {}
        self._computing: set[asyncio.Task[bool]] = set()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._graph!r} over {len(self.processes)} processes>"

    # -- life --------------------------------------------------------------------------------------

    async def enter(self, *, in_block: bool) -> None:
        """The actor system is open, and somebody else's."""

    def open(self, steps: SessionSteps) -> None:
        """Lets runners report."""
        self.steps.release = steps.release
        self._desk = self.system.spawn(RunnerReports, self.steps, name=self.address.partition("/")[2])

    async def close(self) -> None:
        """Waits until the processes have said that nothing runs any more, but not for ever."""
        self.steps.close(SessionClosed("the session was closed"))
        try:
            await self.steps.wait_settled()
            while self._computing:
                await asyncio.wait(self._computing)
            await self._preparation.wait_settled()
        finally:
            for name in self.processes:
                self.steps.tell(name, CloseSession(self.address))
                self.steps.put(name, CloseSession(self.address))  # behind a PreparePart on its way
            await self.system.stop(self._desk)

    async def leave(self, *error: Any) -> None:
        """The actor system is somebody else's."""

    def lost(self, process: str, error: ActorflowError) -> None:
        """Hears that a process is gone: what its variables had goes with it, and steps that need it end."""
        for name in [name for name in self._initial_values if self._home_of(name) == process]:
            del self._initial_values[name]
        self.steps.lost(process, error)

    # -- plans -------------------------------------------------------------------------------------

    def make_plan(self, key: Key) -> DistributedPlan:
        """Plans, and cuts the program into a part for each process."""
        home = self._home_of(key[2]) if key[2] else self.home
        check_names(self._state, self._graph.resources)
        return plan_processes(
            self._graph,
            key,
            next(self._plan_numbers),
            self.address,
            home,
            tuple(self.processes.values()),
            self._passes,
            self._state,
            self._placer,
            lower=self._lower_all,
        )

    def drop_plan(self, plan: DistributedPlan) -> None:
        """Lets every process let go of its part."""
        self._preparation.drop(plan)

    async def prepare(self, plan: DistributedPlan) -> None:
        """Returns once every process has installed its part."""
        await self._preparation.prepare(plan)

    def unprepared(self, plan: DistributedPlan) -> str:
        """Says which processes have not installed their parts; nothing once all have."""
        missing = ", ".join(name for name in plan.target.made.parts if name in plan.missing)
        return "" if plan.prepared else f"{missing} to prepare"

    # -- initial values ----------------------------------------------------------------------------

    def initial_value(self, name: str) -> InitialValue:
        """Returns what is known of the initial value of a variable, in the incarnation of its process."""
        return self._initial_values.setdefault(name, InitialValue(name))

    async def initialise(
        self, name: str, compute: Callable[[], Awaitable[tuple[list[Any], DistributedStep]]]
    ) -> Future[bool]:
        """Has the initial value of a variable computed where it lives, in a step that also gives it.

        In a task that nobody's cancellation ends: the variable may have the value before whoever runs the
        step hears of that, and then what the step took is used.
        """

        async def given() -> bool:
            _, step = await compute()
            return not step.refused

        task = self.system.loop.create_task(given(), name=f"first-{name}")
        self._computing.add(task)
        task.add_done_callback(self._computing.discard)
        task.add_done_callback(log_exception)
        return task

    def unready(self, _plan: DistributedPlan, _first: InitialValue | None) -> AbstractContextManager[None]:
        """Nobody counts who fills resources of other processes."""
        return nullcontext()

    async def missing(self) -> list[str]:
        """Returns the names of the variables that have no value now, in the order of the graph."""
        raise ConfigError(
            "a session over several processes does not know which variables have a value",
            hint="run the variable: UninitialisedError says that it has none",
        )

    def _home_of(self, name: str) -> str:
        """Returns the process where a variable is."""
        devices = [d for p in self.processes.values() for d in p.devices]
        process = process_of(place_state(self._graph.resources[name], devices, self._state))
        return next(p.name for p in self.processes.values() if process_of(p.devices[0]) == process)

    # -- steps -------------------------------------------------------------------------------------

    @property
    def begin(self) -> Callable[[Parts, DistributedStep, Sequence[Any]], None]:
        """Sends one StartPart to each process."""
        return self.steps.begin

    def settle(self, step: DistributedStep) -> None:
        """Tells the processes that what a step took is used."""
        self.steps.settle(step)

    def own_step(self, step: Any) -> DistributedStep | None:
        """Returns the live step of this session, of which some code runs a part in this process."""
        mine = isinstance(step, PartStep) and step.part.session == self.address
        return self.steps.live(step.number) if mine else None

    def count_producer(self, fills: Sequence[str]) -> None:
        """Nobody counts who fills resources of other processes."""

    def uncount_producer(self, fills: Sequence[str], failure: BaseException | None) -> None:
        """Nobody counts who fills resources of other processes."""

    def watch_admission(self) -> None:
        """Nobody tells whether steps that wait for others do so in vain: a deadline ends them."""

    # -- looking inside ----------------------------------------------------------------------------

    @property
    def transfers(self) -> int:
        """What went from one process to another in the steps that ended well."""
        return self.steps.transfers

    def counts(self) -> dict[str, int]:
        """Returns nothing: each process counts its own."""
        return {}

    def waits(self, step: DistributedStep, _plan: DistributedPlan) -> tuple[str, ...]:
        """Says which processes a step waits for."""
        return tuple(f"process {name}" for name in sorted(step.gathering.running))

    def left(self, step: DistributedStep) -> int:
        """Returns how many fetches of a step have not come: they come together."""
        return len(step.values)

    def kernel_seconds(self, _plans: Iterable[DistributedPlan]) -> dict[tuple[str, str], float]:
        """Returns nothing: each process measures its own."""
        return {}


class DistributedSession(Session):
    """Runs steps of one graph over several processes.

    Use as `async with DistributedSession(...) as session`, at home, while the runners are there.

    Args:
        graph: The graph, built alike in every process before the first step.
        system: The actor system of this process, open.
        processes: All processes, with their devices; the first device is the first for what has no scope.
        reach: Gives actors of any process by `process/actor`.
        home: The process in which this session lives: fetches lie there. By default the first.
        deadline_s: The longest that a step may take unless it says otherwise; None is no limit.
        max_steps: How many steps may run at once; further ones wait for their turn.
        grace_s: How long a step that ends otherwise than well waits for its processes to say so, and to give
            back what it took; None is no limit.
        initialise: Whether variables get their initial values by themselves.
        passes: Which passes make a program cheaper; see `Session`.
        placement: How nodes are placed that several devices could run, of whichever process; see `Session`.
        lower: Whether all loops, branches and calls run as nodes of their own; see `Session`.
        state: Devices of variables and other state that no scope places, by name; else at home.

    Raises:
        ConfigError: for a limit that is no number or would let nothing run, processes that are none, or a
            pass, placement or state that cannot be.
        PlacementError: for state on a device that no process has.
    """

    def __init__(
        self,
        graph: Graph,
        system: ActorSystem,
        processes: Sequence[SessionProcess],
        reach: Reach,
        *,
        home: str | None = None,
        deadline_s: float | None = None,
        max_steps: int = 64,
        grace_s: float | None = 1.0,
        initialise: bool = True,
        passes: Sequence[str] = ALL,
        placement: str | Placer = "first",
        lower: bool = False,
        state: State = NOWHERE,
    ) -> None:
        backend = DistributedBackend(
            graph,
            system,
            processes,
            reach,
            home=home,
            grace_s=grace_s,
            passes=passes,
            placement=placement,
            lower=lower,
            state=state,
        )
        self._processes = backend
        self._run_on(backend, graph, deadline_s, max_steps, initialise=initialise)

    @property
    def address(self) -> str:
        """Where runners report."""
        return self._processes.address

    @property
    def home(self) -> str:
        """The process in which it lives."""
        return self._processes.home

    async def wait_settled(self) -> None:
        """Waits until no step runs, what was aborted has ended everywhere, and what it took is back.

        A step that begins afterwards finds it there. A step that was aborted is waited for `grace_s` at most.
        """
        self.check_here()
        await self._processes.steps.wait_settled()

    def lost(self, process: str, error: ActorflowError) -> None:
        """Hears that a process is gone: steps that need it end with `error`, and so do later ones.

        Raises:
            ConfigError: the session has no such process.
        """
        self.check_here()
        self._check_process(process)
        self._processes.lost(process, error)

    def joined(self, process: str, incarnation: int) -> None:
        """Hears that a process is there, with this `incarnation`: plans are prepared anew.

        Of a process that is there in that incarnation already it is nothing new.

        Raises:
            ConfigError: the session has no such process, or knows of a later incarnation of it.
        """
        self.check_here()
        self._check_process(process)
        known = self._processes.processes[process]
        if at_least(0, "incarnation", incarnation) < known.incarnation:
            message = (
                f"{process!r} joins in its present life, {known.incarnation} or later, got {incarnation}"
            )
            raise ConfigError(message)
        if process not in self._processes.steps.gone:
            if incarnation == known.incarnation:
                return
            message = f"{process!r} began anew: incarnation {incarnation} after {known.incarnation}"
            self.lost(process, PeerLost(message))
        del self._processes.steps.gone[process]
        self._processes.processes[process] = replace(known, incarnation=incarnation)
        self._plans.clear()

    def _check_process(self, process: str) -> None:
        known = self._processes.processes
        if process not in known:
            message = f"the session runs on {', '.join(known)}, got {process!r}"
            raise ConfigError(message)
