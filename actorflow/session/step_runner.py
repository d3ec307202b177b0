"""The runner of the steps of a session: when each may begin, and what it leaves when it ends.

A step begins once its plan is ready, its variables have their initial values, and it is admitted. Who waits
for it meanwhile is an edge of the wait-for graph.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from typing import Any

from actorflow.actors import timer_wheel
from actorflow.actors.address import tick, waiter_here
from actorflow.actors.task_carrier import HANDLING
from actorflow.actors.wait_rings import open_rings
from actorflow.dataflow.engine.resources import InitialValue
from actorflow.dataflow.user.nested_steps import Await, Group, step_asking, step_here
from actorflow.errors import DeadlinePassed, SessionClosed, StepAborted, Where
from actorflow.graph.graph import Graph
from actorflow.graph.node import Port
from actorflow.plan.fetches import feed_value
from actorflow.runtime.affinity import Affinity, affinity_here
from actorflow.runtime.tag import StepId
from actorflow.session.admission import Admission, check_nesting, runner_of
from actorflow.session.backend import Backend, Key, Plan, PlanChanged, SessionSteps
from actorflow.session.initial_values import InitialValues
from actorflow.session.plan_cache import PlanCache
from actorflow.values.checks import at_least, seconds

_OPEN = "async with af.Session(graph) as session: ..."


class StepRunner:
    """Runs the steps of one session.

    Args:
        graph: The session's.
        backend: Where they run.
        deadline_s: The longest that one may take unless it says otherwise; None is no limit.
        max_steps: How many may run at once.
        initialises: Whether variables get their initial values by themselves.

    Attributes:
        plans: What they run.
        initial_values: What variables begin with.
        is_open: Whether it runs steps.
        loop: The event loop, once it has been opened.
        live: Those that run.
        first: Those that compute initial values, and which.
        waiting: Those that wait for admission, with what they are fed.
        peak: The most that ran at once.
        done: How many have ended well, initialising ones not counted.
        failed: How many have ended otherwise.
        messages: What those that ended well have sent, as their plans count it.
    """

    # Attributes in slots: as entries of a dict more than 30 of them cost a step 0.8 µs.
    __slots__ = (
        "_admission", "_affinity", "_backend", "_initialises", "_start", "_step_class", "_step_ids", "_steps",
        "_system", "_thread",
        "deadline_s", "done", "failed", "first", "initial_values", "is_open", "live", "loop", "max_steps",
        "messages", "peak", "plans", "waiting",
    )  # fmt: skip

    def __init__(
        self,
        graph: Graph,
        backend: Backend[Any, Any],
        deadline_s: float | None,
        max_steps: int,
        *,
        initialises: bool,
    ) -> None:
        self.deadline_s = seconds(deadline_s)
        self.max_steps = at_least(1, "max_steps", max_steps)
        self.plans: PlanCache[Any] = PlanCache(graph, backend, self._keys_waiting)
        self.initial_values = InitialValues(graph, backend, self._compute_initial, self.check_open)
        self.is_open = False
        self.loop: Any = None  # the event loop, once it is open
        self.live: dict[Any, Plan] = {}
        self.first: dict[Any, tuple[Plan, InitialValue]] = {}
        self.waiting: dict[Any, tuple[Plan, Sequence[Any]]] = {}
        self.peak = self.done = self.failed = self.messages = 0
        self._backend = backend
        self._system = backend.system
        self._step_class = backend.step_class
        self._initialises = initialises
        self._affinity: Affinity | None = None
        self._step_ids = itertools.count(1)
        self._admission: Admission[Any] = Admission(self.max_steps)
        self._steps = SessionSteps(
            self.max_steps,
            self.live,
            self.first,
            self.waiting,
            lambda: (self.done, self.failed),
            self._end_step,
        )

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {len(self.live)}/{self.max_steps} steps live (peak {self.peak})>"

    # -- life --------------------------------------------------------------------------------------

    def open(self) -> None:
        """Begins to run steps, for this thread and event loop alone.

        Raises:
            WrongLoop: the actor system is not of this event loop.
        """
        self._system.check_here()  # raises also when a system of the user's is not open
        self.loop = asyncio.get_running_loop()
        self._affinity = affinity_here("the session")
        self._thread = self._affinity.thread
        self._backend.open(self._steps)
        self._start = self._backend.begin
        self.is_open = True

    def abort(self) -> None:
        """Begins no more steps, and aborts those that are there."""
        self.is_open = False
        cause = SessionClosed("the session was closed")
        for step in (*self.live, *self.first, *self.waiting):
            aborted = StepAborted(
                f"{step.name} was aborted: the session was closed", where=Where(step=step.id)
            )
            aborted.__cause__ = cause
            step.abort(aborted)

    def close(self) -> None:
        """Lets any thread and event loop call: nothing is there that it could harm."""
        assert self._affinity is not None
        self._affinity.ended = True

    def check_open(self) -> None:
        """Raises SessionClosed unless it is open, and WrongLoop in another thread or event loop."""
        if not self.is_open:
            raise SessionClosed("the session is not open", hint=_OPEN)
        self.check_here()

    def check_opened(self) -> None:
        """Raises SessionClosed where it has never been open."""
        if self.loop is None:
            raise SessionClosed("the session has not been opened", hint=_OPEN)

    def running(self) -> list[tuple[Any, Plan]]:
        """Returns the steps that run, with their plans."""
        return self._steps.running()

    def check_here(self) -> None:
        """Raises WrongLoop in another thread or event loop than that in which it was opened."""
        if self._affinity is not None:
            self._affinity.check()

    # -- steps -------------------------------------------------------------------------------------

    async def run(self, plan: Plan, values: Sequence[Any], deadline_s: float | None) -> list[Any]:
        """Runs one step, once its plan is ready."""
        if not self.is_open or not self._thread._is_owned() or not self.loop.is_running():  # see `affinity`
            self.check_open()
        backend = self._backend
        since = self._system.now()
        fed = [feed_value(name, spec, value) for (name, spec), value in zip(plan.feeds, values, strict=True)]
        deadline_s = self.deadline_s if deadline_s is None else seconds(deadline_s)
        if not plan.fetches:
            return []
        step_id = StepId(next(self._step_ids))  # ORDER: in that of calls, however long these wait
        waiter = None if HANDLING.get() is None else waiter_here()
        while True:
            if not plan.ready or plan.revision != backend.revision:
                plan = await self._make_ready(plan.key, deadline_s, waiter)
            step = self._step_class(step_id, plan.fetches, self._system.create_future(), deadline_s, since)
            try:
                if waiter is None:
                    return await self._run_step(plan, fed, step)
                step.parent = self._parent()
                if step.parent is None and self._admission.taken >= self.max_steps:
                    await tick()  # of a handler in its first step nobody knows yet what it works on
                    step.parent = backend.own_step(step_asking())
                    self.check_open()
                    if plan.revision != backend.revision:  # dropped meanwhile
                        continue
                return await self._run_for(waiter, plan, fed, step)
            except PlanChanged:  # while it waited for admission: nothing of it has begun
                continue

    async def _run_for(self, waiter: Any, plan: Plan, fed: Sequence[Any], step: Any) -> list[Any]:
        """Runs a step for which a handler waits, or code of the user, or an initial value."""
        edge = Await(waiter, step)
        edge.begin()
        try:
            return await self._run_step(plan, fed, step, edge)
        finally:
            edge.end()

    async def _run_step(
        self, plan: Plan, fed: Sequence[Any], step: Any, edge: Await | None = None
    ) -> list[Any]:
        """Runs a step to its end, after those that were there before it when too many run.

        Initialising steps (of id 0) neither wait nor count: others may wait for them.
        `edge` says who waits for it, where that is a node of the wait-for graph; of id 0 it is an initial
        value.
        """
        backend, step_id = self._backend, step.id
        if step.deadline_s is not None:
            self._system.timer_wheel.add(step.since + step.deadline_s, step)
        fills, failure = plan.fills, None
        if fills:
            backend.count_producer(fills)
        try:
            if not step_id:
                assert edge is not None
                self.first[step] = plan, edge.waiter
                self._admission.free(step)
                self._start(plan.target, step, fed)
            elif self._admission.ask(
                step, None if step.parent is None else runner_of(step, self._admission.live)
            ):
                self._begin_step(step, plan, fed)
            else:
                self._wait_for_admission(step, plan, fed, edge)
            values: list[Any] = await step.future
        except BaseException as error:
            self.failed += bool(step_id) and type(error) is not PlanChanged
            failure = error
            if isinstance(error, asyncio.CancelledError) or not step.future.done():
                step.cancel()
            step.forget()
            raise
        finally:
            if step.bucket is not None:
                timer_wheel.remove(step)
            if not step.lingers:
                self._end_step(step)
            if fills:
                backend.uncount_producer(fills, failure)
            failure = None  # it holds this frame
        if backend.settles:
            backend.settle(step)
        self.done += bool(step_id)
        self.messages += plan.messages
        return values[: -plan.hidden] if plan.hidden else values

    def _end_step(self, step: Any) -> None:
        """Gives the place of a step that is over to those who wait for one; twice is harmless."""
        if self.live.pop(step, None) is None:
            self.waiting.pop(step, None)
            self.first.pop(step, None)
        step.parent = step.ahead = None
        if begun := self._admission.end(step):
            self._let_in(begun)

    def _wait_for_admission(self, step: Any, plan: Plan, fed: Sequence[Any], edge: Await | None) -> None:
        """Has a step wait; raises AskCycle where all that run wait for whoever runs it, by `edge`."""
        self.waiting[step] = (plan, fed)
        name = f"admission of {step.name}"
        step.ahead = lambda: [Group(name, tuple(steps)) for steps in self._admission.ahead(step)]
        self._backend.watch_admission()
        if edge is not None:
            open_rings(edge)

    def _begin_step(self, step: Any, plan: Plan, fed: Sequence[Any]) -> None:
        self.live[step] = plan
        if len(self.live) > self.peak:
            self.peak = len(self.live)
        self._start(plan.target, step, fed)

    def _let_in(self, steps: Sequence[Any]) -> None:
        """Begins steps that have waited; one that was cancelled meanwhile gives its place back itself.

        So does one the plan of which may not be used any more: it waits for another one.
        """
        for step in steps:
            plan, fed = self.waiting.pop(step)
            step.ahead = None
            if step.future.done():
                continue
            if plan.ready and plan.revision == self._backend.revision:
                self._begin_step(step, plan, fed)
            else:
                step.future.set_exception(PlanChanged("the plan of a step has changed"))

    def _parent(self) -> Any:
        """Returns the step whose code runs here; None where it runs for none.

        Raises:
            AskCycle: steps of this session would be nested too deep.
        """
        parent = self._backend.own_step(step_here())
        check_nesting(parent, self._admission.live)
        return parent

    # -- plans and initial values ------------------------------------------------------------------

    def _keys_waiting(self) -> list[Key]:
        return [plan.key for plan, _ in self.waiting.values()]

    async def _make_ready(
        self, key: Key, deadline_s: float | None, waiter: Any, first: InitialValue | None = None
    ) -> Plan:
        """Returns a plan whose steps may begin: prepared, and its variables have their initial values.

        Args:
            key: What it is for.
            deadline_s: How long that may take.
            waiter: Whose handler or code waits for that, or the initial value that needs it.
            first: The initial value that its steps compute.

        Raises:
            DeadlinePassed: naming what it waits for.
        """
        with self.plans.wanting(key):
            while True:
                self.check_open()
                plan: Plan = self.plans.get(key)
                if plan.ready:
                    return plan
                names = plan.uninitialised if self._initialises else ()
                try:
                    async with asyncio.timeout(deadline_s):
                        await self._backend.prepare(plan)
                        if names:
                            with self._backend.unready(plan, first):
                                await self.initial_values.give(names, waiter)
                except TimeoutError:
                    given = self.initial_values.missing(names)
                    left = f"{', '.join(map(repr, given))} to be initialised"
                    message = (
                        f"a step did not begin within its deadline of {deadline_s:g} s; "
                        f"it waits for {self._backend.unprepared(plan) or left}"
                    )
                    raise DeadlinePassed(message, hint="raise deadline_s for the first step") from None
                if plan.revision == self._backend.revision:  # else processes, or shared state, came and went
                    plan.uninitialised, plan.ready = frozenset(), True

    async def _compute_initial(self, initial: Port, name: str, first: InitialValue) -> tuple[list[Any], Any]:
        """Computes the initial value of a variable, in a step of its own; returns that as well."""
        self.check_open()
        plan: Plan = self.plans.get(((initial,), (), name))
        if not plan.ready:
            plan = await self._make_ready(plan.key, None, first, first)
        self.check_open()
        future, now = self._system.create_future(), self._system.now()
        step = self._step_class(StepId(0), plan.fetches, future, self.deadline_s, now)
        return await self._run_for(first, plan, (), step), step
