"""Which session two links are in: who each is, how they meet, and what a stranger's word does.

A session is a pair of ends. An end is (incarnation, attempt): which start of a process, and a number that
grows each time this end begins anew. So no pair comes twice, and the later of two ends of a peer is larger.

1. Each end says Hello, from its own end to the peer's as far as it knows that (`NOBODY` at first), again
   and again until it is answered.
2. Who hears a Hello from a later end than it knows remembers that end and says Hello to it. If it was in
   a session, that is over.
3. Who hears anything that is for its own end, from the end that it remembers, is in the session, and says
   so by a Beat.
4. Anything else that is not for its own end, or from an earlier end than it remembers, changes no state
   and is answered by Reset, which tells the end that is remembered. A Reset ends the session of whoever is
   still in it. So a process that was paused and given up finds out by the first word it says, or hears.
   Who hears it from a later end than it knows says Hello instead.
5. Who greets and hears a Reset is of an earlier incarnation only if that tells of a later end than its own.
   Else its peer was in the session first, and has ended it: it says Hello again.
6. Whoever ends a session takes the next attempt.

How far an end is, and what follows:

              met   lost  left   fenced  closed
    greeting  open  down  .      closed  closed
    open      open  down  quiet  .       closed
    down      open  down  .      closed  closed
    quiet     open  down  .      closed  closed
    closed    .     .     .      .       .

Nothing here decides when to speak: `link` does, and it owns the clock.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto

from actorflow.runtime.story import Story
from actorflow.runtime.validation import validates
from actorflow.transport.rules.datagrams import NOBODY, DatagramKind, SessionEnd


class Phase(Enum):
    """How far two ends have come."""

    GREETING = auto()  # the first session has not begun; what is sent waits for it
    OPEN = auto()
    DOWN = auto()  # the last session is over, and this end says Hello
    QUIET = auto()  # the same, and the peer has closed its end: only a later incarnation of it can say Hello
    CLOSED = auto()  # for good


class PhaseEvent(Enum):
    """What an end goes through."""

    MET = auto()  # something came that is for this end, from the end that it remembers
    LOST = auto()  # this end gives the session, or the attempt at one, up
    LEFT = auto()  # the peer says Goodbye
    FENCED = auto()  # the peer knows a later incarnation of this process
    CLOSED = auto()  # this end closes


TRANSITIONS: Mapping[tuple[Phase, PhaseEvent], Phase] = {
    (Phase.GREETING, PhaseEvent.MET): Phase.OPEN,
    (Phase.GREETING, PhaseEvent.LOST): Phase.DOWN,
    (Phase.GREETING, PhaseEvent.FENCED): Phase.CLOSED,
    (Phase.GREETING, PhaseEvent.CLOSED): Phase.CLOSED,
    (Phase.OPEN, PhaseEvent.MET): Phase.OPEN,
    (Phase.OPEN, PhaseEvent.LOST): Phase.DOWN,
    (Phase.OPEN, PhaseEvent.LEFT): Phase.QUIET,
    (Phase.OPEN, PhaseEvent.CLOSED): Phase.CLOSED,
    (Phase.DOWN, PhaseEvent.MET): Phase.OPEN,
    (Phase.DOWN, PhaseEvent.LOST): Phase.DOWN,
    (Phase.DOWN, PhaseEvent.FENCED): Phase.CLOSED,
    (Phase.DOWN, PhaseEvent.CLOSED): Phase.CLOSED,
    (Phase.QUIET, PhaseEvent.MET): Phase.OPEN,
    (Phase.QUIET, PhaseEvent.LOST): Phase.DOWN,
    (Phase.QUIET, PhaseEvent.FENCED): Phase.CLOSED,
    (Phase.QUIET, PhaseEvent.CLOSED): Phase.CLOSED,
}
"""The table above. What is not in it does not happen: then this process is at fault."""


class Heard(Enum):
    """What to do about a datagram."""

    TAKE = auto()  # it is of this session
    OPENED = auto()  # the same, and with it the session has begun
    GREET = auto()  # say Hello to its source
    RESET = auto()  # say Reset to its source
    IGNORE = auto()
    RESTARTED = auto()  # the session is over: a later end of the peer speaks. End it, then ask again
    ENDED = auto()  # the session is over: the peer said so
    FENCED = auto()  # the peer knows a later incarnation of this process


@validates("hear", "end")
class Handshake:
    """What one end knows of the session.

    INVARIANT: `theirs` and `mine` never become earlier.

    Args:
        incarnation: Which start of this process it is.
        story: Where the changes of phase go; by default a story of its own.

    Attributes:
        mine: This end.
        theirs: The latest end of the peer that said Hello, or NOBODY.
        phase: How far it is.
        story: The last changes of phase.
    """

    __slots__ = ("_mine_was", "_theirs_was", "mine", "phase", "story", "theirs")

    def __init__(self, incarnation: int, story: Story | None = None) -> None:
        self.mine = self._mine_was = SessionEnd(incarnation, 1)
        self.theirs = self._theirs_was = NOBODY
        self.phase = Phase.GREETING
        self.story = Story() if story is None else story

    def hear(
        self, form: DatagramKind, source: SessionEnd, target: SessionEnd, known: SessionEnd = NOBODY
    ) -> Heard:
        """Takes the ends of a datagram and says what to do about it; `known` is what a Reset tells."""
        if self.phase is Phase.CLOSED:  # the Goodbye may have been lost
            return (
                Heard.RESET
                if form in (DatagramKind.CHUNK, DatagramKind.BEAT, DatagramKind.PROBE)
                else Heard.IGNORE
            )
        if form is DatagramKind.HELLO:
            return self._hello(source, target)
        if form is DatagramKind.RESET:
            return self._reset(source, target, known)
        if target == self.mine and source == self.theirs:
            return self._taken()
        if form is DatagramKind.GOODBYE:
            return Heard.IGNORE
        if source > self.theirs:  # its Hello, which says more of it, is still to come
            greets = target != self.mine and self.phase in (Phase.GREETING, Phase.DOWN)
            return Heard.GREET if greets else Heard.IGNORE
        return Heard.RESET

    def _hello(self, source: SessionEnd, target: SessionEnd) -> Heard:
        if source < self.theirs:
            return Heard.RESET
        if source > self.theirs:
            if self.phase is Phase.OPEN:
                return Heard.RESTARTED
            self.theirs = source
        return self._taken() if target == self.mine else Heard.GREET

    def _reset(self, source: SessionEnd, target: SessionEnd, known: SessionEnd) -> Heard:
        if target != self.mine or source < self.theirs:
            return Heard.IGNORE
        if self.phase is Phase.OPEN:
            return Heard.ENDED
        if known > self.mine:
            return Heard.FENCED
        return Heard.IGNORE if self.phase is Phase.QUIET else Heard.GREET

    def _taken(self) -> Heard:
        if self.phase is Phase.OPEN:  # written out, for it is so of nearly all that comes
            return Heard.TAKE
        self._move(PhaseEvent.MET)
        return Heard.OPENED

    def end(self, event: PhaseEvent) -> None:
        """Leaves the session, or gives up the attempt at one.

        Args:
            event: Why.
        """
        self.mine = SessionEnd(self.mine.incarnation, self.mine.attempt + 1)
        self._move(event)

    def _move(self, event: PhaseEvent) -> None:
        phase = TRANSITIONS.get((self.phase, event))
        self.story.append((event.name.lower(), str(self.mine), str(self.theirs)))
        if phase is None:
            what = f"nothing follows {event.name} in {self.phase.name}"
            raise self.story.broken(what)
        self.phase = phase

    def validate(self) -> None:
        """Raises InternalError where an invariant does not hold."""
        if (what := self._violation()) is not None:
            raise self.story.broken(what)

    def _violation(self) -> str | None:
        mine, theirs, phase = self.mine, self.theirs, self.phase
        if mine < self._mine_was or theirs < self._theirs_was:
            was = f"{self._mine_was} and {self._theirs_was}"
            return f"ends never become earlier, got {mine} and {theirs} after {was}"
        self._mine_was, self._theirs_was = mine, theirs
        if phase in (Phase.OPEN, Phase.QUIET) and theirs == NOBODY:
            return f"an end that is {phase.name} knows its peer's, got {theirs}"
        first = mine.attempt == 1
        if (phase is Phase.GREETING and not first) or (first and phase not in (Phase.GREETING, Phase.OPEN)):
            what = f"an end greets in its first attempt, and whoever ends one takes the next, got {mine}"
            return f"{what} when it is {phase.name}"
        return None

    def __repr__(self) -> str:
        return f"{self.phase.name.lower()}, {self.mine} to {self.theirs}"
