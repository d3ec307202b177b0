"""The lock of one variable: who holds it, who stands in line, and what the holder has written so far.

A block of a step holds the variables that it names from their locks to its end. One `Locks` is the rule
of one of them, beside its register:

* The holder reads and writes a working copy. At the end of the block that becomes the value, or it is
  dropped: nobody else ever sees a value in between, and a rollback restores value and version.
* Others read the value of before at once. Their writes and locks stand in one line, first come first
  served, behind the holder and behind each other.
* A training update changes all its variables when it commits, and by then may not wait. So it counts as
  a holder from its stage to its commit, beside other updates but not beside a block: it is staged when no
  block holds the variable, and a block locks it when no update is staged. Else a block of two variables
  could see one before an update and one after it.
* What waits for something else, as an assign does that would change the shape under a staged update,
  stands in the same line.

Nobody here waits for anything but the end of blocks and of staged updates. Blocks lock, and updates are
staged, in an order that all share (`graph.atomic_block`): so there is no ring.

How far a block has come, at one variable:

             lock  write    publish  roll back
    free     held  .        .        .
    held     .     written  free     free
    written  .     .        free     free

Pure: who waits is opaque, and the caller handles those whom `next` lets go on, one after the other.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from actorflow.dataflow.state.register import Forget, Register, Source
from actorflow.runtime.story import Story
from actorflow.runtime.validation import validates


class LockPhase(Enum):
    """How far a block has come, at one variable."""

    FREE = auto()
    HELD = auto()  # by a block that has asked for nothing yet
    WRITTEN = auto()  # by one that has a working copy: it may have been written to


class LockEvent(Enum):
    """What a block does."""

    LOCK = auto()
    WRITE = auto()  # it asks for the working copy, for the first time
    PUBLISH = auto()  # it ends well
    ROLL_BACK = auto()  # it ends otherwise


TRANSITIONS: Mapping[tuple[LockPhase, LockEvent], LockPhase] = {
    (LockPhase.FREE, LockEvent.LOCK): LockPhase.HELD,
    (LockPhase.HELD, LockEvent.WRITE): LockPhase.WRITTEN,
    (LockPhase.HELD, LockEvent.PUBLISH): LockPhase.FREE,
    (LockPhase.HELD, LockEvent.ROLL_BACK): LockPhase.FREE,
    (LockPhase.WRITTEN, LockEvent.PUBLISH): LockPhase.FREE,
    (LockPhase.WRITTEN, LockEvent.ROLL_BACK): LockPhase.FREE,
}
"""The table above. What is not in it does not happen."""


@dataclass(frozen=True, slots=True)
class LockOwner:
    """A block of a step of a session; `number` is the source's own, and grows."""

    source: Source
    number: int
    block: str
    step: int

    def __str__(self) -> str:
        return f"atomic block {self.block!r} of step {self.step} of {self.source}"


@dataclass(frozen=True, slots=True)
class _LockWaiter:
    """Somebody in line; `also` tells what else keeps it back than the lock."""

    who: Any
    also: Callable[[], bool] | None = None


