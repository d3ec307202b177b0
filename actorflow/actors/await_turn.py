"""The wait of a coroutine for its turn in a line: how an async handler asks for what may take long.

An ask is answered at once by a plain handler, or not at all. What may have to wait for others goes as a
Call, which its actor keeps until it is its turn.
"""

from __future__ import annotations

from asyncio import Future, get_running_loop
from collections.abc import Callable
from typing import Any

from actorflow.actors.actor import Actor
from actorflow.actors.ref import Ref
from actorflow.errors import StepAborted
from actorflow.runtime.messages import Call, CancelCall, Reply


class _AwaitedReply:
    """The reply to a Call whose answer a coroutine awaits."""

    interrupt: Callable[[], None] | None = None

    def __init__(self, actor: Actor, behind: Reply) -> None:
        self.future: Future[Any] = get_running_loop().create_future()
        self.error: BaseException | None = None
        self._actor = actor
        self._behind = behind

    def done(self, value: Any, undo: Any = None) -> None:
        """Wakes the coroutine."""
        if not self.future.done():
            self.future.set_result(value)

    def failed(self, error: BaseException) -> None:
        """Wakes the coroutine with an error."""
        if not self.future.done():
            self.future.set_exception(error)

    def wrote(self) -> None:
        """A place in a line is not asked for in parts."""

    def note_wait(self, at: Any, why: Callable[[], str]) -> None:
        """Passes on why it waits to the call that the coroutine works on."""
        # Asked only by reports, and maybe after the turn has come.
        self._behind.note_wait(self._actor.ref, lambda: "" if self.future.done() else why())


async def await_turn(actor: Actor, ref: Ref, body: Any, behind: Reply) -> Any:
    """Returns the answer of the actor at `ref` to a Call of `body`, when its turn has come.

    Args:
        actor: Whose handler waits.
        ref: Whom it asks.
        body: What it asks.
        behind: The call that the handler works on: its step says for whom it waits.
    """
    reply = _AwaitedReply(actor, behind)
    ref.put(Call(reply, body), actor.system.nobody)
    try:
        return await reply.future
    finally:
        # Cancelled, or refused before its turn: it must not be left standing in the line.
        if not reply.future.done() or reply.future.cancelled():
            # ORDER: the tombstone first, in case it is its turn before the signal is read.
            reply.error = StepAborted("whoever asked waits no more")
            ref.signal(CancelCall(reply))
        del reply  # an error knows this frame, which would keep it
