"""Programs for children, and what tests ask of processes."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.busy import until

PYTHON = (sys.executable, "-S", "-E", "-c")
"""Without site-packages, so that a child starts in some 10 ms."""

SLEEPS = [*PYTHON, "import time; print('up', flush=True); time.sleep(60)"]
IGNORES = [
    *PYTHON,
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(60)",
]
DRAINS = [
    *PYTHON,
    """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
print("up", flush=True)
time.sleep(60)
""",
]


def ends(code: int) -> list[str]:
    return ["/bin/sh", "-c", f"exit {code}"]


def state(pid: int) -> str | None:
    """The letter of /proc of a process: R, S, T, Z; None when there is none."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return text[text.rindex(")") + 2]


def is_gone(pid: int) -> bool:
    """Whether it has ended, reaped or not: who reaps orphans is nothing of ours."""
    return state(pid) in (None, "Z", "X")


def is_up(log: Path) -> Callable[[], bool]:
    return lambda: log.exists() and "up" in log.read_text()


def stopped(pid: int) -> None:
    os.kill(pid, signal.SIGSTOP)
    until(lambda: state(pid) == "T")


def descriptors() -> set[tuple[str, str]]:
    """The open descriptors of this process and what they are."""
    found = set()
    for entry in os.listdir("/proc/self/fd"):
        try:
            found.add((entry, os.readlink(f"/proc/self/fd/{entry}")))
        except FileNotFoundError:  # the one of the listing
            continue
    return found


@contextmanager
def short_folder() -> Iterator[Path]:
    """A folder whose path leaves room for sockets."""
    with tempfile.TemporaryDirectory(prefix="af", dir="/tmp") as name:
        yield Path(name)
