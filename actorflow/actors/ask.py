"""A question on its way, and the books that prove that every question ends exactly once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Protocol

from actorflow.actors.timer_wheel import Bucket, remove
from actorflow.errors import DeadlinePassed, InternalError

if TYPE_CHECKING:
    from actorflow.actors.outbox import Target
    from actorflow.actors.scheduling.inline import Inline
    from actorflow.actors.task_carrier import Handling


class Accounts:
    """Counts how asks end.

    INVARIANT: `issued == replied + failed + timed_out + cancelled + open`, and at rest no ask is open.

    Attributes:
        inline: Counts the asks that were answered inline, before they could wait for anything; None for none.
        sent: All others.
        answered: Those of them that were answered.
    """

    __slots__ = ("answered", "cancelled", "failed", "inline", "late", "sent", "timed_out")

    def __init__(self) -> None:
        self.inline: Inline | None = None
        self.sent = self.answered = 0
        self.failed = self.timed_out = self.cancelled = self.late = 0

    @property
    def issued(self) -> int:
        """All asks."""
        # Those answered inline are counted by who answers them, once, as answered: see `Inline`.
        return self.sent + self._at_once

    @property
    def replied(self) -> int:
        """Asks that were answered."""
        return self.answered + self._at_once

    @property
    def _at_once(self) -> int:
        return 0 if self.inline is None else self.inline.answered

    @property
    def open(self) -> int:
        """Asks that have not ended."""
        return self.issued - self.replied - self.failed - self.timed_out - self.cancelled

    def check(self) -> None:
        """Raises InternalError unless every ask has ended exactly once."""
        if self.open:
            message = f"every ask must end exactly once, got {self}"
            raise InternalError(message)

    def __repr__(self) -> str:
        return (
            f"{self.issued} issued = {self.replied} replied + {self.failed} failed + "
            f"{self.timed_out} timed out + {self.cancelled} cancelled ({self.late} late)"
        )


class ReplySink(Protocol):
    """Where an answer goes: a future, or whatever sends it on. Ends once, as a future does."""

    def done(self) -> bool:
        """Tells whether it has ended."""
        ...

    def set_result(self, result: Any, /) -> None:
        """Takes the answer."""
        ...

    def set_exception(self, exception: BaseException, /) -> None:
        """Takes the error instead."""
        ...

    def result(self) -> Any:
        """Returns the answer of one that has ended."""
        ...

    def exception(self) -> BaseException | None:
        """Returns the error of one that has ended."""
        ...

    def cancel(self) -> object:
        """Nobody waits any more."""
        ...

    def cancelled(self) -> bool:
        """Tells whether nobody waited any more."""
        ...


class HoldingReplySink(ABC):
    """A `ReplySink` that holds something back while its question stands in line, such as credit.

    Attributes:
        name: What reports call whoever asks.
    """

    __slots__ = ()

    name: str

    @abstractmethod
    def admitted(self) -> None:
        """Hears that the question has left the line for the mailbox."""


class _Over:
    """The answer of a question that has ended without one: nobody waits."""

    __slots__ = ()

    def done(self) -> bool:
        return True

    def set_result(self, result: Any, /) -> None: ...

    def set_exception(self, exception: BaseException, /) -> None: ...

    def result(self) -> None: ...

    def exception(self) -> None: ...

    def cancel(self) -> None: ...

    def cancelled(self) -> bool:
        return True


_OVER = _Over()


class _Was:
    """Stands for the message of a question that has ended."""

    __slots__ = ("kind",)

    def __init__(self, kind: str) -> None:
        self.kind = kind


class Ask:
    """Asker → actor: a message whose handler's return value is the answer.

    Ends exactly once, by whichever comes first: `done`, `failed`, `expire` or `cancel`. While it
    waits for room it is its own entry in the line, and while it is open it is the edge asker →
    target of the wait-for graph.

    INVARIANT: once it has ended without an answer it holds neither message nor future.
    """

    __slots__ = (
        "bucket",
        "ended",
        "future",
        "limit_s",
        "message",
        "nbytes",
        "run",
        "since",
        "target",
        "waiter",
    )

    asks = True

    def __init__(
        self,
        message: Any,
        nbytes: int,
        future: ReplySink,
        target: Target,
        waiter: Target | Handling | None,
        since: float,
        limit_s: float,
    ) -> None:
        self.message = message
        self.nbytes = nbytes
        self.future = future
        self.target = target
        self.waiter = waiter
        self.since = since
        self.limit_s = limit_s
        self.bucket: Bucket | None = None
        self.ended = False
        self.run: Handling | None = None  # which run of a re-entrant target handles it

    @property
    def void(self) -> bool:
        """True once nobody wants an answer any more."""
        return self.future.done()

    @property
    def kind(self) -> str:
        """The name of the type of its message."""
        message = self.message
        return message.kind if type(message) is _Was else type(message).__name__

    @property
    def awaited(self) -> Target | Handling:
        """Who must go on before it can be answered."""
        return self.run or self.target

    def enter(self) -> None:
        """Enters the mailbox of its target."""
        # ORDER: in first: what is told of it may give credit, for which the next one comes.
        self.target.add(self, self.nbytes)
        if isinstance(self.future, HoldingReplySink):
            self.future.admitted()

    def done(self, value: Any) -> None:
        """Answers with a value."""
        future = self.future
        # Asker, deadline or death was first: whoever comes later changes nothing.
        if future.done():
            self._late()
            return
        self.ended = True
        bucket = self.bucket
        # `remove`, written out for what every answered ask does
        if bucket is not None:
            del bucket[self]
            self.bucket = None
        self.target.system.accounts.answered += 1
        future.set_result(value)

    def failed(self, error: BaseException) -> bool:
        """Answers with an error; false when nobody hears it any more."""
        if self.future.done():
            # The supervisor has to know whether anybody heard of it.
            self._late()
            return False
        self.ended = True
        remove(self)
        self.target.system.accounts.failed += 1
        self._release().set_exception(error)
        return True

    def refuse(self) -> None:
        """Its target died while it waited for room."""
        self.failed(self.target.death_error(self.message))

    def expire(self) -> None:
        """The deadline has passed."""
        if self.future.done():
            return
        # The wheel has taken it out already.
        self.ended = True
        self.target.system.accounts.timed_out += 1
        what = (
            # ORDER: put into words before it is let go of.
            f"'{self.target.name}' did not answer {type(self.message).__name__} within {self.limit_s:g} s: "
            f"{self.target.obstacle()}"
        )
        self._release().set_exception(DeadlinePassed(what))
        self.target.withdraw(self)

    def cancel(self) -> None:
        """The asker waits no more; does nothing to an ask that has ended."""
        # By itself, by its deadline, or by an answer of the same tick.
        if self.ended:
            return
        self.ended = True
        remove(self)
        self.target.system.accounts.cancelled += 1
        self._release().cancel()
        # It may stand in line for room, where others are behind it.
        self.target.withdraw(self)

    def _release(self) -> ReplySink:
        """Returns the future, which it lets go of, as of the message."""
        # It may stand in a mailbox for long yet: by then only its kind is of interest, for reports. And the
        # error of the future knows frames that know the question.
        future, self.future = self.future, _OVER
        self.message = _Was(self.kind)
        return future

    def _late(self) -> None:
        self.target.system.accounts.late += 1
        if not self.ended:  # the asker was cancelled and has not run since
            self.cancel()
