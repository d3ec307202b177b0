"""The backend of a session in one process: an executor, and the actors of its state."""

from __future__ import annotations

import itertools
import os
from asyncio import Future
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary, WeakValueDictionary

from actorflow.actors.system import STOP_S, ActorSystem
from actorflow.dataflow.engine.executor import Executor
from actorflow.dataflow.engine.partition import Partition
from actorflow.dataflow.engine.resources import InitialValue, Resources
from actorflow.dataflow.engine.step import Step
from actorflow.dataflow.state.caller import Caller
from actorflow.dataflow.state.register import Source
from actorflow.dataflow.state.starvation_detector import Producers
from actorflow.dataflow.state.variable import Initialise, IsInitialised
from actorflow.dataflow.user.nested_steps import Code
from actorflow.errors import ActorflowError, ConfigError, PlacementError
from actorflow.graph.graph import Graph
from actorflow.graph.resource import VariableDef
from actorflow.kernels.device.devices import check_devices
from actorflow.plan.feeds_queues import fed_resources
from actorflow.plan.lower import lower as lower_program
from actorflow.plan.passes.pass_table import check_passes
from actorflow.plan.placement.placer import Placer, check_placer, name_devices
from actorflow.plan.program import Holder, Holding
from actorflow.plan.structure_key import structure_key
from actorflow.runtime.messages import Call
from actorflow.session.admission_watch import AdmissionWatch
from actorflow.session.backend import Key, Plan, SessionSteps
from actorflow.session.waits import StepWaits
from actorflow.values.arrays import as_array
from actorflow.values.checks import at_least, seconds

# Sessions are numbered in their system, so that a run repeated in one process has the same names.
_SESSIONS: WeakKeyDictionary[ActorSystem, Iterator[int]] = WeakKeyDictionary()