@validates("lock", "write", "next", "take", "state", "end", "leave", "everyone", "forget")
class Locks:
    """The lock of one variable.

    INVARIANT: a block holds it or updates are staged, never both; `working` is there only while a block
    holds it.

    Attributes:
        phase: How far the block that holds it has come.
        story: Which blocks held it last. Reads and writes of others are not in it: those are the hot path.
    """

    __slots__ = ("_base", "holder", "line", "phase", "register", "story", "working")

    def __init__(self, register: Register) -> None:
        self.register = register
        self.phase = LockPhase.FREE
        self.story = Story()
        self.holder: LockOwner | None = None
        self.working: Register | None = None
        self.line: deque[_LockWaiter] = deque()
        self._base = 0

    def __repr__(self) -> str:
        held = "free" if self.holder is None else f"held by {self.holder}"
        return f"<Locks of {self.register.name!r}, {held}, {len(self.line)} in line>"

    @property
    def idle(self) -> bool:
        """Whether no block holds the variable and nobody stands in line."""
        return self.holder is None and not self.line

    @property
    def quiet(self) -> bool:
        """Whether there is nothing that anybody could wait for."""
        return self.holder is None and not self.line and not self.register.staged

    # -- may it go on? -----------------------------------------------------------------------------

    def lock(self, who: Any) -> bool:
        """Tells whether a block may lock it at once; else `who` stands in line for that."""
        return self.write(who, self._has_staged)

    def write(self, who: Any, also: Callable[[], bool] | None = None) -> bool:
        """Tells whether a write of no block, or a stage, may go on at once; else `who` stands in line."""
        if self.idle and (also is None or not also()):
            return True
        self.line.append(_LockWaiter(who, also))
        return False

    def next(self) -> Any | None:
        """Takes out who may go on now, None when nobody may; who locks has to `take` before the next call."""
        if not self.line or self.holder is not None:
            return None
        also = self.line[0].also
        return None if also is not None and also() else self.line.popleft().who

    def leave(self, is_gone: Callable[[Any], bool]) -> None:
        """Takes those out of the line who wait no more."""
        self.line = deque(w for w in self.line if not is_gone(w.who))

    def everyone(self) -> list[Any]:
        """Takes out all who wait."""
        found = [waiting.who for waiting in self.line]
        self.line.clear()
        return found

    def _has_staged(self) -> bool:
        return bool(self.register.staged)

    # -- the holder --------------------------------------------------------------------------------

    def take(self, owner: LockOwner) -> None:
        """Gives the lock to a block; it is free."""
        if self.holder is not None:
            message = f"variable {self.register.name!r} was locked twice, by {self.holder} and {owner}"
            raise self.story.broken(message)
        self._move(LockEvent.LOCK, owner)
        self.holder = owner

    def state(self, owner: LockOwner) -> Register:
        """Returns the working copy of the holder."""
        if owner != self.holder:
            message = f"{owner} does not hold variable {self.register.name!r}"
            raise self.story.broken(message)
        if self.working is None:
            self._move(LockEvent.WRITE, owner)
            self.working = self.register.fork()
            self._base = self.register.version
        return self.working

    def forget(self, whom: Forget) -> None:
        """Lets go of receipts; those in the working copy of a block would come back when it ends."""
        for register in filter(None, (self.register, self.working)):
            register.forget(whom)

    def end(self, owner: LockOwner, *, publish: bool) -> None:
        """Ends the block of the holder: its writes become the value, or never were.

        Whoever does not hold the lock ends nothing.
        """
        if owner != self.holder:
            return
        self._move(LockEvent.PUBLISH if publish else LockEvent.ROLL_BACK, owner)
        working, self.working, self.holder = self.working, None, None
        if working is not None and publish:
            self.register.adopt(working, self._base)

    def _move(self, event: LockEvent, owner: LockOwner) -> None:
        self.story.append((event.name.lower(), owner.block, owner.step))
        phase = TRANSITIONS.get((self.phase, event))
        if phase is None:
            what = f"nothing follows {event.name} by {owner} in {self.phase.name}"
            raise self.story.broken(what)
        self.phase = phase

    def validate(self) -> None:
        """Raises InternalError where an invariant does not hold."""
        if (what := self._violation()) is not None:
            raise self.story.broken(what)

    def _violation(self) -> str | None:
        name, phase = self.register.name, self.phase
        if (phase is LockPhase.FREE) != (self.holder is None):
            return f"variable {name!r} is FREE while no block holds it, got {phase.name} and {self.holder}"
        if (phase is LockPhase.WRITTEN) != (self.working is not None):
            return f"variable {name!r} has a working copy while it is WRITTEN, got {phase.name}"
        if self.holder is not None and self.register.staged:
            staged = len(self.register.staged)
            return f"variable {name!r} is held or has staged updates, got {self.holder} and {staged} of these"
        for register in filter(None, (self.register, self.working)):
            if (what := register.violation()) is not None:
                return what
        return None
