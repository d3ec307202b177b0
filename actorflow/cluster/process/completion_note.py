"""The note that a chief leaves beside its socket file when its job is complete, for those who start late.

Over tcp there is none: then the chief itself answers as long as it is there. A note holds for the program
that was run, and for `HOLDS_S`; whoever begins a job at the same address removes it first.
"""

from __future__ import annotations

import json
import logging
import os
import stat
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from actorflow.errors import ConfigError, JobOver
from actorflow.runtime.clock import epoch_ms
from actorflow.transport.rules.address import Ipc, place

log = logging.getLogger("actorflow.cluster")

HOLDS_S = 3600.0
"""After so long a note says nothing any more: whoever starts then waits for another job."""

_MOST_BYTES = 4096


@dataclass(frozen=True, slots=True)
class CompletionNote:
    """What is left of a job that is complete.

    Attributes:
        program: What it ran, as links compare it.
        incarnation: Of its chief.
        ended_ms: When it was complete, in milliseconds since the epoch.
    """

    program: str
    incarnation: int
    ended_ms: int


def path_of(address: str) -> Path | None:
    """Returns where the note for an address is; None where there can be none.

    >>> from actorflow.cluster.process.completion_note import path_of
    >>> path_of("ipc:///run/x/chief"), path_of("tcp://10.0.0.7:4000")
    (PosixPath('/run/x/chief.over'), None)
    """
    try:
        at = place(address)
    except ConfigError:  # as of a simulated wire
        return None
    return Path(f"{at.path}.over") if isinstance(at, Ipc) else None


def leave(address: str, program: str, incarnation: int, now_ms: Callable[[], int] = epoch_ms) -> None:
    """Leaves a note; a disk that is full is no reason to fail."""
    path = path_of(address)
    if path is None:
        return
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    text = json.dumps({"program": program, "incarnation": incarnation, "ended_ms": now_ms()})
    try:
        beside.write_text(text)
        beside.replace(path)  # whoever reads finds all of it, or none
    except OSError as error:
        log.warning("who starts late will not hear that the job is complete: %s: %s", path, error.strerror)
        with suppress(OSError):
            beside.unlink(missing_ok=True)


def forget(address: str) -> None:
    """Removes the note of an earlier job."""
    path = path_of(address)
    if path is not None:
        with suppress(OSError):
            path.unlink(missing_ok=True)


def read(address: str) -> CompletionNote | None:
    """Returns the note for an address; None where there is none, or one that nobody of us has left."""
    path = path_of(address)
    if path is None:
        return None
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
                return None
            said = json.loads(file.read(_MOST_BYTES))
        return CompletionNote(str(said["program"]), int(said["incarnation"]), int(said["ended_ms"]))
    except (OSError, ValueError, TypeError, KeyError):
        return None


def over(
    note: CompletionNote | None, program: str, chief: int, now_ms: int, *, waited: bool
) -> JobOver | None:
    """Returns that the job of a process is complete, as far as a note says so for sure; else None.

    Args:
        note: Which was found; None for none.
        program: What the process runs.
        chief: The incarnation of the chief that it knows; 0 for none.
        now_ms: The time.
        waited: Whether a chief of another job would have answered by now.
    """
    if note is None or note.program != program:
        return None
    mine = 0 < chief <= note.incarnation
    fresh = chief == 0 and waited and 0 <= now_ms - note.ended_ms <= HOLDS_S * 1e3
    return complete() if mine or fresh else None


def complete() -> JobOver:
    """Returns what a process hears whose job is complete."""
    return JobOver("the job is complete, and there is nothing left to do")
