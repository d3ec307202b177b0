"""The deadline of the handler that runs here, and how much of it is left.

A question says how long its asker waits. What a handler asks others while it works on that question is of use
for no longer: a handler of a `cancellable` actor gives them what is left, unless it says otherwise.

An async handler is known by its context, a plain one by the stack. Only who looks pays.
"""

from __future__ import annotations

import sys
from types import FrameType
from typing import TYPE_CHECKING, Any

from actorflow.actors.ask import Ask
from actorflow.actors.task_carrier import HANDLING
from actorflow.errors import ActorError

if TYPE_CHECKING:
    from actorflow.actors.task_carrier import Handling
    from actorflow.actors.turns import Turns

_PUMPED = {"Turns.fire": "message", "Turns._run": "job"}
"""Who calls handlers from the pump, and what it calls that which they handle."""

_INLINE = "Address.ask"
_TIMED = "Inline.timed"


def remaining_s(actor: Turns) -> float | None:
    """Returns how long the asker of the handler of `actor` that runs here still waits; None without one.

    Raises:
        ActorError: no handler of `actor` runs here.
    """
    # An async handler, or a task that it began: its context says what it handles.
    handling = HANDLING.get()
    if handling is not None and handling[0] is actor and actor.runs_on(handling):
        return _remaining_s(handling)
    # A plain handler leaves no trace, since each costs every message some of its rate. It ends before
    # anything else can run, so whoever called it is above it on the stack, and knows what it handles.
    began: float | None = None
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_qualname
        if name == _TIMED:
            began = frame.f_locals["began"]
        # The pump may run handlers of several actors in each other: the frame has to be this actor's.
        elif name in _PUMPED and frame.f_locals["self"] is actor:
            return _left_of(actor, frame.f_locals[_PUMPED[name]])
        elif name == _INLINE and frame.f_locals["self"] is actor:
            now: float = actor.system.now()
            # No clock was looked at when it was asked: the first look counts.
            if began is None:
                began = actor.system.inline.first_asked(frame, now)
            return max(0.0, began + float(frame.f_locals["deadline_s"]) - now)
        frame = frame.f_back
    message = f"the rest of a deadline is that of a handler, got none of '{actor.name}' here"
    raise ActorError(message, hint="ask for it in `receive`, or in a task of an async one that has not ended")


def rest_of(handling: Handling | None) -> float | None:
    """Returns how long what a handler asks may take where it does not say; None for what the system says."""
    if handling is None or not handling[0].cancellable:
        return None
    left_s = _remaining_s(handling)
    # When nothing is left it waits for one tick, and ends as any ask does that is late.
    return None if left_s is None else max(left_s, handling[0].system.timer_wheel.tick_s)


def _remaining_s(handling: Handling) -> float | None:
    actor = handling[0]
    return _left_of(actor, actor.question(handling))


def _left_of(actor: Turns, job: Any) -> float | None:
    """Returns how long whoever asked `job` waits; None where that is no question."""
    return max(0.0, job.since + job.limit_s - actor.system.now()) if type(job) is Ask else None
