"""Ends a child whose launcher has died: it hears of that, may end in peace, and ends in any case.

A thread waits for the end of the death pipe, which comes however the launcher dies. It has the loop call
what was asked for, and ends the process a moment later, also when the loop is held up.

A stopped process runs no thread. So the system is told to send SIGCONT when the launcher dies, as the guard
does unless somebody has killed it: the process goes on and finds the pipe at its end. SIGKILL in its place
would leave no time to end in peace, and the system sends the signal when the *thread* that started the child
ends, at which SIGCONT does no harm.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import sys
import threading
from asyncio import AbstractEventLoop
from collections.abc import Callable
from contextlib import suppress

from actorflow.launch.exits import Exit

GRACE_S = 0.5
"""How long a child may take to end by itself when its launcher is gone."""

_PR_SET_PDEATHSIG = 1


def on_parent_death(
    descriptor: int, loop: AbstractEventLoop, call: Callable[[], None], *, grace_s: float = GRACE_S
) -> None:
    """Has `call` called on the loop when the launcher has died, and ends the process `grace_s` later.

    Call it before anything that takes long: until then the process does not hear of the death. The exit
    code is `Exit.LOST` when the process has not ended by itself.

    Args:
        descriptor: The read end of the death pipe, see `inherited.DEATH_PIPE`; from now on the watch's.
        loop: Which calls `call`; one that is closed or held up does not.
        call: Begins the end of the process.
        grace_s: How long that may take.
    """
    threading.Thread(
        target=_watch, args=(descriptor, loop, call, grace_s), name="actorflow-orphanage", daemon=True
    ).start()
    _continue_at_death()  # after which a launcher that is dead already has its pipe at its end


def _watch(descriptor: int, loop: AbstractEventLoop, call: Callable[[], None], grace_s: float) -> None:
    poll = select.poll()
    poll.register(descriptor, 0)  # no event but that the other end was closed
    poll.poll()
    with suppress(RuntimeError):  # the loop is closed
        loop.call_soon_threadsafe(call)
    threading.Event().wait(grace_s)
    os._exit(Exit.LOST)


def _continue_at_death() -> None:
    """Asks for SIGCONT at the launcher's death; elsewhere than on Linux a stopped child waits for its own."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGCONT), 0, 0, 0)
