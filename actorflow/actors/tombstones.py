"""The tombstones of a system: which actors died last, when and why.

What is kept of an actor are texts.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from actorflow.errors import ActorDied, HandlerError, Where, describe, shorten
from actorflow.transport.codec.registry import travels

KEPT = 64
"""How many of the actors that failed are remembered, and as many of those that were asked to stop."""

REASON = 300
"""Characters that are kept of a reason."""

_NAMED = 20
"""Living actors that an error names, where one is asked for that is not there."""


@travels("actors.tombstone")
@dataclass(frozen=True, slots=True)
class Tombstone:
    """One actor that is dead.

    Attributes:
        name: As it was addressed.
        at_s: When it died, by the clock of its system: the machine's, or the simulation's.
        error: The type of what it failed with, such as KeyError; empty when it was asked to stop.
        reason: What its error said, in one line of at most 300 characters; empty when it was asked to stop.
        incarnation: Its last one.
    """

    name: str
    at_s: float
    error: str = ""
    reason: str = ""
    incarnation: int = 1

    def ago(self, now: float) -> str:
        """Says how long ago it died."""
        return ago(now - self.at_s)

    def describe(self, now: float) -> str:
        """Says what became of the actor, without its name."""
        life = f" in incarnation {self.incarnation}" if self.incarnation > 1 else ""
        if not self.error:
            return f"was stopped{life} {self.ago(now)}"
        return f"died{life} {self.ago(now)}: {self.reason}"

    def ask_error(self, name: str, kind: str, now: float) -> ActorDied:
        """Returns what somebody hears who asks the dead.

        Args:
            name: What the asker calls the actor.
            kind: The type of the question.
            now: The present time.
        """
        if not self.error:
            return ActorDied(f"'{name}' was stopped before it answered {kind} ({self.ago(now)})")
        return ActorDied(f"'{name}' died before it answered {kind}: {self.reason} ({self.ago(now)})")

    def watch_error(self, now: float) -> ActorDied | None:
        """Returns the reason that somebody hears who watches the dead; None when it was asked to stop."""
        if not self.error:
            return None
        return ActorDied(f"'{self.name}' {self.describe(now)}", where=Where(actor=self.name))

    def __str__(self) -> str:
        return f"{self.name}: {self.describe(self.at_s)}"


def ago(seconds: float) -> str:
    """Says how long ago something was: in seconds, to the millisecond."""
    # A skewed clock, or that of another host, may be behind.
    return f"{f'{max(0.0, seconds):.3f}'.rstrip('0').rstrip('.')} s ago"


def reason_of(error: BaseException) -> str:
    """Returns what an error says, in one line of at most `REASON` characters."""
    # An error may say nothing, or begin with an empty line.
    line = next((line for line in describe(error, typed=False).splitlines() if line.strip()), None)
    return shorten(type(error).__name__ if line is None else line, REASON)


def kind_of(error: BaseException) -> str:
    """Returns the type of what a handler raised, or of the error itself."""
    # What the user's handler raised says more than that a handler raised.
    cause = error.__cause__
    kind = type(cause if isinstance(error, HandlerError) and cause is not None else error)
    return shorten(kind.__name__, REASON)


def because(reason: BaseException | None) -> str:
    """Returns the end of a sentence on why something ended; empty where it was asked to."""
    return "" if reason is None else f": {reason_of(reason)}"


def ending_error(what: str, before: str, reason: BaseException | None) -> ActorDied:
    """Returns what those hear who still wait for an actor that ends.

    Args:
        what: The actor, in the user's words: `queue 'lines'`.
        before: What it had not done yet: `it could answer`.
        reason: Why it ends; None when it was asked to.
    """
    if reason is None:
        return ActorDied(f"{what} was stopped before {before}")
    error = ActorDied(f"{what} died before {before}: {reason_of(reason)}")
    error.__cause__ = reason
    return error


def absent(where: str, actor: str, there: Iterable[str], dead: Tombstones, now: float) -> str:
    """Says that a process has no actor of a name: because it died, or which ones it has.

    Args:
        where: The process, in words.
        actor: The name that was asked for.
        there: The actors that it has.
        dead: Those that it had.
        now: The present time.
    """
    stone = dead.find(actor)
    if stone is not None:
        return f"actor '{actor}' of {where} {stone.describe(now)}"
    names = sorted(there)
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{where} has no actor '{actor}'; it has {', '.join(names[:_NAMED]) or 'none'}{more}"


class Tombstones:
    """The last of the dead of one system.

    INVARIANT: of those that failed the last `KEPT` are here, and of those that were stopped.

    Attributes:
        died: How many have failed.
        stopped: How many were asked to stop.
    """

    __slots__ = ("_failed", "_stopped", "died", "stopped")

    def __init__(self, keep: int = KEPT) -> None:
        # Apart: actors that are asked to stop, often many, do not push out those for which somebody will
        # look.
        self.died = self.stopped = 0
        self._failed: deque[tuple[int, Tombstone]] = deque(maxlen=keep)
        self._stopped: deque[tuple[int, Tombstone]] = deque(maxlen=keep)

    def add(self, name: str, at_s: float, reason: BaseException | None, incarnation: int = 1) -> Tombstone:
        """Remembers an actor that is dead, and returns what is kept of it."""
        # The order of their deaths over both.
        number = self.died + self.stopped
        if reason is None:
            stone = Tombstone(name, at_s, incarnation=incarnation)
            self.stopped += 1
            self._stopped.append((number, stone))
        else:
            # Texts alone: the error would keep all that its handler had in hands.
            stone = Tombstone(name, at_s, kind_of(reason), reason_of(reason), incarnation)
            self.died += 1
            self._failed.append((number, stone))
        return stone

    def all(self) -> tuple[Tombstone, ...]:
        """Returns those that are remembered, in the order in which they died."""
        return tuple(stone for _, stone in sorted((*self._failed, *self._stopped), key=lambda pair: pair[0]))

    # the last of that name: earlier ones were of other lives
    def find(self, name: str) -> Tombstone | None:
        """Returns what is remembered of the last actor of a name."""
        return next((stone for stone in reversed(self.all()) if stone.name == name), None)

    def __repr__(self) -> str:
        return f"<{self.died} died, {self.stopped} were stopped>"
