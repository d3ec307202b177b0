"""For which node, of which step, code of the user runs: a step that this code runs is one within a step."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, cast

from actorflow.actors.address import actor_of, waiter_here
from actorflow.actors.ask import Ask

if TYPE_CHECKING:
    from actorflow.actors.system import ActorSystem
    from actorflow.actors.turns import Turns
    from actorflow.messages import Reply

WITHIN: ContextVar[Reply | None] = ContextVar("actorflow_within", default=None)
"""The call of a node that is worked on here; tasks and threads that the code begins inherit it."""


def step_here() -> Any:
    """Returns the step for which this code runs; None where it runs for none."""
    live = getattr(WITHIN.get(), "live", None)
    return None if live is None else live.step


def step_asking(system: ActorSystem) -> Any:
    """Returns the step for which the handler that runs here works, through others or not; None without one.

    It looks up who asked whom, up to a call of a performer of `system`, which waits for the answer.
    """
    node: Any = waiter_here()
    seen = set()
    while node is not None and node not in seen:
        seen.add(node)
        question = next((job for job in cast("Turns", actor_of(node)).jobs(node) if type(job) is Ask), None)
        if question is None:
            return None
        if question.waiter is None:
            return _waiting_for(system, question.future)
        node = question.waiter
    return None


def _waiting_for(system: ActorSystem, answer: Any) -> Any:
    """Returns the step whose code waits for an answer in the task that a performer has made for it."""
    for cell in system.actors.values():
        for task, reply in getattr(cell.behaviour, "tasks", dict)().items():
            live = getattr(reply, "live", None)
            if live is not None and getattr(task, "_fut_waiter", None) is answer:
                return live.step
    return None
