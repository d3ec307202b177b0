"""The affinity of an object to one event loop, and with it to one thread: calls come from there.

The runtime is one loop's: its state has no locks, since nobody else touches it. A call from elsewhere
would be a race, or would run a handler in a foreign thread; so every public one asks `check` first, before
it changes anything.

What is asked costs about 35 ns, where `threading.get_ident` and a comparison take 60 and
`asyncio.get_running_loop`, which asks the system for the process's number on 3.11, takes 170: a
re-entrant lock that its thread never gives back says in one call without an object whose it is. Hot
callers keep `thread` and `loop` at hand and write the test out:

    if not self.thread._is_owned() or not self.loop.is_running():
        affinity.check()

It leaves out a loop that goes on in another thread than that in which the object was made, which `check`
then lets pass by the loop alone.
"""

from __future__ import annotations

import threading
from _thread import RLock
from asyncio import AbstractEventLoop, _get_running_loop
from typing import Any

from actorflow.errors import WrongLoop

HINT = (
    "hand it over to that loop: asyncio.run_coroutine_threadsafe(coroutine, loop) for what is awaited, "
    "loop.call_soon_threadsafe(call) for the rest"
)


class _NoLoop:
    """Stands for the loop of what belongs to a thread alone."""

    __slots__ = ()

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return False

    def __repr__(self) -> str:
        return "none"


class Affinity:
    """The event loop that something belongs to, and the thread of whoever made this.

    Args:
        what: What belongs to it, as the error calls it.
        loop: The loop; None for what belongs to its thread alone, as where no loop runs.

    Attributes:
        thread: A lock that the thread holds for good.
        ended: Whether nothing is left that a call from elsewhere could harm: then all may call.
    """

    __slots__ = ("_name", "ended", "loop", "thread", "what")

    def __init__(self, what: str, loop: AbstractEventLoop | None) -> None:
        self.what = what
        self.loop: Any = _NoLoop() if loop is None else loop
        # Re-entrant and never given back: its `_is_owned` says whose thread this is without asking the
        # system.
        self.thread: Any = RLock()
        self.thread.acquire()
        self.ended = False
        # Kept now, for the error: the thread may have ended by then.
        self._name = threading.current_thread().name

    def check(self) -> None:
        """Raises WrongLoop in another thread or event loop than this; nothing may have changed before.

        The thread itself may call while its loop does not run, and no other; nobody once that is closed.
        """
        owned = self.thread._is_owned()
        # The usual case, and all that hot callers test.
        if owned and self.loop.is_running():
            return
        here = _get_running_loop()
        # This loop, though in another thread than where this was made; or nothing is left to be harmed.
        if here is self.loop or self.ended:
            return
        # No loop runs here: the thread itself may build and look, unless its loop has ended.
        if owned and here is None:
            if not self.loop.is_closed():
                return
            message = f"{self.what} is used in its own event loop alone, and {self.loop!r} is closed"
            raise WrongLoop(message, hint="close what was opened before its loop ends, as `async with` does")
        where = "outside any event loop" if here is None else f"in {here!r}"
        message = (
            f"{self.what} is used in its own event loop and thread alone, {self.loop!r} in thread "
            f"'{self._name}', got a call {where} in thread '{threading.current_thread().name}'"
        )
        raise WrongLoop(message, hint=HINT)


def affinity_here(what: str) -> Affinity:
    """Returns that to the loop that runs here, or to this thread alone where none does."""
    return Affinity(what, _get_running_loop())
