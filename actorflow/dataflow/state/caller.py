"""Calls of code outside of every graph to an actor that takes them: as a node does, without a step."""

from __future__ import annotations

from asyncio import CancelledError, Future
from collections.abc import Callable
from typing import Any

from actorflow.actors.ref import Ref, Sender
from actorflow.errors import StepAborted
from actorflow.runtime.messages import Call, CancelCall

_GONE = StepAborted("whoever asked does not wait any more")


class Caller:
    """The reply of a call that no node makes.

    Attributes:
        future: Gets the answer.
        undo: How the answer is given back, if it took something away.
    """

    __slots__ = ("future", "interrupt", "undo")

    def __init__(self, future: Future[Any]) -> None:
        self.future = future
        self.interrupt: Callable[[], None] | None = None
        self.undo: Any = None

    def __repr__(self) -> str:
        return f"<Caller, {'answered' if self.future.done() else 'waiting'}>"

    @property
    def error(self) -> BaseException | None:
        """Why nobody waits, None while somebody does."""
        return _GONE if self.future.done() else None

    def done(self, value: Any, undo: Any = None) -> None:
        """Answers with a value."""
        if not self.future.done():
            self.undo = undo
            self.future.set_result(value)

    def failed(self, error: BaseException) -> None:
        """Answers with an error."""
        if not self.future.done():
            self.future.set_exception(error)

    def note_wait(self, at: Any, why: Callable[[], str]) -> None:
        """It waits in the line of its actor; whoever asked is cancelled, or waits as long as that takes."""

    def wrote(self) -> None:
        """Part of what is asked has taken effect; nothing of it could be undone anyway."""


async def call(ref: Ref, body: Any, sender: Sender, future: Future[Any]) -> Any:
    """Asks `body` of an actor that takes calls, and returns the answer; waits as long as that takes.

    Whoever is cancelled takes the call back, and gives back what it got in that very turn.

    Args:
        ref: Whom.
        body: The question.
        sender: Who does not mind when the call stands in a line.
        future: A fresh one of the loop.
    """
    reply = Caller(future)
    ref.put(Call(reply, body), sender)
    try:
        return await future
    except CancelledError:
        ref.signal(CancelCall(reply))
        if reply.undo is not None:
            ref.signal(reply.undo)
        raise
    finally:
        del future, reply  # an error knows this frame, which would keep it
