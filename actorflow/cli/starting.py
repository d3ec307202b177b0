"""Watches the chief of a launcher until it has built its program: says that it has not, and for how long."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path

from actorflow.errors import NotReady
from actorflow.launch.process_id import processor_times
from actorflow.launch.rundir import pids
from actorflow.launch.starts import StartWatch, Used
from actorflow.launch.task import JOBS

CHIEF = JOBS[0]

FIRST_S, EVERY_S = 10.0, 30.0
"""After how long it is said for the first time, and how often from then on."""

LOOK_S = 0.5
"""How often the launcher looks."""


def has_built(folder: Path) -> bool:
    """Whether the chief has built the program: from then on it answers at a socket in the folder."""
    return any(folder.glob(f"{CHIEF}.*.m"))


def times(waited_s: float) -> int:
    """Returns how often it is to have been said that the chief has not built the program.

    >>> from actorflow.cli.starting import times
    >>> [times(waited_s) for waited_s in (9.9, 10, 39.9, 40, 70)]
    [0, 1, 1, 2, 3]
    """
    return 0 if waited_s < FIRST_S else 1 + int((waited_s - FIRST_S) // EVERY_S)


def late(program: str, ready_s: float, said: str = "") -> NotReady:
    """Returns the error of a chief that has not built the program in time; `said` is how that was counted."""
    what = f"the chief must have built {program} within {ready_s:g} s of its start{said}, and has not"
    hint = "see what its import and build(seed) wait for, or give it longer: --ready-s"
    return NotReady(what, hint=hint)


class Starting:
    """Looks now and then whether the chief has built the program, until that is so or too late.

    Args:
        program: What names it.
        folder: Of the run.
        ready_s: How long the chief may take, from now; see `launch.starts` for what counts.
        say: Is called with a line.
        fail: Is called when it is too late, with the reason.
    """

    def __init__(
        self,
        program: str,
        folder: Path,
        ready_s: float,
        say: Callable[[str], None],
        fail: Callable[[NotReady], None],
    ) -> None:
        self._program = program
        self._folder = folder
        self._ready_s = ready_s
        self._say = say
        self._fail = fail
        self._last_words = 0
        self._loop = asyncio.get_running_loop()
        self._since = self._loop.time()
        self._starts = StartWatch(ready_s, self._since)
        self._timer: asyncio.TimerHandle | None = None
        self._wait()

    def stop(self) -> None:
        """Looks no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _wait(self) -> None:
        self._timer = self._loop.call_later(min(LOOK_S, self._ready_s / 4), self._look)

    def _look(self) -> None:
        self._timer = None
        if has_built(self._folder):
            return
        waited_s = self._loop.time() - self._since
        if self._starts.late(self._loop.time(), (CHIEF,), self._used):
            self._fail(late(self._program, self._ready_s, self._starts.describe()))
            return
        if times(waited_s) > self._last_words:
            self._last_words = times(waited_s)
            self._say(
                f"chief has not built {self._program} yet, after {waited_s:.0f} s; "
                "`actorflow dump` shows how it stands"
            )
        self._wait()

    def _used(self) -> Mapping[str, Used]:
        return processor_times({name: pid for name, pid in pids(self._folder).items() if name == CHIEF})
