"""The state of a process of this machine, and what it has used, as the kernel has it in /proc.

It answers when the process itself does not: because a signal has stopped it, it waits in the kernel, or its
interpreter is held up.
"""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")

_TICKS_S = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
_PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096
_STATE, _UTIME, _STIME, _RSS, _CODE = 0, 11, 12, 21, 49  # places behind the name, see proc(5)


@dataclass(frozen=True, slots=True)
class Usage:
    """A process as the kernel sees it.

    Attributes:
        state: One letter: R runs, S sleeps, D waits in the kernel, T was stopped, Z has ended.
        cpu_s: Seconds of all cores that it has used.
        rss: Bytes of memory that it holds.
        signal: Which signal has stopped it; 0 if none has, or nobody may know.
    """

    state: str
    cpu_s: float
    rss: int
    signal: int = 0

    @property
    def stuck(self) -> bool:
        """Whether it can answer nobody, as the kernel has it."""
        return self.state in "TtDZX"

    def __str__(self) -> str:
        """Says how it stands."""
        match self.state:
            case "T" | "t":
                by = f" by {_process_state(self.signal)}" if self.signal else ""
                return f"it was stopped{by}; SIGCONT lets it go on"
            case "D":
                return "it waits in the kernel, for a disk as a rule"
            case "Z" | "X":
                return "it has ended"
            case "R":
                return "it runs: one call may hold up its interpreter"
            case _:
                return "it sleeps"


def usage(pid: int, proc: Path = PROC) -> Usage | None:
    """Returns how a process stands; None when there is none, or no /proc."""
    try:
        text = (proc / str(pid) / "stat").read_text("ascii", "replace")
        fields = text.rpartition(")")[2].split()
        cpu_s = (int(fields[_UTIME]) + int(fields[_STIME])) / _TICKS_S
        stopped = fields[_STATE] in "Tt" and len(fields) > _CODE
        by = int(fields[_CODE]) & 0x7F if stopped else 0
        return Usage(fields[_STATE], cpu_s, int(fields[_RSS]) * _PAGE, by)
    except (OSError, ValueError, IndexError):
        return None


def _process_state(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
