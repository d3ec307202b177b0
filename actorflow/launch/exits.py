"""Exit codes of actorflow's processes: how an ended one is told of, and whether to start it again.

Codes from 64 up are those of sysexits.h; 128 + n is what a shell shows after signal n.
"""

from __future__ import annotations

import signal
from enum import IntEnum


class Exit(IntEnum):
    """How a process of actorflow ends."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    LOST = 69
    ACTOR = 70
    AGAIN = 75
    HUNG_UP = 129
    STOPPED = 130
    UNREAD = 141
    TERMINATED = 143


_MEANINGS = {
    Exit.DONE: "done",
    Exit.FAILED: "the run failed",
    Exit.USAGE: "the command line, the environment or the program file is wrong",
    Exit.LOST: "the coordinator is gone, or could not begin or go on",
    Exit.ACTOR: "an actor failed",
    Exit.AGAIN: "others went on without it, and it has to begin again",
    Exit.HUNG_UP: "its terminal was closed",
    Exit.STOPPED: "stopped by Ctrl-C",
    Exit.UNREAD: "nobody reads what it prints any more",
    Exit.TERMINATED: "terminated",
    126: "the command cannot be executed",
    127: "there is no such command",
}

_OURS = frozenset(Exit)
_ASKED_TO_END = (-signal.SIGINT, -signal.SIGTERM, -signal.SIGHUP)
_FINAL = frozenset(
    (
        Exit.DONE,
        Exit.USAGE,
        Exit.LOST,
        Exit.HUNG_UP,
        Exit.STOPPED,
        Exit.UNREAD,
        Exit.TERMINATED,
        126,
        127,
        *_ASKED_TO_END,
    )
)


def meaning(returncode: int) -> str:
    """Returns how a process ended, as the end of a sentence that begins with its name.

    Args:
        returncode: As `subprocess` has it: the exit code, or -n after signal n.

    >>> from actorflow.launch.exits import meaning
    >>> meaning(-9)
    'was killed by SIGKILL'
    >>> meaning(69)
    'ended with 69: the coordinator is gone, or could not begin or go on'
    """
    if returncode < 0:
        return f"was killed by {_signal(-returncode)}"
    if (said := _MEANINGS.get(returncode)) is not None:
        return f"ended with {returncode}: {said}"
    if 128 < returncode < 128 + signal.NSIG:
        return f"ended with {returncode}, as after {_signal(returncode - 128)}"
    return f"ended with {returncode}"


def worth_restart(returncode: int) -> bool:
    """Tells whether another incarnation may do better than the one that ended so.

    Not one that is done, that was asked to end (SIGTERM, Ctrl-C, hang-up), whose output nobody reads, whose
    coordinator is gone, or whose command is wrong: all of these would end in the same way again, or are meant
    to be over.
    """
    return returncode not in _FINAL


def ending() -> tuple[signal.Signals, ...]:
    """Returns the signals that ask for an end in peace: not SIGHUP where that is ignored, as by nohup."""
    hung_up = () if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else (signal.SIGHUP,)
    return (signal.SIGINT, signal.SIGTERM, *hung_up)


def is_ours(returncode: int) -> bool:
    """Tells whether a process that ended so did it in a way of actorflow's, after a line that says why.

    >>> from actorflow.launch.exits import is_ours
    >>> [is_ours(code) for code in (0, 69, 3, -9)]
    [True, True, False, False]
    """
    return returncode in _OURS


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal has no name
        return f"signal {number}"
