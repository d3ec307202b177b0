"""The session: runs steps of a graph, many at a time, and owns the state that they share.

Where they run is its backend's matter: in this process (`local`), or over many (`distributed`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from actorflow.actors.address import waiter_here
from actorflow.actors.system import ActorSystem
from actorflow.dataflow.engine.resources import Resources
from actorflow.dataflow.state.starvation_detector import Producers
from actorflow.dataflow.user.nested_steps import Code
from actorflow.errors import (
    ConfigError,
    FeedError,
    SessionClosed,
)
from actorflow.graph.builder import Tensor
from actorflow.graph.graph import Graph
from actorflow.graph.node import Port
from actorflow.plan.fetches import build_result, check_count, only, resolve_feed, resolve_fetches
from actorflow.plan.passes.pass_table import ALL
from actorflow.plan.placement.placer import Placer
from actorflow.runtime import dump_on_signal, input_waits
from actorflow.runtime.call_site import users_line
from actorflow.runtime.name_hints import unknown_argument
from actorflow.session.backend import Backend
from actorflow.session.blocking import BlockingSession
from actorflow.session.fetch_types import ARGUMENTS, with_run_types
from actorflow.session.local import LocalBackend
from actorflow.session.stats import SessionDump, SessionStats, StepEntry
from actorflow.session.step_runner import StepRunner


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
        backend = LocalBackend(
            graph,
            system,
            max_messages=max_messages,
            threads=threads,
            devices=devices,
            passes=passes,
            placement=placement,
            lower=lower,
            starvation_s=starvation_s,
            stop_s=stop_s,
        )
        self._run_on(backend, graph, deadline_s, max_steps, initialise=initialise)

    def _run_on(
        self,
        backend: Backend[Any, Any],
        graph: Graph,
        deadline_s: float | None,
        max_steps: int,
        *,
        initialise: bool,
    ) -> None:
        """Gets to know its backend, and what it lets steps do."""
        self.graph = graph
        self._backend = backend
        self._steps = StepRunner(graph, backend, deadline_s, max_steps, initialises=initialise)
        self._plans = self._steps.plans
        self._in_block = True
        self._closing: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        steps = self._steps
        live = f"{len(steps.live)}/{steps.max_steps} steps live (peak {steps.peak})"
        return f"<{type(self).__name__} of {self.graph!r}, {live if steps.is_open else 'closed'}>"

    # -- life --------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        return await self._begin()

    def __enter__(self) -> BlockingSession:
        if not self._backend.owns_system:
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
        return await self._begin()

    async def _begin(self) -> Self:
        self.check_here()
        if self._steps.loop is not None:
            raise SessionClosed("a session opens once", hint="make a new one: af.Session(graph)")
        await self._backend.enter(in_block=self._in_block)
        self._steps.open()
        dump_on_signal.register(self, within=self._backend.system)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.check_here()
        try:
            await self.close()
        finally:
            await self._backend.leave(kind, error, trace)

    async def close(self) -> None:
        """Aborts the steps that run, stops the actors and threads; closing twice is harmless.

        What `open` opened ends wholly, its own actor system too.

        It waits for kernels that run on a thread. A cancellation waits until all is closed.
        """
        if self._steps.loop is None:
            return
        self.check_here()
        if self._closing is None:
            self._closing = self._steps.loop.create_task(self._close(), name="actorflow-session-close")
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
        self._steps.abort()
        dump_on_signal.unregister(self)
        await self._backend.close()
        if not self._in_block:
            await self._backend.leave()
        self._steps.close()

    async def uninitialised(self) -> list[str]:
        """Returns the names of the variables that have no value now, in the order of the graph.

        One with an initial value is among them until a step has touched it.
        """
        self._steps.check_open()
        return await self._backend.missing()

    async def initialise(self, names: Iterable[str]) -> None:
        """Gives variables their initial values, unless they have them.

        Args:
            names: The variables.
        """
        self._steps.check_open()
        await self._steps.initial_values.give(names, waiter_here())

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
            self._steps.check_open()
            raise unknown_argument("run", next(iter(unknown)), ARGUMENTS)
        graph = self.graph
        ports: tuple[Port, ...]
        build: Callable[[Sequence[Any]], Any]
        if type(fetches) is Tensor and fetches.graph is graph:
            ports, build = (fetches.port,), only  # looked at when it is planned: -0.6 µs
        else:
            self._steps.check_open()  # first: a read may be added to the graph
            ports, build = resolve_fetches(graph, fetches)
        feeds = feeds or {}
        try:
            keys = tuple(
                k.port if type(k) is Tensor and k.graph is graph else resolve_feed(graph, k) for k in feeds
            )
        except FeedError:
            self._steps.check_open()
            raise
        plan = self._plans.known.get((ports, keys, ""))
        if plan is None:
            self._steps.check_open()
            ports, build = resolve_fetches(graph, fetches)
            plan = self._plans.get((ports, keys, ""))
        return build_result(build, await self._steps.run(plan, tuple(feeds.values()), deadline_s))

    def make_callable(
        self, fetches: Any, feeds: Sequence[Any] = (), *, deadline_s: float | None = None
    ) -> Callable[..., Awaitable[Any]]:
        """Returns `async call(*values)` that runs a step with the values fed in the order of `feeds`.

        Fetches and feeds are looked up once, here.
        """
        self._steps.check_open()
        ports, build = resolve_fetches(self.graph, fetches)
        keys = tuple(resolve_feed(self.graph, key) for key in feeds)
        plan = self._plans.get((ports, keys, ""))

        async def call(*values: Any) -> Any:
            check_count(values, len(keys))
            return build_result(build, await self._steps.run(plan, values, deadline_s))

        return call

    def check_here(self) -> None:
        """Raises WrongLoop in another thread or event loop than that in which the session was opened.

        Before it is opened, and once it is closed, all may call: nothing is there that it could harm.
        """
        self._steps.check_here()

    @property
    def system(self) -> ActorSystem:
        """The actor system in which it lives."""
        return self._backend.system

    @property
    def deadline_s(self) -> float | None:
        """The longest that a step may take unless it says otherwise; None is no limit."""
        return self._steps.deadline_s

    @property
    def max_steps(self) -> int:
        """How many steps may run at once."""
        return self._steps.max_steps

    @property
    def feeding(self) -> dict[Code, Sequence[str]]:
        """What feeds queues beside the steps, and which."""
        return self._local.feeding

    @property
    def producers(self) -> Producers:
        """Who counts what fills queues."""
        return self._local.producers

    @property
    def is_open(self) -> bool:
        """Whether it runs steps."""
        return self._steps.is_open

    @property
    def resources(self) -> Resources:
        """The actors of its state, for code that asks them without a step."""
        self._steps.check_open()
        return self._local.resources

    @property
    def _local(self) -> LocalBackend:
        if isinstance(self._backend, LocalBackend):
            return self._backend
        message = f"queues are fed, and state is asked, in the process of its session, got {self!r}"
        raise ConfigError(message, hint="run a step that does it: await session.run(queue.enqueue(...))")

    # -- looking inside ----------------------------------------------------------------------------

    def dump(self) -> SessionDump:
        """Returns the steps that run, the input that somebody waits for, and the actors of the system.

        `str()` of it is a report; the fields are data.
        """
        self._steps.check_opened()
        runner, backend = self._steps, self._backend
        now = backend.system.clock.now()
        steps = tuple(
            StepEntry(step.id, backend.left(step), now - step.since, backend.waits(step, plan))
            for step, plan in runner.running()
        )
        inputs = input_waits.waits(runner.loop, users_line)
        return SessionDump(steps, runner.max_steps, len(runner.waiting), backend.system.dump(), inputs)

    def kernel_seconds(self) -> dict[tuple[str, str], float]:
        """Returns what kernels take as measured, by node and device: for `CostModel.with_measurements`.

        Only those are measured that may be slow: of unknown or of large sizes, and on the host's devices.
        """
        return self._backend.kernel_seconds(self._plans.known.values())

    def stats(self) -> SessionStats:
        """Returns what the session has done."""
        self._steps.check_opened()
        runner, backend = self._steps, self._backend
        return SessionStats(
            steps=runner.done,
            failed=runner.failed,
            firings=backend.system.dispatch.turns,
            messages=runner.messages,
            transfers=backend.transfers,
            live=len(runner.live),
            peak_live=runner.peak,
            waiting=len(runner.waiting),
            plans=len(runner.plans.known),
            **backend.counts(),
        )
