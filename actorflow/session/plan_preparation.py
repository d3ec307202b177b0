"""The preparation of plans over several processes: each installs its part once, whoever needs it first."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from actorflow.actors.system import ActorSystem
from actorflow.dataflow.remote.step_messages import DropPlan, PartPrepared, PreparePart, SessionProcess
from actorflow.errors import PeerLost
from actorflow.session.backend import DROPPED
from actorflow.session.distributed_plan import DistributedPlan
from actorflow.session.distributed_steps import DistributedSteps


class ProcessRestarted(PeerLost):
    """A process has started again before anybody had heard of the one before: nothing ran there.

    Attributes:
        process: Which.
        incarnation: Which one it has now.
    """

    process = ""
    incarnation = 0


class PlanPreparation:
    """Has processes install their parts of plans, and let go of them.

    Args:
        steps: By which processes are reached.
        address: The session's.
        processes: All of them, in the incarnations that the session means.
        system: Where what prepares runs.
    """

    def __init__(
        self,
        steps: DistributedSteps,
        address: str,
        processes: Mapping[str, SessionProcess],
        system: ActorSystem,
    ) -> None:
        self._steps = steps
        self._address = address
        self._processes = processes
        self._system = system
        self._preparing: set[asyncio.Task[None]] = set()

    def drop(self, plan: DistributedPlan) -> None:
        """Lets every process let go of its part."""
        for name in plan.target.made.parts:
            self._steps.put(name, DropPlan(self._address, plan.target.number))

    async def prepare(self, plan: DistributedPlan) -> None:
        """Lets every process install its part, unless it has."""
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
        plan.missing = set(plan.target.made.parts)
        answers = await asyncio.gather(
            *(self._ask(plan, name, message) for name in plan.target.made.parts), return_exceptions=True
        )
        if plan.revision == DROPPED:  # meanwhile, when some had it and others not yet
            self.drop(plan)
        for name, answer in zip(plan.target.made.parts, answers, strict=True):
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


def log_exception(task: asyncio.Task[Any]) -> None:
    """Takes note of how a task ended for which nobody may be waiting any more."""
    if not task.cancelled():
        task.exception()
