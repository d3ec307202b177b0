"""The limit on how long an actor takes to end: past it the actor is abandoned, so leaving always ends.

A handler that goes on although it was cancelled is cancelled again and again, with a warning; an `on_stop`
may take `stop_s` seconds before it is cancelled.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from actorflow.actors.turns import Hook
from actorflow.errors import ActorError, Where

if TYPE_CHECKING:
    from actorflow.actors.task_carrier import TaskCarrier
    from actorflow.actors.turns import Turns

log = logging.getLogger("actorflow.actors")


class Overdue:
    """Watches an actor whose handlers, or whose `on_stop`, have not ended yet."""

    __slots__ = ("_actor", "_began", "_cancelled", "_timer", "_until")

    def __init__(self, actor: Turns) -> None:
        self._actor = actor
        self._cancelled = False  # whether the `on_stop` was
        self._began = actor.system.now()
        self._until = self._began + actor.system.stop_s
        self._arm()

    def cancel(self) -> None:
        """Watches no more."""
        self._timer.cancel()

    def _arm(self) -> None:
        system = self._actor.system
        # Looks now and then, as often as an ask may wait, and once when the time is up.
        self._timer = system.timer_wheel.after(min(system.deadline_s, self._until - system.now()), self._look)

    def _look(self) -> None:
        actor = self._actor
        system = actor.system
        if not actor.busy:
            return
        if system.now() < self._until:
            log.warning("'%s' is to stop, but %s", actor.name, actor.obstacle())
            for carrier in tuple(actor.busy):
                # An `on_stop` may take its time, all of it, before it is cancelled.
                if carrier.job is not Hook.STOP:
                    carrier.cancel()
        elif not self._cancelled and any(carrier.job is Hook.STOP for carrier in actor.busy):
            # Cancelled once, and given as long as an ask to end by itself.
            self._cancelled = True
            self._until = system.now() + system.deadline_s
            log.warning("on_stop of '%s' takes more than %g s and is cancelled", actor.name, system.stop_s)
            for carrier in tuple(actor.busy):
                carrier.cancel()
        else:
            for carrier in tuple(actor.busy):
                # Closing its coroutine runs its `finally`; the actor ends with an error that names it.
                _abandon(actor, carrier, system.now() - self._began)
            system.hurry()  # or each of many would take as long, one after the other
            return
        self._arm()


def _abandon(actor: Turns, carrier: TaskCarrier, took_s: float) -> None:
    job, where = carrier.job, carrier.where()
    whose = f"its {job.value}" if isinstance(job, Hook) else "its handler"
    stop_s = actor.system.stop_s
    limit = f"{stop_s:g} s" if job is not Hook.STOP else f"{took_s:.3g} s, where stop_s is {stop_s:g},"
    message = (
        f"'{actor.name}' did not stop within {limit} and is abandoned: "
        f"{whose} went on although it was cancelled, {where}"
    )
    hint = "let asyncio.CancelledError through, or raise it again"
    error = ActorError(message, hint=hint, where=Where(actor=actor.name))
    log.error("%s", error)
    # An error that ended it before is the reason; this one only took long.
    actor.reason = actor.reason or error
    carrier.abandon()
