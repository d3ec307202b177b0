"""The session over many processes: one StartPart a process and step, and one end for all of them.

`DistributedSession.run` means what `Session.run` means, wherever the nodes are. The session lives in one
process, at home; a runner (`dataflow.remote.runner`) in each process runs the parts. What the session says to
them goes through refs alone, so it does not know how they are reached.

What `Session` has and this has not: it does not tell when a wait at a queue is in vain (a deadline ends
it), it reports no dump of what the other processes do, and it refuses, when it plans, atomic blocks
and optimizers that lie in several processes.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import Any, Self
from weakref import WeakKeyDictionary

from actorflow.actors.address import waiter_here
from actorflow.actors.system import ActorSystem
from actorflow.actors.waits import Blocked
from actorflow.dataflow.remote.part_step import PartStep
from actorflow.dataflow.remote.runner import Reach
from actorflow.dataflow.remote.step_messages import CloseSession, SessionProcess
from actorflow.dataflow.user.nested_steps import Group, Waiter, awaiting, step_here
from actorflow.errors import (
    ActorflowError,
    ConfigError,
    DeadlinePassed,
    PeerLost,
    SessionClosed,
    StepAborted,
)
from actorflow.graph.graph import Graph
from actorflow.graph.node import Port
from actorflow.plan.fetches import (
    build_result,
    check_count,
    feed_value,
    resolve_feed,
    resolve_fetches,
)
from actorflow.plan.passes.pass_table import ALL
from actorflow.plan.passes.pass_table import check_passes as checked_passes
from actorflow.plan.placement.devices import process_of
from actorflow.plan.placement.placer import Placer
from actorflow.plan.placement.placer import check_placer as checked_placement
from actorflow.plan.placement.state_placement import NOWHERE, State, check_names, check_state, place_state
from actorflow.runtime.name_hints import unknown_argument
from actorflow.session.admission import check_depth
from actorflow.session.distributed_initial_values import DistributedInitialValues
from actorflow.session.distributed_plan import DistributedPlan, Key, check_processes, plan_processes
from actorflow.session.distributed_plan_cache import DistributedPlanCache
from actorflow.session.distributed_steps import DistributedStep, DistributedSteps, RunnerReports
from actorflow.session.fetch_types import ARGUMENTS, with_run_types
from actorflow.session.stats import DistributedStats
from actorflow.values.checks import at_least, seconds

_SESSIONS: WeakKeyDictionary[ActorSystem, Iterator[int]] = WeakKeyDictionary()
_OPEN = "async with SpreadSession(...) as session: ..."


class _Line:
    """What a step waits for that is to be admitted: a node of the wait-for graph.

    Args:
        name: What reports call it.
        ahead: Gives the groups of steps of which one must end before.
    """

    def __init__(self, name: str, ahead: Callable[[], Sequence[Sequence[DistributedStep]]]) -> None:
        self.name = name
        self._ahead = ahead

    def blocked(self) -> Blocked[Any]:
        """Returns what it waits for: the end of one group."""
        return Blocked((), tuple(Group(self.name, tuple(steps)) for steps in self._ahead()))


class DistributedSession:
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
        check_processes(processes)
        self._state = check_state(state, [d for p in processes for d in p.devices])
        self.graph = graph
        self.home = processes[0].name if home is None else home
        self.deadline_s = seconds(deadline_s)
        self.max_steps = at_least(1, "max_steps", max_steps)
        self._system = system
        self._processes = {p.name: p for p in processes}
        if self.home not in self._processes:
            message = f"home is one of the processes {', '.join(self._processes)}, got {self.home!r}"
            raise ConfigError(message)
        number = next(_SESSIONS.setdefault(system, itertools.count(1)))
        self.address = f"{self.home}/spread{number}.{self._processes[self.home].incarnation}"
        self._steps = DistributedSteps(system, self.address, reach, seconds(grace_s, "grace_s"), self._grant)
        self._plans = DistributedPlanCache(self._plan, self._steps, self.address, self._processes, system)
        self._initialises = initialise
        self._passes = checked_passes(passes)
        self._placer = checked_placement(placement)
        self._lower_all = lower
        self._step_ids = itertools.count(1)
        self._admission: dict[asyncio.Future[None], int | None] = {}  # and which step runs each
        self._granted: dict[int, object] = {}  # who has the place of a step that runs it
        self._initial_values = DistributedInitialValues(
            system, graph.resources, self._home_of, self._compute_first, self._check_open
        )
        self._done = self._failed = self._transfers = 0
        self._open = False

    def __repr__(self) -> str:
        state = f"{self._steps.counted}/{self.max_steps} steps live" if self._open else "closed"
        return f"<DistributedSession of {self.graph!r} over {len(self._processes)} processes, {state}>"

    # -- life --------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        self._system.check_here()
        self._desk = self._system.spawn(RunnerReports, self._steps, name=self.address.partition("/")[2])
        self._open = True
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Aborts what runs everywhere, and waits until the processes have said so, but not for ever."""
        if not self._open:
            return
        self._system.check_here()
        self._open = False
        cause = SessionClosed("the session was closed")
        for waiting in self._admission:
            if not waiting.done():
                waiting.set_exception(cause.copy())
        aborted = StepAborted("a step was aborted: the session was closed")
        aborted.__cause__ = cause
        self._steps.close(cause)
        self._steps.abort(aborted)
        try:
            await self._steps.wait_settled()
            await self._initial_values.wait_settled()
            await self._plans.wait_settled()
        finally:
            for name in self._processes:
                self._steps.tell(name, CloseSession(self.address))
                self._steps.put(name, CloseSession(self.address))  # behind a PreparePart on its way
            await self._system.stop(self._desk)

    async def wait_settled(self) -> None:
        """Waits until no step runs, what was aborted has ended everywhere, and what it took is back.

        A step that begins afterwards finds it there. A step that was aborted is waited for `grace_s` at most.
        """
        self._system.check_here()
        await self._steps.wait_settled()

    def lost(self, process: str, error: ActorflowError) -> None:
        """Hears that a process is gone: steps that need it end with `error`, and so do later ones.

        Raises:
            ConfigError: the session has no such process.
        """
        self._system.check_here()
        self._check_process(process)
        self._initial_values.lost(process)
        self._steps.lost(process, error)

    def joined(self, process: str, incarnation: int) -> None:
        """Hears that a process is there, with this `incarnation`: plans are prepared anew.

        Of a process that is there in that incarnation already it is nothing new.

        Raises:
            ConfigError: the session has no such process, or knows of a later incarnation of it.
        """
        self._system.check_here()
        self._check_process(process)
        known = self._processes[process]
        if at_least(0, "incarnation", incarnation) < known.incarnation:
            message = (
                f"{process!r} joins in its present life, {known.incarnation} or later, got {incarnation}"
            )
            raise ConfigError(message)
        if process not in self._steps.gone:
            if incarnation == known.incarnation:
                return
            message = f"{process!r} began anew: incarnation {incarnation} after {known.incarnation}"
            self.lost(process, PeerLost(message))
        del self._steps.gone[process]
        self._processes[process] = replace(known, incarnation=incarnation)
        self._plans.clear()

    # -- running -----------------------------------------------------------------------------------

    @with_run_types
    async def run(
        self,
        fetches: Any,
        feeds: Mapping[Any, Any] | None = None,
        *,
        deadline_s: float | None = None,
        **unknown: Any,
    ) -> Any:
        """Runs one step and returns the fetched values in the structure of `fetches`; as `Session.run`.

        Raises:
            FeedError, FetchError, PlacementError: when they do not fit the graph or the processes; nothing
                ran.
            PeerLost: a process that the step needs is gone.
            DeadlinePassed: after `deadline_s`; says which processes and nodes it waited for.
            ActorflowError: the first error of the step, placed at its node and process.
        """
        self._check_open()  # first: a read may be added to the graph
        if unknown:
            raise unknown_argument("run", next(iter(unknown)), ARGUMENTS)
        ports, build = resolve_fetches(self.graph, fetches)
        feeds = feeds or {}
        keys = tuple(resolve_feed(self.graph, key) for key in feeds)
        return build_result(build, await self._step((ports, keys, ""), tuple(feeds.values()), deadline_s))

    def make_callable(
        self, fetches: Any, feeds: Sequence[Any] = (), *, deadline_s: float | None = None
    ) -> Callable[..., Awaitable[Any]]:
        """Returns `async call(*values)` that runs a step with the values fed in the order of `feeds`."""
        self._check_open()
        ports, build = resolve_fetches(self.graph, fetches)
        keys = tuple(resolve_feed(self.graph, key) for key in feeds)
        self._plans.get((ports, keys, ""))

        async def call(*values: Any) -> Any:
            check_count(values, len(keys))
            self._check_open()
            return build_result(build, await self._step((ports, keys, ""), values, deadline_s))

        return call

    async def _step(self, key: Key, values: Sequence[Any], deadline_s: float | None) -> list[Any]:
        """Runs one step, once its plan is prepared, its variables have values, and there is room."""
        waiter, runner, ticket = waiter_here(), self._runner(), object()
        try:
            with self._plans.wanting(key):
                plan, step = await self._begin(key, values, deadline_s, waiter, runner, ticket)
            if step is None:
                return []
            try:
                with awaiting(waiter, step):
                    found = await self._steps.result(step)
            except BaseException:
                self._failed += 1
                raise
        finally:
            if runner is not None and self._granted.get(runner) is ticket:
                del self._granted[runner]
                self._grant()
        self._done += 1
        self._transfers += len(plan.made.transfers)
        return found[: -plan.hidden] if plan.hidden else found

    async def _begin(
        self,
        key: Key,
        values: Sequence[Any],
        deadline_s: float | None,
        waiter: Any,
        runner: int | None,
        ticket: object,
    ) -> tuple[DistributedPlan, DistributedStep | None]:
        """Begins a step; there is none when nothing is fetched."""
        plan = self._plans.get(key)
        fed = [feed_value(name, spec, value) for (name, spec), value in zip(plan.feeds, values, strict=True)]
        deadline_s = self.deadline_s if deadline_s is None else seconds(deadline_s)
        if not plan.fetches:
            return plan, None
        step_id = next(self._step_ids)  # now: numbers are in the order of calls, however long these wait
        if not self._is_ready(plan):
            plan = await self._ready_within(key, deadline_s, waiter)
        since = self._system.now()
        line = _Line(f"admission of step {step_id}", partial(self._ahead, runner))
        try:
            await self._admit(deadline_s, runner, ticket, waiter, line)
            while not self._may_begin(plan):  # processes came and went
                self._grant()
                plan = await self._ready_within(key, deadline_s, waiter)
                await self._admit(deadline_s, runner, ticket, waiter, line)
            self._check_open()
            step = self._steps.begin(plan, step_id, fed, deadline_s, since)
            step.runner, step.ticket = runner, ticket
            self._grant()
        except BaseException:
            self._failed += 1
            self._grant()
            raise
        return plan, step

    async def _admit(
        self, deadline_s: float | None, runner: int | None, ticket: object, waiter: Any, line: _Line
    ) -> None:
        """Returns once there is room for one more step, which begins at once; first come, first served.

        Args:
            deadline_s: How long it may wait.
            runner: The step whose code runs it: its place is lent to one of those at a time.
            ticket: Who has that place, if it is this one.
            waiter: Whose handler or code runs it; None outside of those.
            line: What that waits for meanwhile.

        Raises:
            AskCycle: all that run wait for `waiter`.
        """
        if runner is not None and self._granted.get(runner) is ticket:
            return
        if self._running < self.max_steps and not self._admission:
            return
        if runner is not None and runner not in self._granted:
            self._granted[runner] = ticket
            return
        waiting = self._system.create_future()
        self._admission[waiting] = runner
        self._grant()
        try:
            with awaiting(None if waiting.done() else waiter, line):
                async with asyncio.timeout(deadline_s):
                    await waiting
        except BaseException as error:
            del self._admission[waiting]
            if runner is not None and self._granted.get(runner) is waiting:
                del self._granted[runner]
            self._grant()
            if not isinstance(error, TimeoutError):
                raise
            message = f"a step was not admitted within its deadline of {deadline_s:g} s; {self.max_steps} run"
            raise DeadlinePassed(message, hint="raise deadline_s or max_steps") from None
        del self._admission[waiting]
        if runner is not None and self._granted.get(runner) is waiting:
            self._granted[runner] = ticket

    def _ahead(self, runner: int | None) -> list[list[DistributedStep]]:
        """Returns groups of steps: once one has ended there is a place, for what `runner` runs or others."""
        live = self._steps.all_live()
        lent = {step.ticket: step for step in live if self._has_lent(step)}

        def with_lent(step: DistributedStep) -> list[DistributedStep]:
            found = [step]
            while (child := lent.get(self._granted.get(found[-1].number))) is not None:
                found.append(child)
            return found

        groups = [with_lent(step) for step in live if not step.is_first and not self._has_lent(step)]
        child = None if runner is None else lent.get(self._granted.get(runner))
        return groups if child is None else [*groups, with_lent(child)]

    def _has_lent(self, step: DistributedStep) -> bool:
        """Tells whether a step has the place of the one which runs it."""
        return step.runner is not None and self._granted.get(step.runner) is step.ticket

    @property
    def _running(self) -> int:
        """How many places are taken: that of a step which has lent it is taken by whoever has it."""
        lenders = [self._steps.live(runner) for runner in self._granted]
        return self._steps.counted - sum(each is not None and not each.is_first for each in lenders)

    def _grant(self) -> None:
        """Grants what room there is to those who wait, and the place of a step to those that it runs."""
        granted = sum(
            w.done() and self._granted.get(-1 if runner is None else runner) is not w
            for w, runner in self._admission.items()
        )
        free = self.max_steps - self._running - granted
        for waiting, runner in tuple(self._admission.items()):
            if waiting.done():
                continue
            if free > 0:
                free -= 1
            elif runner is not None and runner not in self._granted:
                self._granted[runner] = waiting
            else:
                continue
            waiting.set_result(None)

    def _runner(self) -> int | None:
        """Returns the number of the live step of this session whose code runs one here.

        Raises:
            AskCycle: steps of this session would be nested too deep.
        """
        part = step_here()
        mine = isinstance(part, PartStep) and part.part.session == self.address
        ring: list[int] = []
        number = part.number if mine else None
        while (step := self._steps.live(number)) is not None:
            ring.append(step.number)
            number = step.runner
        check_depth(ring)
        return ring[0] if ring else None

    # -- plans and initial values --------------------------------------------------------------------

    def _plan(self, key: Key, number: int) -> DistributedPlan:
        home = self._home_of(key[2]) if key[2] else self.home
        processes = tuple(self._processes.values())
        check_names(self._state, self.graph.resources)
        return plan_processes(
            self.graph,
            key,
            number,
            self.address,
            home,
            processes,
            self._passes,
            self._state,
            self._placer,
            lower=self._lower_all,
        )

    def _may_begin(self, plan: DistributedPlan) -> bool:
        """Tells whether a step of a plan may begin now; whoever has waited since asks again."""
        return self._plans.holds(plan) and self._is_ready(plan)

    def _is_ready(self, plan: DistributedPlan) -> bool:
        return plan.prepared and (not self._initialises or plan.variables <= self._initial_values.given)

    async def _ready_within(self, key: Key, deadline_s: float | None, waiter: Any) -> DistributedPlan:
        """Returns a plan whose steps may begin, unless processes came and went, within a deadline."""
        self._check_open()
        plan = self._plans.get(key)
        try:
            async with asyncio.timeout(deadline_s):
                await self._plans.prepare(plan)
                if self._initialises:
                    await self._initial_values.give(plan.variables, waiter)
        except TimeoutError:
            parts = ", ".join(name for name in plan.made.parts if name in plan.missing)
            left = ", ".join(repr(n) for n in sorted(plan.variables - self._initial_values.given))
            what = f"{left} to be initialised" if plan.prepared else f"{parts} to prepare"
            message = f"a step did not begin within its deadline of {deadline_s:g} s; it waits for {what}"
            raise DeadlinePassed(message, hint="raise deadline_s for the first step") from None
        return plan

    async def initialise(self, names: Iterable[str]) -> None:
        """Gives variables their initial values where they live, unless they have them."""
        self._check_open()
        await self._initial_values.give(names, waiter_here())

    async def _compute_first(self, name: str, initial: Port, first: Waiter) -> None:
        """Computes an initial value in a step of its own, and gives it to the variable."""
        key = ((initial,), (), name)
        with self._plans.wanting(key):
            plan = await self._ready_within(key, None, first)
            while not self._may_begin(plan):
                plan = await self._ready_within(key, None, first)
            self._check_open()
            step = self._steps.begin(plan, 0, (), self.deadline_s, self._system.now())
        with awaiting(first, step):
            await self._steps.result(step)

    def _home_of(self, name: str) -> str:
        """Returns the process where a variable is."""
        devices = [d for p in self._processes.values() for d in p.devices]
        process = process_of(place_state(self.graph.resources[name], devices, self._state))
        return next(p.name for p in self._processes.values() if process_of(p.devices[0]) == process)

    def _check_process(self, process: str) -> None:
        if process not in self._processes:
            message = f"the session runs on {', '.join(self._processes)}, got {process!r}"
            raise ConfigError(message)

    def _check_open(self) -> None:
        if not self._open:
            raise SessionClosed("the session is not open", hint=_OPEN)
        self._system.check_here()

    def stats(self) -> DistributedStats:
        """Returns what the session has done."""
        if not self._open:
            raise SessionClosed("the session is not open", hint=_OPEN)
        return DistributedStats(
            steps=self._done,
            failed=self._failed,
            transfers=self._transfers,
            live=self._steps.counted,
            peak_live=self._steps.peak,
            waiting=len(self._admission),
            plans=len(self._plans),
        )
