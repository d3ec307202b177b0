"""The timers of one actor: a timer belongs to the incarnation that set it, and is delivered to no other.

What a timer brings stands in the mailbox, or in the line before it, from the moment it rings until it is
taken. So whether it may still be delivered is decided when it is taken, not when it rings.

`Timers` and its events are the rule; `ActorTimer` is what an actor obeys it with.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol

from actorflow.actors import timer_wheel
from actorflow.actors.mailbox import MailboxEntry, Sized
from actorflow.actors.outbox import Target, WaitingMessage


@dataclass(frozen=True, slots=True)
class Timers:
    """The timers of the present incarnation that may still be delivered, by number.

    INVARIANT: a number is in at most one of the two.

    Attributes:
        running: Those whose time has not come.
        rung: Those whose messages wait to be taken.
    """

    running: frozenset[int] = frozenset()
    rung: frozenset[int] = frozenset()


def started(state: Timers, number: int) -> Timers:
    """A timer was set."""
    return replace(state, running=state.running | {number})


def rang(state: Timers, number: int) -> Timers:
    """Its time has come; nothing happens to one that is over."""
    # Its time and its cancellation may come in the same tick.
    if number not in state.running:
        return state
    return Timers(state.running - {number}, state.rung | {number})


def cancelled(state: Timers, number: int) -> Timers:
    """It was cancelled, before or after it rang."""
    return Timers(state.running - {number}, state.rung - {number})


def ended(_state: Timers) -> Timers:
    """The incarnation is over, and its timers with it."""
    return Timers()


def taken(state: Timers, number: int) -> tuple[Timers, bool]:
    """Its message is at the front of the mailbox; tells whether it is delivered."""
    # Once: whether taken or not, it is over.
    return cancelled(state, number), number in state.rung


class TimedActor(Target, Protocol):
    """What timers need of the actor that they are of."""

    timers: dict[ActorTimer, None]

    def check_here(self) -> None:
        """Raises WrongLoop in any other thread and loop than that of its system."""
        ...

    def insert(self, message: Sized) -> None:
        """Puts a message that has waited into the mailbox."""
        ...

    def ring(self, timer: ActorTimer) -> WaitingTimer | None:
        """Puts what a timer brings into the mailbox, or into the line, and returns its place there."""
        ...


class ActorTimer(timer_wheel.Timer):
    """One timer of an actor; see `Actor.after`.

    INVARIANT: it is in `timers` of its actor exactly as long as it may still be delivered.
    """

    __slots__ = ("_cell", "_entry", "message")

    def __init__(self, cell: TimedActor, message: Any) -> None:
        super().__init__(self._ring)
        self._cell = cell
        self._entry: MailboxEntry | None = None
        self.message = message

    @property
    def void(self) -> bool:
        """Whether it is not to be delivered any more."""
        return self not in self._cell.timers

    def cancel(self) -> None:
        """Has it never be delivered, even when its message stands in the mailbox; too late is harmless."""
        self._cell.check_here()
        # Still running: it will not ring.
        super().cancel()
        self._cell.timers.pop(self, None)
        # It may stand in the mailbox for long, and nobody will see what it brings.
        self.message = None
        entry, self._entry = self._entry, None
        if entry is not None:
            self._cell.withdraw(entry)  # or it would hold up those behind it

    def take(self) -> bool:
        """Tells, once, whether its message, which has left the mailbox, is delivered."""
        # Delivered only while it is in `timers`: a cancel, and the end of the incarnation, take it out.
        return self._cell.timers.pop(self, self) is None

    def entered(self) -> None:
        """Its message has left the line for the mailbox."""
        self._entry = None

    def _ring(self) -> None:
        entry = self._cell.ring(self)
        if entry is not None:
            self._entry = entry


class WaitingTimer(WaitingMessage):
    """What a timer brings, in the line before a mailbox that is full."""

    __slots__ = ("_cell", "_timer")

    def __init__(self, timer: ActorTimer, nbytes: int, target: TimedActor, since: float) -> None:
        super().__init__(timer.message, nbytes, target, target.system.nobody, since)
        self._cell = target
        self._timer = timer

    @property
    def void(self) -> bool:
        """Whether nobody wants it to enter any more."""
        return self._timer.void

    def enter(self) -> None:
        """Enters the mailbox of its actor."""
        # In the mailbox a cancel has no place to give back: `take` decides.
        self._timer.entered()
        self._cell.insert(Sized(self.message, self.nbytes, self._timer))

    def refuse(self) -> None:
        """Its actor died, and its timers with it."""
