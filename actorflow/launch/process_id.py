"""Tells a process from a later one that got its number."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from actorflow.launch.starts import Used


@dataclass(frozen=True, slots=True)
class ProcessId:
    """A process of this machine.

    Attributes:
        pid: Its number.
        started: When it started, in ticks since the machine did; 0 where the system does not say.
        world: The boot of the machine, and the namespace in which the number is its own.
    """

    pid: int
    started: int
    world: str

    @classmethod
    def of(cls, pid: int) -> ProcessId | None:
        """Returns the process that has this number now, None when there is none."""
        fields = _status(pid)
        if fields is None:
            return None
        return cls(pid, int(fields[19]) if fields else 0, _world())

    @classmethod
    def own(cls) -> ProcessId:
        """Returns this process."""
        return cls.of(os.getpid()) or cls(os.getpid(), 0, _world())

    @classmethod
    def read(cls, said: Any) -> ProcessId | None:
        """Returns a process from its `data`; None for anything else."""
        if not isinstance(said, dict) or set(said) != {"pid", "started", "world"}:
            return None
        if type(said["pid"]) is not int or type(said["started"]) is not int or said["pid"] < 1:
            return None
        return cls(said["pid"], said["started"], str(said["world"]))

    def data(self) -> dict[str, Any]:
        """Returns it as a value that JSON holds."""
        return {"pid": self.pid, "started": self.started, "world": self.world}

    def is_alive(self) -> bool | None:
        """Tells whether it still runs; None when that cannot be known here, as of another container."""
        if self.world != _world():
            return False if self.world.split()[0] != _world().split()[0] else None
        fields = _status(self.pid)
        if not fields:
            return fields is not None
        return int(fields[19]) == self.started and fields[0] not in ("Z", "X")


def processor_times(pids: Mapping[str, int]) -> dict[str, Used]:
    """Returns what processes have used, with the processor time of their children which have ended.

    Those are left out that are not there, or of which the system does not say it.
    """
    found = {name: _status(pid) for name, pid in pids.items()}
    ticks = os.sysconf("SC_CLK_TCK")
    return {
        name: Used(sum(map(int, fields[11:15])) / ticks, _queued_s(pids[name]))
        for name, fields in found.items()
        if fields
    }


def _queued_s(pid: int) -> float:
    """How long the threads of a process have waited for a processor; 0 where the system does not say it."""
    waited_ns = 0
    for path in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        with suppress(OSError, IndexError):  # it has ended meanwhile
            waited_ns += int(path.read_text().split()[1])
    return waited_ns / 1e9


def _status(pid: int) -> list[str] | None:
    """The fields of /proc/PID/stat from the state on; [] where there is no /proc, None for no process."""
    try:
        text = Path(f"/proc/{pid}/stat").read_bytes().decode("ascii", "replace")
        return text[text.rindex(")") + 2 :].split()  # the name before it may hold anything
    except ProcessLookupError:  # it ended between open and read
        return None
    except FileNotFoundError:
        if Path("/proc/self/stat").exists():
            return None
    except OSError:
        pass
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except PermissionError:
        pass
    return []


@lru_cache(maxsize=1)
def _world() -> str:
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return "- -"
