"""The worker supervisor: it has a worker take part in a run, in every incarnation of its process."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from actorflow.actors.actor import Actor
from actorflow.actors.ref import Ref
from actorflow.cluster.process.messages import UNREACHED, Enlist
from actorflow.coord.rules.commit import term_of_run
from actorflow.coord.rules.messages import RunEnded
from actorflow.errors import ActorflowError
from actorflow.runtime.messages import Terminated


@dataclass(frozen=True, slots=True)
class _Retry:
    """WorkerSupervisor → itself: time to ask."""


class WorkerSupervisor(Actor):
    """Asks the agent of one process for a worker, now and whenever that worker is gone.

    **Receives** Terminated of the worker.
    **Sends** Enlist to the process agent (asked); RunEnded to the coordinator, when it cannot take part.
    **Promise** while its process lives and can be reached it has a worker for the run, at most
        `again_s` late.

    Args:
        agent: Of the process.
        worker: Where the worker will be.
        coordinator: Of the run.
        order: What the agent is told.
        again_s: How long to wait before it asks again.
        answer_s: How long the agent may take.
    """

    def __init__(
        self, agent: Ref, worker: Ref, coordinator: Ref, order: Enlist, again_s: float, answer_s: float
    ) -> None:
        self._agent = agent
        self._worker = worker
        self._coordinator = coordinator
        self._order = order
        self._again_s = again_s
        self._answer_s = answer_s

    def on_start(self) -> None:
        """Asks for the first time."""
        self.ref.signal(_Retry())

    async def receive(self, message: Any) -> None:
        """Asks, now or later."""
        if isinstance(message, Terminated):
            self.after(self._again_s, _Retry())
            return
        try:
            await self._agent.ask(self._order, self._answer_s)
        except UNREACHED:
            self.after(self._again_s, _Retry())
        except ActorflowError as error:  # it cannot take part, and nor could another
            self._coordinator.signal(RunEnded(term_of_run(self._order.run), error))
        else:
            self._worker.watch(self.ref)
