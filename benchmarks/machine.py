"""Where a benchmark ran, as plain data: what decides speed, and nothing that names host or user."""

from __future__ import annotations

import asyncio
import os
import platform
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

Machine = dict[str, Any]

SLOWING = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")
"""Make a current numpy choose kernels for another processor; it reads them once, when it loads."""


def shed_slowing_variables() -> None:
    """Starts this very command again without the variables of `SLOWING`, if one is set."""
    if not any(name in os.environ for name in SLOWING):
        return
    clean = {name: value for name, value in os.environ.items() if name not in SLOWING}
    sys.stdout.flush()
    os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], clean)


class Company:
    """How busy other processes keep the processors, from its making on; the figures are only as good."""

    def __init__(self) -> None:
        self._start = _clocks()

    def cores(self) -> float | None:
        """Returns how many cores they used on average since then; None where nobody counts that."""
        now = _clocks()
        if self._start is None or now is None:
            return None
        seconds, busy, own = (b - a for a, b in zip(self._start, now, strict=True))
        return round(max(busy - own, 0.0) / max(seconds, 1e-9), 2)


def _clocks() -> tuple[float, float, float] | None:
    """Returns the time, and the processor seconds of everyone and of this process."""
    stat = Path("/proc/stat")
    if not stat.exists():
        return None
    user, nice, system, _, _, irq, softirq, steal = map(int, stat.read_text().split("\n", 1)[0].split()[1:9])
    busy = (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")
    return perf_counter(), busy, process_time()


def describe(peers: Sequence[str], company: Company) -> Machine:
    """Returns interpreter, processor, running loop, and the versions of numpy and `peers`.

    A peer that is not installed has version None. `cores_of_others` is how many cores other
    processes used meanwhile.
    """
    loop = type(asyncio.get_running_loop()).__module__.partition(".")[0]
    return {
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "system": f"{platform.system()} {platform.machine()}",
        "cpu": _processor(),
        "cpus": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "cores_of_others": company.cores(),
        "loop": loop if loop == "asyncio" else f"{loop} {_version(loop)}",
        "numpy": _version("numpy"),
        "peers": {peer: _version(peer) for peer in peers},
    }


def _version(distribution: str) -> str | None:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            key, _, value = line.partition(":")
            if key.strip() == "model name":
                return value.strip()
    return platform.processor() or "unknown"
