"""Where a benchmark ran, as plain data: what decides speed, and nothing that names host or user."""

from __future__ import annotations

import asyncio
import os
import platform
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
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


def describe(peers: Sequence[str]) -> Machine:
    """Returns interpreter, processor, running loop, and the versions of numpy and `peers`.

    A peer that is not installed has version None.
    """
    loop = type(asyncio.get_running_loop()).__module__.partition(".")[0]
    return {
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "system": f"{platform.system()} {platform.machine()}",
        "cpu": _processor(),
        "cpus": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
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
