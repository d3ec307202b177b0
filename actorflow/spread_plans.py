"""The plans of a session over several processes: installed everywhere once, dropped when there are many."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from actorflow.actors.step_messages import Drop, Prepare, Prepared, Process
from actorflow.actors.system import ActorSystem
from actorflow.errors import PeerLost
from actorflow.spread_plan import Key, SpreadPlan
from actorflow.spread_steps import SpreadSteps

MAX_PLANS = 256


class BegunAnew(PeerLost):
    """A process has started again before anybody had heard of its life before: nothing ran there.

    Attributes:
        process: Which.
        incarnation: The life in which it is.
    """

    process = ""
    incarnation = 0


class Plans:
    """The plans of a session, by what they are for.

    INVARIANT: after each call there are at most `MAX_PLANS`, unless more are wanted at this moment: to drop
    one of those would let steps drop each other's plans for ever.

    Args:
        make: Plans, under a number.
        steps: By which processes are reached.
        address: The session's.
        processes: All of them, in the life that the session means.
        system: Where what prepares runs.
    """

    def __init__(
        self,
        make: Callable[[Key, int], SpreadPlan],
        steps: SpreadSteps,
        address: str,
        processes: Mapping[str, Process],
        system: ActorSystem,
    ) -> None:
        self._make = make
        self._steps = steps
        self._address = address
        self._processes = processes
        self._system = system
        self._plans: dict[Key, SpreadPlan] = {}
        self._wanted: Counter[Key] = Counter()
        self._numbers = itertools.count(1)
        self._preparing: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._plans)

    def __iter__(self) -> Iterator[SpreadPlan]:
        return iter(self._plans.values())

    def get(self, key: Key) -> SpreadPlan:
        """Returns the plan for these fetches and feeds, from before if it is there."""
        plan = self._plans.get(key)
        if plan is None:
            plan = self._plans[key] = self._make(key, next(self._numbers))
            self._trim()
        return plan

    def holds(self, plan: SpreadPlan) -> bool:
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
        self._tell_dropped(self._plans.pop(key))

    def _tell_dropped(self, plan: SpreadPlan) -> None:
        for name in plan.made.parts:
            self._steps.put(name, Drop(self._address, plan.number))

    async def prepare(self, plan: SpreadPlan) -> None:
        """Lets every process install its part, once, whoever needs it first."""
        if plan.prepared:
            return
        if plan.preparing is None or plan.preparing.done():
            plan.preparing = self._system.loop.create_task(self._install(plan), name="spread-prepare")
            plan.preparing.add_done_callback(heard)
            self._preparing.add(plan.preparing)
            plan.preparing.add_done_callback(self._preparing.discard)
        await asyncio.shield(plan.preparing)

    async def settled(self) -> None:
        """Waits until no plan is being prepared."""
        while self._preparing:
            await asyncio.wait(self._preparing)

    async def _install(self, plan: SpreadPlan) -> None:
        message = replace(plan.prepare, first=self._steps.next_number)
        plan.missing = set(plan.made.parts)
        answers = await asyncio.gather(
            *(self._ask(plan, name, message) for name in plan.made.parts), return_exceptions=True
        )
        if not self.holds(plan):  # dropped meanwhile, when some had it and others not yet
            self._tell_dropped(plan)
        for name, answer in zip(plan.made.parts, answers, strict=True):
            if isinstance(answer, BaseException):
                raise answer
            self._check_life(name, answer)
        plan.prepared = True

    async def _ask(self, plan: SpreadPlan, name: str, message: Prepare) -> Prepared:
        answer: Prepared = await self._steps.ask(name, message)
        plan.missing.discard(name)
        return answer

    def _check_life(self, name: str, prepared: Prepared) -> None:
        known = self._processes[name].incarnation
        if prepared.incarnation != known:
            message = (
                f"process {name!r} runs as incarnation {prepared.incarnation}, the session means {known}"
            )
            anew = BegunAnew(message, hint="tell the session of its new life: session.joined(...)")
            anew.process, anew.incarnation = name, prepared.incarnation
            raise anew


def heard(task: asyncio.Task[None]) -> None:
    """Takes note of how a task ended for which nobody may be waiting any more."""
    if not task.cancelled():
        task.exception()
