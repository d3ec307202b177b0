"""How much of its deadline is left to the handler that runs here.

A question says how long its asker waits. What a handler asks others while it works on that question is of use
for no longer: a handler of a `cancellable` actor gives them what is left, unless it says otherwise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from actorflow.actors.carrier import HANDLING
from actorflow.errors import ActorError

if TYPE_CHECKING:
    from actorflow.actors.carrier import Handling
    from actorflow.actors.turns import Turns


def remaining_s(actor: Turns) -> float | None:
    """Returns how long the asker of the handler of `actor` that runs here still waits; None without one.

    Raises:
        ActorError: no async handler of `actor` runs here.
    """
    handling = HANDLING.get()
    if handling is None or handling[0] is not actor or not actor.runs_on(handling):
        message = f"the rest of a deadline is that of an async handler, got none of '{actor.name}' here"
        raise ActorError(message, hint="write `async def receive`; a plain one never waits")
    return _left_s(handling)


def rest_of(handling: Handling | None) -> float | None:
    """Returns how long what a handler asks may take where it does not say; None for what the system says.

    What is asked when nothing is left waits for one tick, and ends as any ask does that is late.
    """
    if handling is None or not handling[0].cancellable:
        return None
    left_s = _left_s(handling)
    return None if left_s is None else max(left_s, handling[0].system.wheel.tick_s)


def _left_s(handling: Handling) -> float | None:
    actor = handling[0]
    question = actor.question(handling)
    if question is None:
        return None
    return max(0.0, question.since + question.limit_s - actor.system.now())
