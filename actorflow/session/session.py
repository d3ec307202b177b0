"""The session: runs steps of a graph, many at a time, and owns the state that they share."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Self
from weakref import WeakKeyDictionary

from actorflow.actors import timer_wheel
from actorflow.actors.address import tick, waiter_here
from actorflow.actors.system import STOP_S, ActorSystem
from actorflow.actors.task_carrier import HANDLING
from actorflow.actors.wait_rings import open_rings
from actorflow.dataflow.engine.executor import Executor
from actorflow.dataflow.engine.resources import InitialConstant, Resources
from actorflow.dataflow.engine.step import Step
from actorflow.dataflow.state.register import Source
from actorflow.dataflow.state.starvation_detector import Producers
from actorflow.dataflow.user.nested_steps import Await, Code, Group, step_asking
from actorflow.errors import ConfigError, FeedError, SessionClosed, StepAborted, Where
from actorflow.graph.builder import Tensor
from actorflow.graph.graph import Graph
from actorflow.graph.node import Port
from actorflow.kernels.device.devices import check_devices
from actorflow.plan.fetches import build_result, check_count, feed_value, only, resolve_feed, resolve_fetches
from actorflow.plan.passes.pass_table import ALL, check_passes
from actorflow.plan.placement.placer import Placer, check_placer
from actorflow.runtime import dump_on_signal, input_waits
from actorflow.runtime.affinity import Affinity, affinity_here
from actorflow.runtime.call_site import users_line
from actorflow.runtime.name_hints import unknown_argument
from actorflow.runtime.tag import StepId
from actorflow.session.admission import Admission
from actorflow.session.admission_watch import AdmissionWatch
from actorflow.session.blocking import BlockingSession
from actorflow.session.fetch_types import ARGUMENTS, with_run_types
from actorflow.session.initial_values import InitialValues
from actorflow.session.plan_cache import InstalledPlan, PlanCache
from actorflow.session.stats import SessionDump, SessionStats, StepEntry
from actorflow.session.waits import StepWaits, runner_of, step_around
from actorflow.values.checks import at_least, seconds

# Sessions are numbered in their system, so that a run repeated in one process has the same names.
_SESSIONS: WeakKeyDictionary[ActorSystem, Iterator[int]] = WeakKeyDictionary()
_OPEN = "async with af.Session(graph) as session: ..."


class Session:
    """Runs steps of one graph in this process.

    Use as `async with Session(graph) as session`; over the cells of a notebook as
    `session = await Session(graph).open()` and `await session.close()`; in a script without `await` as
    `with Session(graph) as session`, a `BlockingSession`. Variables live as long as the session; those
    with an initial value get it before the first step that touches them.

    Args:
        graph: The graph; it may grow while the session is open.
        system: The actor system to live in; by default the session makes and closes its own.
        deadline_s: The longest that a step may take unless it says otherwise; None is no limit.
        max_steps: How many steps may run at once; further ones wait for their turn. A step that code of
            another one runs has that one's place, if there is no other.
        max_messages: What the mailbox of a variable, queue or optimizer holds; who comes later waits.
        threads: Worker threads for slow kernels; by default one for each processor.
        initialise: Whether variables get their initial values by themselves.
        devices: Devices beside the host `/cpu:0`: `/cpu:1` is another pool of threads. Cards are
            not listed: `/gpu:0` is opened when the graph names it.
        passes: Which passes make a program cheaper before it runs: "simplify", "fold", "cse",
            "sweep", by default all; `()` runs the graph as it was built. Values are the same bits.
        placement: How nodes are placed that several devices could run: "first", on the first of them,
            "greedy", where each would end first, or "list", so that a step should take least; or a
            `plan.placement.placer.Placer`. Values are the same bits on devices of one kind.
        lower: Whether all loops, branches and calls run as nodes of their own that do not say otherwise,
            and not only those that have to. Values are the same bits.
        starvation_s: How long a step may wait at a queue, barrier or accumulator that nobody would
            fill; then it fails with QueueStarved. None lets it wait for ever.
        stop_s: How long an actor of its own system may take to stop when the session is closed, 60 unless
            that is said; then it is abandoned, see `ActorSystem`.

    Raises:
        ConfigError: for a limit that is no number or would let nothing run, or a device, pass or
            placement that cannot be.
    """

    # More than the 30 attributes that share keys: as entries of a dict they cost a step 0.8 µs.
    __slots__ = (
        "__weakref__", "_admission", "_affinity", "_blocking", "_closing", "_device_names", "_devices",
        "_executor", "_failed", "_first", "_initial_values", "_in_block", "_live", "_loop", "_max_messages",
        "_messages", "_open", "_own_system", "_peak", "_plans", "_resources", "_starvation_s",
        "_step_ids", "_steps", "_steps_waits", "_thread", "_threads", "_waiting", "_watch",
        "deadline_s", "graph", "max_steps", "producers", "system",
    )  # fmt: skip

    def __init__(
        self,
        graph: Graph,
        *,
        system: ActorSystem | None = None,
        deadline_s: float | None = None,
        max_steps: int = 64,
        max_messages: int = 1024,
        threads: int | None = None,
        initialise: bool = True,
        devices: Sequence[str] = (),
        passes: Sequence[str] = ALL,
        placement: str | Placer = "first",
        lower: bool = False,
        starvation_s: float | None = 60.0,
        stop_s: float | None = None,
    ) -> None:
        stop_s = seconds(stop_s, "stop_s")
        if stop_s is not None and system is not None:
            message = f"stop_s is the system's where a system is given, got stop_s={stop_s:g} beside it"
            raise ConfigError(message, hint="say it where the system is made: af.ActorSystem(stop_s=...)")
        self.graph = graph
        self.deadline_s = seconds(deadline_s)
        self.max_steps = at_least(1, "max_steps", max_steps)
        self._max_messages = at_least(1, "max_messages", max_messages)
        self._own_system = system is None
        own = STOP_S if stop_s is None else stop_s
        self.system = ActorSystem(name="session", stop_s=own) if system is None else system
        self._device_names = check_devices(devices)
        self._plans = PlanCache(
            graph, check_passes(passes), check_placer(placement), lower_all=lower, initialises=initialise
        )
        self._starvation_s = seconds(starvation_s, "starvation_s")
        self._threads = (os.cpu_count() or 1) if threads is None else at_least(0, "threads", threads)
        self._loop: Any = None  # the event loop, once it is open
        self._affinity: Affinity | None = None
        self._open = False
        self._in_block = True
        self._closing: asyncio.Task[None] | None = None
        self._step_ids = itertools.count(1)
        self._admission: Admission[Step] = Admission(self.max_steps)
        self._live: dict[Step, InstalledPlan] = {}
        self._first: dict[Step, tuple[InstalledPlan, InitialConstant]] = {}  # which compute initial values
        self._waiting: dict[Step, tuple[InstalledPlan, Sequence[Any]]] = {}
        self._steps_waits = StepWaits(self._live, self._first, self._waiting)
        self._peak = self._steps = self._failed = self._messages = 0

    def __repr__(self) -> str:
        live = f"{len(self._live)}/{self.max_steps} steps live (peak {self._peak})"
        return f"<Session of {self.graph!r}, {live if self._open else 'closed'}>"

    # -- life --------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        return await self._begin(self.system.__aenter__)

    def __enter__(self) -> BlockingSession:
        if not self._own_system:
            message = "`with` runs a session on a thread of its own, and its system is of another event loop"
            raise ConfigError(message, hint="async with af.Session(graph, system=system) as session: ...")
        self._blocking = BlockingSession(self)
        return self._blocking.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._blocking.__exit__(kind, error, trace)

    async def open(self) -> Self:
        """Opens it for code of many tasks, such as the cells of a notebook; `close` ends it.

        Raises:
            SessionClosed: it has been open before.
        """
        self._in_block = False
        return await self._begin(self.system.open)

    async def _begin(self, open_system: Callable[[], Awaitable[ActorSystem]]) -> Self:
        if self._loop is not None:
            raise SessionClosed("a session opens once", hint="make a new one: af.Session(graph)")
        system = self.system
        if self._own_system:
            await open_system()
        system.check_here()  # raises also when a system of the user's is not open
        self._loop = asyncio.get_running_loop()
        self._affinity = affinity_here("the session")
        self._thread = self._affinity.thread
        source = Source(f"session{next(_SESSIONS.setdefault(system, itertools.count(1)))}")
        self.producers = Producers(system.now, self._steps_waits.look, self.max_steps)
        self._steps_waits.open(self.producers, self.max_steps)
        self._executor = Executor(
            self.graph,
            system,
            source,
            devices=self._device_names,
            threads=self._threads,
            max_messages=self._max_messages,
            producers=self.producers,
            starvation_s=self._starvation_s,
        )
        waits, after = self._steps_waits, system.timer_wheel.after
        seen, waiting = lambda: waits.waiting_steps((self._steps, self._failed)), lambda: bool(self._waiting)
        self._watch = AdmissionWatch(self._starvation_s, system.now, after, seen, waiting, waits.refuse)
        self._devices = self._executor.devices
        self._resources = self._executor.resources
        self._initial_values = InitialValues(
            self.graph, self._resources, self._first_value, system.create_future
        )
        self._open = True
        dump_on_signal.register(self, within=system)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.check_here()
        try:
            await self.close()
        finally:
            if self._own_system:
                await self.system.__aexit__(kind, error, trace)

    async def close(self) -> None:
        """Aborts the steps that run, stops the actors and threads; closing twice is harmless.

        What `open` opened ends wholly, its own actor system too.

        It waits for kernels that run on a thread. A cancellation waits until all is closed.
        """
        if self._loop is None:
            return
        self.check_here()
        if self._closing is None:
            self._closing = self._loop.create_task(self._close(), name="actorflow-session-close")
        cancelled = None
        while not self._closing.done():
            try:
                await asyncio.shield(self._closing)
            except asyncio.CancelledError as error:
                cancelled = error
        self._closing.result()
        if cancelled is not None:
            raise cancelled

    async def _close(self) -> None:
        self._open = False
        dump_on_signal.unregister(self)
        cause = SessionClosed("the session was closed")
        for step in (*self._live, *self._first, *self._waiting):
            aborted = StepAborted(
                f"step {step.id} was aborted: the session was closed", where=Where(step=step.id)
            )
            aborted.__cause__ = cause
            step.abort(aborted)
        await self._executor.close()
        if self._own_system and not self._in_block:
            await self.system.close()
        assert self._affinity is not None
        self._affinity.ended = True

    async def uninitialised(self) -> list[str]:
        """Returns the names of the variables that have no value now, in the order of the graph.

        One with an initial value is among them until a step has touched it.
        """
        self._check_open()
        return await self._initial_values.missing()

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
        """Runs one step and returns the fetched values in the structure of `fetches`.

        Args:
            fetches: A tensor or variable, its name, or tuples, lists and dicts of them.
            feeds: Values by tensor, or by the name of a placeholder. An array of the right dtype is
                not copied: leave it alone until the step has ended.
            deadline_s: The longest that the step may take; by default the session's.
            **unknown: Refused, with the name that is meant.

        Returns:
            Arrays. Those that variables hold are read-only.

        Raises:
            FeedError, FetchError: when they do not fit the graph; nothing ran.
            UnknownArgument: for an argument that there is not.
            ConfigError: when `deadline_s` is no number above 0.
            SessionClosed: when the session is not open.
            WrongLoop: in another thread or event loop than that in which it was opened.
            AskCycle: steps run steps of this session too deep.
            ActorflowError: the first error of the step, placed at its node. Everything else of the
                step was dropped; no training update of it was applied, or all of its group were.
            DeadlinePassed: after `deadline_s`.
        """
        if unknown:
            self._check_open()
            raise unknown_argument("run", next(iter(unknown)), ARGUMENTS)
        graph = self.graph
        ports: tuple[Port, ...]
        build: Callable[[Sequence[Any]], Any]
        if type(fetches) is Tensor and fetches.graph is graph:
            ports, build = (fetches.port,), only  # looked at when it is planned: -0.6 µs
        else:
            self._check_open()  # first: a read may be added to the graph
            ports, build = resolve_fetches(graph, fetches)
        feeds = feeds or {}
        try:
            keys = tuple(
                k.port if type(k) is Tensor and k.graph is graph else resolve_feed(graph, k) for k in feeds
            )
        except FeedError:
            self._check_open()
            raise
        plan = self._plans.known.get((ports, keys))
        if plan is None:
            self._check_open()
            ports, build = resolve_fetches(graph, fetches)
            plan = self._plan(ports, keys)
        return build_result(build, await self._step(plan, tuple(feeds.values()), deadline_s))

    def make_callable(
        self, fetches: Any, feeds: Sequence[Any] = (), *, deadline_s: float | None = None
    ) -> Callable[..., Awaitable[Any]]:
        """Returns `async call(*values)` that runs a step with the values fed in the order of `feeds`.

        Fetches and feeds are looked up once, here.
        """
        self._check_open()
        ports, build = resolve_fetches(self.graph, fetches)
        keys = tuple(resolve_feed(self.graph, key) for key in feeds)
        plan = self._plan(ports, keys)

        async def call(*values: Any) -> Any:
            check_count(values, len(keys))
            return build_result(build, await self._step(plan, values, deadline_s))

        return call

    async def _step(self, plan: InstalledPlan, values: Sequence[Any], deadline_s: float | None) -> list[Any]:
        """Runs one step of an installed plan."""
        if not self._open or not self._thread._is_owned() or not self._loop.is_running():  # see `affinity`
            self._check_open()
        since = self.system.now()
        fed = [feed_value(name, spec, value) for (name, spec), value in zip(plan.feeds, values, strict=True)]
        deadline_s = self.deadline_s if deadline_s is None else seconds(deadline_s)
        if not plan.fetches:
            return []
        step_id = StepId(next(self._step_ids))  # ORDER: in that of calls, however long these wait
        if plan.resets != self._resources.resets:
            plan = self._plan(*plan.key)
        waiter = None if HANDLING.get() is None else waiter_here()
        while plan.uninitialised:
            with self._steps_waits.unready(plan.fills, self._initial_values.of(plan.uninitialised)):
                await self._initial_values.give_within(plan.uninitialised, deadline_s, waiter)
            plan.uninitialised = frozenset()
            self._check_open()
            if plan.resets != self._resources.resets:
                plan = self._plan(*plan.key)
        step = Step(step_id, plan.fetches, self.system.create_future(), deadline_s, since)
        if waiter is not None:
            step.parent = step_around(self._admission.live)
            if step.parent is None and self._admission.taken >= self.max_steps:
                await tick()  # of a handler in its first step nobody knows yet what it works on
                step.parent = step_asking()
                self._check_open()
            return await self._run_for(waiter, plan, fed, step)
        return await self._run_step(plan, fed, step)

    async def _run_for(self, waiter: Any, plan: InstalledPlan, fed: Sequence[Any], step: Step) -> list[Any]:
        """Runs a step for which a handler waits, or code of the user, or an initial value."""
        edge = Await(waiter, step)
        edge.begin()
        try:
            return await self._run_step(plan, fed, step, edge)
        finally:
            edge.end()

    async def _run_step(
        self, plan: InstalledPlan, fed: Sequence[Any], step: Step, edge: Await | None = None
    ) -> list[Any]:
        """Runs a step to its end, after those that were there before it when too many run.

        Initialising steps (of id 0) neither wait nor count: others may wait for them.
        `edge` says who waits for it, where that is a node of the wait-for graph; of id 0 it is an initial
        value.
        """
        step_id = step.id
        if step.deadline_s is not None:
            step.waits = plan.partition.waits
            self.system.timer_wheel.add(step.since + step.deadline_s, step)
        fills, failure = plan.fills, None
        if fills:
            self.producers.enter(fills)
        try:
            if not step_id:
                assert edge is not None
                self._first[step] = plan, edge.waiter
                self._admission.free(step)
                self._executor.start(plan.partition, step, fed)
            elif self._admission.ask(
                step, None if step.parent is None else runner_of(step, self._admission.live)
            ):
                self._begin_step(step, plan, fed)
            else:
                self._wait_for_admission(step, plan, fed, edge)
            values = await step.future
        except BaseException as error:
            self._failed += bool(step_id)
            failure = error
            if isinstance(error, asyncio.CancelledError) or not step.future.done():
                step.cancel()
            step.forget()
            raise
        finally:
            if step.bucket is not None:
                timer_wheel.remove(step)
            if self._live.pop(step, None) is None:
                self._waiting.pop(step, None)
                self._first.pop(step, None)
            step.parent = step.ahead = None
            if begun := self._admission.end(step):
                self._let_in(begun)
            if fills:
                self.producers.leave(fills, failure)
            failure = None  # it holds this frame
        self._steps += bool(step_id)
        self._messages += plan.tokens
        return values[: -plan.hidden] if plan.hidden else values

    def _wait_for_admission(
        self, step: Step, plan: InstalledPlan, fed: Sequence[Any], edge: Await | None
    ) -> None:
        """Has a step wait; raises AskCycle where all that run wait for whoever runs it, by `edge`."""
        self._waiting[step] = (plan, fed)
        name = f"admission of {step.name}"
        step.ahead = lambda: [Group(name, tuple(steps)) for steps in self._admission.ahead(step)]
        self._watch.begin()
        if edge is not None:
            open_rings(edge)

    def _begin_step(self, step: Step, plan: InstalledPlan, fed: Sequence[Any]) -> None:
        self._live[step] = plan
        if len(self._live) > self._peak:
            self._peak = len(self._live)
        self._executor.start(plan.partition, step, fed)

    def _let_in(self, steps: Sequence[Step]) -> None:
        """Begins steps that have waited; one that was cancelled meanwhile gives its place back itself."""
        for step in steps:
            plan, fed = self._waiting.pop(step)
            step.ahead = None
            if not step.future.done():
                self._begin_step(step, plan, fed)

    # -- plans and state ---------------------------------------------------------------------------

    def _plan(self, ports: tuple[Port, ...], keys: tuple[Port, ...]) -> InstalledPlan:
        """Returns the installed plan for these fetches and feeds."""
        self._check_open()
        return self._plans.plan(self._executor, ports, keys)

    async def _first_value(self, initial: Port, first: InitialConstant) -> tuple[Any, Step]:
        """Computes the initial value of a variable, in a step of its own; returns that as well."""
        plan = self._plan((initial,), ())
        if plan.uninitialised:
            with self._steps_waits.unready(
                (*plan.fills, first.name), self._initial_values.of(plan.uninitialised)
            ):
                await self._initial_values.give(plan.uninitialised, first)
            plan.uninitialised = frozenset()
        self._check_open()
        step = Step(StepId(0), plan.fetches, self.system.create_future(), self.deadline_s, self.system.now())
        (value,) = await self._run_for(first, plan, (), step)
        return value, step

    def _check_open(self) -> None:
        if not self._open:
            raise SessionClosed("the session is not open", hint=_OPEN)
        self.check_here()

    def check_here(self) -> None:
        """Raises WrongLoop in another thread or event loop than that in which the session was opened.

        Before it is opened, and once it is closed, all may call: nothing is there that it could harm.
        """
        if self._affinity is not None:
            self._affinity.check()

    @property
    def feeding(self) -> dict[Code, Sequence[str]]:
        """What feeds queues beside the steps, and which."""
        return self._steps_waits.feeding

    @property
    def is_open(self) -> bool:
        """Whether it runs steps."""
        return self._open

    @property
    def resources(self) -> Resources:
        """The actors of its state, for code that asks them without a step."""
        self._check_open()
        return self._resources

    # -- looking inside ----------------------------------------------------------------------------

    def dump(self) -> SessionDump:
        """Returns the steps that run, the input that somebody waits for, and the actors of the system.

        `str()` of it is a report; the fields are data.
        """
        if self._loop is None:
            raise SessionClosed("the session has not been opened", hint=_OPEN)
        now = self.system.clock.now()
        steps = tuple(
            StepEntry(step.id, step.left, now - step.since, tuple(plan.partition.waits(step)))
            for step, plan in self._steps_waits.running()
        )
        inputs = input_waits.waits(self._loop, users_line)
        return SessionDump(steps, self.max_steps, len(self._waiting), self.system.dump(), inputs)

    def kernel_seconds(self) -> dict[tuple[str, str], float]:
        """Returns what kernels take as measured, by node and device: for `CostModel.with_measurements`.

        Only those are measured that may be slow: of unknown or of large sizes, and on the host's devices.
        """
        return self._plans.kernel_seconds()

    def stats(self) -> SessionStats:
        """Returns what the session has done."""
        if self._loop is None:
            raise SessionClosed("the session has not been opened", hint=_OPEN)
        return SessionStats(
            steps=self._steps,
            failed=self._failed,
            firings=self.system.dispatch.turns,
            messages=self._messages,
            live=len(self._live),
            peak_live=self._peak,
            plans=len(self._plans.known),
            partitions=self._plans.installed,
            offloaded=self._devices.offloaded,
            in_place=self._resources.write_counts.in_place,
            copied=self._resources.write_counts.copied,
            dropped=self._resources.write_counts.dropped,
        )
