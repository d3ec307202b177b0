"""A program that outlives its launcher for a moment, and ends what that has left: `python guard.py`.

It reads the death pipe, in which the launcher writes `+PID STARTED` for a child and `-PID` for one that was
reaped. At the end of the pipe it has those that are stopped go on, so that they can end in peace, and kills
what is left a moment later: children that had not yet begun to listen, that hold the interpreter's lock, or
that listen to nothing.

It imports nothing of actorflow and no site-packages: it is up in some 10 ms.
"""

from __future__ import annotations

import os
import select
import signal

PATIENCE_S = 0.7
"""How long children may take after the launcher's death; `parent_death` ends most of them sooner."""

_LOOKS = 14


def main() -> None:
    """Waits for the launcher's death, and sees to its children."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    children: dict[int, str] = {}
    with open(int(os.environ["ACTORFLOW_DEATH_PIPE"]), "rb", buffering=0) as pipe:
        rest = b""
        while read := pipe.read(4096):
            *lines, rest = (rest + read).split(b"\n")
            for line in lines:
                _note(children, line.decode())
    left = _signal_all(children, signal.SIGCONT)
    for _ in range(_LOOKS):
        if not left:
            return
        select.select([], [], [], PATIENCE_S / _LOOKS)
        left = _signal_all(left, 0)
    _signal_all(left, signal.SIGKILL)


def _note(children: dict[int, str], line: str) -> None:
    pid, _, started = line[1:].partition(" ")
    if line.startswith("+"):
        children[int(pid)] = started
    else:
        children.pop(int(pid), None)


def _signal_all(children: dict[int, str], number: int) -> dict[int, str]:
    """Sends a signal to those that are there and to their groups; returns them. 0 only looks."""
    there = {}
    for pid, started in children.items():
        state, since = _status(pid)
        if state in ("Z", "X") or since not in (started, None):
            continue  # it has ended, or somebody else has its number
        for send in (os.killpg, os.kill):
            try:
                send(pid, number)
                there[pid] = started
            except OSError:
                continue
    return there


def _status(pid: int) -> tuple[str | None, str | None]:
    """The state of a process and when it started, as /proc has it; None where it says nothing."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            text = file.read().decode("ascii", "replace")
    except OSError:
        return None, None
    fields = text[text.rindex(")") + 2 :].split()
    return fields[0], fields[19]


if __name__ == "__main__":
    main()
