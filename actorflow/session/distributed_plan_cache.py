"""The plans of a session over several processes: installed everywhere once, dropped when there are many."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from actorflow.actors.system import ActorSystem
from actorflow.dataflow.remote.step_messages import DropPlan, PartPrepared, PreparePart, SessionProcess
from actorflow.errors import PeerLost
from actorflow.session.distributed_plan import DistributedPlan, Key
from actorflow.session.distributed_steps import DistributedSteps

MAX_PLANS = 256


class ProcessRestarted(PeerLost):
    """A process has started again before anybody had heard of the one before: nothing ran there.

    Attributes:
        process: Which.
        incarnation: Which one it has now.
    """

    process = ""
    incarnation = 0


class DistributedPlanCache:
    """The plans of a session, by what they are for.

    INVARIANT: after each call there are at most `MAX_PLANS`, unless more are wanted at this moment: to drop
    one of those would let steps drop each other's plans for ever.

    Args:
        make: Plans, under a number.
        steps: By which processes are reached.
        address: The session's.
        processes: All of them, in the incarnations that the session means.
        system: Where what prepares runs.
    """

    def __init__(
        self,
        make: Callable[[Key, int], DistributedPlan],
        steps: DistributedSteps,
        address: str,
        processes: Mapping[str, SessionProcess],
        system: ActorSystem,
    ) -> None:
        self._make = make
        self._steps = steps
        self._address = address
        self._processes = processes
        self._system = system
        self._plans: dict[Key, DistributedPlan] = {}
        self._wanted: Counter[Key] = Counter()
        self._numbers = itertools.count(1)
        self._preparing: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._plans)

    def __iter__(self) -> Iterator[DistributedPlan]:
        return iter(self._plans.values())

    def get(self, key: Key) -> DistributedPlan:
        """Returns the plan for these fetches and feeds, from before if it is there."""
        plan = self._plans.get(key)
        if plan is None:
            plan = self._plans[key] = self._make(key, next(self._numbers))
            self._trim()
        return plan

    def holds(self, plan: DistributedPlan) -> bool:
        """Tells whether a plan has not been dropped."""
        return self._plans.get(plan.key) is plan

    @contextmanager
    def wanting(self, key: Key) -> Iterator[None]:
        """Keeps the plan for a key, from when it is got until the block ends."""
        self._wanted[key] += 1
        try:
            yield
        finally:
            self._wanted[key] -= 1
            if not self._wanted[key]:
                del self._wanted[key]
                self._trim()

    def clear(self) -> None:
        """Drops all: who wants one gets it anew."""
        for key in tuple(self._plans):
            self._drop(key)

    def _trim(self) -> None:
        """Drops the oldest that nobody wants, while there are too many."""
        if len(self._plans) > MAX_PLANS:
            free = [key for key in self._plans if key not in self._wanted]
            for key in free[: len(self._plans) - MAX_PLANS]:
                self._drop(key)

    def _drop(self, key: Key) -> None:
        self._tell_runners(self._plans.pop(key))

    def _tell_runners(self, plan: DistributedPlan) -> None:
        for name in plan.made.parts:
            self._steps.put(name, DropPlan(self._address, plan.number))

    async def prepare(self, plan: DistributedPlan) -> None:
        """Lets every process install its part, once, whoever needs it first."""
        if plan.prepared:
            return
        if plan.preparing is None or plan.preparing.done():
            plan.preparing = self._system.loop.create_task(self._install(plan), name="spread-prepare")
            plan.preparing.add_done_callback(log_exception)
            self._preparing.add(plan.preparing)
            plan.preparing.add_done_callback(self._preparing.discard)
        await asyncio.shield(plan.preparing)

    async def wait_settled(self) -> None:
        """Waits until no plan is being prepared."""
        while self._preparing:
            await asyncio.wait(self._preparing)

    async def _install(self, plan: DistributedPlan) -> None:
        message = replace(plan.prepare, first=self._steps.next_number)
        plan.missing = set(plan.made.parts)
        answers = await asyncio.gather(
            *(self._ask(plan, name, message) for name in plan.made.parts), return_exceptions=True
        )
        if not self.holds(plan):  # dropped meanwhile, when some had it and others not yet
            self._tell_runners(plan)
        for name, answer in zip(plan.made.parts, answers, strict=True):
            if isinstance(answer, BaseException):
                raise answer
            self._check_incarnation(name, answer)
        plan.prepared = True

    async def _ask(self, plan: DistributedPlan, name: str, message: PreparePart) -> PartPrepared:
        answer: PartPrepared = await self._steps.ask(name, message)
        plan.missing.discard(name)
        return answer

    def _check_incarnation(self, name: str, prepared: PartPrepared) -> None:
        known = self._processes[name].incarnation
        if prepared.incarnation != known:
            message = (
                f"process {name!r} runs as incarnation {prepared.incarnation}, the session means {known}"
            )
            anew = ProcessRestarted(message, hint="tell the session of its new life: session.joined(...)")
            anew.process, anew.incarnation = name, prepared.incarnation
            raise anew


def log_exception(task: asyncio.Task[None]) -> None:
    """Takes note of how a task ended for which nobody may be waiting any more."""
    if not task.cancelled():
        task.exception()