class LocalBackend:
    """Runs the steps of a session in this process; its arguments are the session's.

    Attributes:
        system: The actor system in which it lives.
        owns_system: Whether that is its own.
        producers: Who counts what fills queues.
        resources: The actors of its state.
        begin: Begins a step with a partition and what it is fed.
        transfers: Tokens that went to other processes: none.
    """

    step_class = Step
    settles = False
    transfers = 0

    begin: Callable[[Partition, Step, Sequence[Any]], None]
    producers: Producers
    resources: Resources

    def __init__(
        self,
        graph: Graph,
        system: ActorSystem | None,
        *,
        max_messages: int,
        threads: int | None,
        devices: Sequence[str],
        passes: Sequence[str],
        placement: str | Placer,
        lower: bool,
        starvation_s: float | None,
        stop_s: float | None,
    ) -> None:
        stop_s = seconds(stop_s, "stop_s")
        if stop_s is not None and system is not None:
            message = f"stop_s is the system's where a system is given, got stop_s={stop_s:g} beside it"
            raise ConfigError(message, hint="say it where the system is made: af.ActorSystem(stop_s=...)")
        self._graph = graph
        self._max_messages = at_least(1, "max_messages", max_messages)
        self.owns_system = system is None
        own = STOP_S if stop_s is None else stop_s
        self.system = ActorSystem(name="session", stop_s=own) if system is None else system
        self._device_names = check_devices(devices)
        self._passes = check_passes(passes)
        self._placer = check_placer(placement)
        self._lower_all = lower
        self._starvation_s = seconds(starvation_s, "starvation_s")
        self._threads = (os.cpu_count() or 1) if threads is None else at_least(0, "threads", threads)
        self._partitions: WeakValueDictionary[tuple[Any, ...], Partition] = WeakValueDictionary()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._graph!r}, {len(self._partitions)} programs installed>"

    # -- life --------------------------------------------------------------------------------------

    async def enter(self, *, in_block: bool) -> None:
        """Opens the actor system, if it is its own."""
        if self.owns_system:
            await (self.system.__aenter__() if in_block else self.system.open())

    def open(self, steps: SessionSteps) -> None:
        """Makes what runs steps."""
        system = self.system
        source = Source(f"session{next(_SESSIONS.setdefault(system, itertools.count(1)))}")
        self._waits = StepWaits(steps)
        self.producers = self._waits.producers = Producers(system.now, self._waits.look, steps.limit)
        self._executor = Executor(
            self._graph,
            system,
            source,
            devices=self._device_names,
            threads=self._threads,
            max_messages=self._max_messages,
            producers=self.producers,
            starvation_s=self._starvation_s,
        )
        self._watch = AdmissionWatch(
            self._starvation_s,
            system.now,
            system.timer_wheel.after,
            lambda: self._waits.waiting_steps(steps.ended()),
            lambda: bool(steps.waiting),
            self._waits.refuse,
        )
        self.devices = self._executor.devices
        self.resources = self._executor.resources
        self._containers = self.resources.containers
        self.begin = self._executor.start

    async def close(self) -> None:
        """Stops the actors and threads; waits for kernels that run on one."""
        await self._executor.close()

    async def leave(self, *error: Any) -> None:
        """Leaves the actor system, if it is its own; without an error it is closed."""
        if self.owns_system:
            await (self.system.__aexit__(*error) if error else self.system.close())

    # -- plans -------------------------------------------------------------------------------------

    @property
    def revision(self) -> int:
        """How often shared state has been dropped: the nodes of a plan know whom they ask."""
        return self._containers.resets

    def make_plan(self, key: Key) -> Plan:
        """Lowers and installs a program."""
        ports, keys, _ = key
        executor, nodes = self._executor, self._graph.nodes
        revision = self.revision
        try:
            program = lower_program(
                self._graph,
                ports,
                keys,
                executor.devices.names_for(name_devices(self._graph)),
                self._passes,
                placer=self._placer,
                lower_all=self._lower_all,
            )
        except PlacementError as error:
            if error.hint is None:
                error.hint = executor.devices.hint
            raise
        # Programs that do the same share their actors while a plan has them: of 152 nodes, to see that takes
        # 0.5 ms, and to install them once more 1.2.
        alike = (revision, structure_key(program))
        partition = self._partitions.get(alike)
        if partition is None:
            partition = self._partitions[alike] = executor.install(program)
        return Plan(
            key=key,
            revision=revision,
            feeds=tuple((nodes[k.node].name, nodes[k.node].outputs[k.index]) for k in keys),
            fetches=len(program.fetches),
            hidden=program.hidden,
            messages=program.tokens,
            fills=fed_resources(program.nodes),
            uninitialised=program.variables,
            ready=not program.variables,
            target=partition,
        )

    def drop_plan(self, plan: Plan) -> None:
        """Its actors go when no step has them."""

    async def prepare(self, plan: Plan) -> None:
        """It is installed."""

    def unprepared(self, _plan: Plan) -> str:
        """It is installed."""
        return ""

    # -- initial values ----------------------------------------------------------------------------

    def initial_value(self, name: str) -> InitialValue:
        """Returns what is known of the initial value of a variable."""
        return self.resources.first(name)

    async def initialise(
        self, name: str, compute: Callable[[], Awaitable[tuple[list[Any], Step]]]
    ) -> Future[bool]:
        """Has the initial value of a variable computed, and sends it there.

        If the variable does not take it, the step gives back what it took.
        """
        (value,), step = await compute()
        answer = self.system.create_future()
        answer.add_done_callback(partial(_give_back, step))
        try:
            self.resources.tell(name, Call(Caller(answer), Initialise(as_array(value))))
        except ActorflowError as error:
            answer.set_exception(error)
        return answer

    def unready(self, plan: Plan, first: InitialValue | None) -> AbstractContextManager[None]:
        """Has a step that waits for initial values be known as one that will fill resources, while inside."""
        fills = plan.fills if first is None else (*plan.fills, first.name)
        return self._waits.unready(fills, [self.initial_value(name) for name in plan.uninitialised])

    async def missing(self) -> list[str]:
        """Returns the names of the variables that have no value now, in the order of the graph."""
        found = []
        for name, resource in self._graph.resources.items():
            if not isinstance(resource, VariableDef):
                continue
            holder = Holder(Holding.RESOURCE, name)
            private = resource.shared_name is None
            if (private and holder not in self.resources.refs) or not await self.resources.find(holder).ask(
                IsInitialised()
            ):
                found.append(name)
        return found

    # -- steps -------------------------------------------------------------------------------------

    def settle(self, step: Step) -> None:
        """Nothing is to be told."""

    def own_step(self, step: Any) -> Step | None:
        """Returns the step some code runs for, of whichever session of this process."""
        return step if isinstance(step, Step) else None

    def count_producer(self, fills: Sequence[str]) -> None:
        """A step is there that will put something into resources."""
        self.producers.enter(fills)

    def uncount_producer(self, fills: Sequence[str], failure: BaseException | None) -> None:
        """It has ended."""
        self.producers.leave(fills, failure)

    def watch_admission(self) -> None:
        """A step begins to wait for admission."""
        self._watch.begin()

    # -- looking inside ----------------------------------------------------------------------------

    @property
    def feeding(self) -> dict[Code, Sequence[str]]:
        """What feeds queues beside the steps, and which."""
        return self._waits.feeding

    def counts(self) -> dict[str, int]:
        """Returns what the process counts, as `SessionStats` calls it."""
        writes = self.resources.write_counts
        return {
            "partitions": len(self._partitions),
            "offloaded": self.devices.offloaded,
            "in_place": writes.in_place,
            "copied": writes.copied,
            "dropped": writes.dropped,
        }

    def waits(self, step: Step, plan: Plan) -> tuple[str, ...]:
        """Says what a step waits for, one sentence each."""
        return tuple(plan.target.waits(step))

    def left(self, step: Step) -> int:
        """Returns how many fetches of a step have not come."""
        return step.left

    def kernel_seconds(self, plans: Iterable[Plan]) -> dict[tuple[str, str], float]:
        """Returns what kernels take as measured, by node and device."""
        return {at: s for plan in plans for at, s in plan.target.kernel_seconds().items()}


def _give_back(step: Step, answer: Future[bool]) -> None:
    """Gives back what a step took if the variable did not take the value that it computed."""
    if answer.exception() is not None or not answer.result():
        step.give_back()
