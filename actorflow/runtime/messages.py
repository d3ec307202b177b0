"""The messages between actors: tokens, requests and signals. Records only, no behaviour."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from actorflow.errors import ActorflowError


class _Dead:
    """The value on an edge whose branch was not taken; compare with `is`, never `==`."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "DEAD"


DEAD = _Dead()


class Reply(Protocol):
    """Where the answer to a request goes; used exactly once, later calls are ignored.

    Attributes:
        interrupt: What to call when nobody waits for the answer any more, if its handler set it.
    """

    interrupt: Callable[[], None] | None

    @property
    def error(self) -> BaseException | None:
        """Why nobody waits for the answer any more; None while somebody does."""
        ...

    def done(self, value: Any, undo: Any = None) -> None:
        """Answers with a value.

        Args:
            value: The answer.
            undo: For an answer that takes something away for good: what to tell the actor, on the
                control lane, if nobody gets to use it after all.
        """
        ...

    def failed(self, error: BaseException) -> None:
        """Answers with an error."""
        ...

    def wrote(self) -> None:
        """Says that part of what is asked has taken effect, before the answer: it cannot be undone."""
        ...

    def note_wait(self, at: Any, why: Callable[[], str]) -> None:
        """Hears that the request stands in a line for long.

        Args:
            at: The address of the actor: if nobody waits any more it is sent a CancelCall.
            why: Says for whom it waits, as long as it does.
        """
        ...


@dataclass(slots=True)
class Request:
    """A message that its receiver must answer through `reply`, now or later.

    The actor model answers it with ActorDied when it cannot be delivered, so that whoever waits
    is never left waiting. Subclasses add the fields of the question.
    """

    reply: Reply


@dataclass(slots=True)
class Call(Request):
    """A node's question to an actor that holds state: `body` says what is asked.

    `reply.error` is set once the step of the node has ended; the call is void from then on.
    """

    body: Any


@dataclass(frozen=True, slots=True)
class CancelCall:
    """Step → actor, control lane: the step behind `reply` has ended; forget what waits for it."""

    reply: Reply


@dataclass(frozen=True, slots=True)
class Terminated:
    """System → watcher, control lane, never lost: the watched actor has stopped.

    Attributes:
        actor: Address of the actor that stopped.
        reason: The error that stopped it; None when it was asked to stop.
    """

    actor: str
    reason: ActorflowError | BaseException | None
