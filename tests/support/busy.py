"""How long tests wait on a machine that does other things as well.

Who waits for an event waits until it comes: `HANG_S` only says that it never does. Where seconds are what is
promised, they are counted as a `Stopwatch` does: those for which this machine let a process run.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

HANG_S = 240.0
"""After so long without what a test waits for, it never comes; less than the limit of the whole test."""

MOST = 50.0
"""A stopwatch counts at least so small a part of the time."""


def competitors() -> float:
    """Returns how many processes there are for each core that would run now; at least 1."""
    try:
        runnable = int(Path("/proc/loadavg").read_text().split()[3].partition("/")[0])
    except (OSError, ValueError, IndexError):  # not Linux
        return 1.0
    return max(1.0, runnable / (os.cpu_count() or 1))


class Stopwatch:
    """Counts the seconds that a process would have had to itself: look often, for each look tells the load.

    Args:
        clock: Tells the time.
        load: Tells how many share a core now.
    """

    def __init__(
        self, clock: Callable[[], float] = time.perf_counter, load: Callable[[], float] = competitors
    ) -> None:
        self._clock = clock
        self._load = load
        self._at_s = clock()
        self._counted_s = 0.0
        self._loads = load()

    def counted_s(self) -> float:
        """Returns the seconds until now, each divided by how many have shared a core."""
        now_s, load = self._clock(), self._load()
        self._counted_s += (now_s - self._at_s) / min(max(load, self._loads), MOST)
        self._at_s, self._loads = now_s, load
        return self._counted_s


def until(true: Callable[[], object], within_s: float = 10.0, every_s: float = 0.002) -> float:
    """Waits for a condition, for so many counted seconds; returns how many it took."""
    watch = Stopwatch()
    while not true():
        assert watch.counted_s() < within_s, f"in vain for {within_s:g} s: {true}"
        time.sleep(every_s)
    return watch.counted_s()


@contextmanager
def counted() -> Iterator[Callable[[], float]]:
    """Counts the seconds of its block in a thread; gives what returns them, after it as well."""
    watch, over = Stopwatch(), threading.Event()
    found = [0.0]

    def look() -> None:
        while not over.wait(0.02):
            found[0] = watch.counted_s()

    thread = threading.Thread(target=look, name="tests-counted", daemon=True)
    thread.start()
    try:
        yield lambda: found[0]
    finally:
        over.set()
        thread.join()
        found[0] = watch.counted_s()
