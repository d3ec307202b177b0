"""The outside world during a simulated run: time, chance, threads, sockets and the collector.

`patch_environment` makes what the running thread sees of it a function of the seed, or refuses it, and puts
everything back at the end. Other threads of the process see the real world throughout.

Time follows the clock of the run; `time.time` begins at `EPOCH_S`. Chance: `actorflow.sim.engine.chance`.
What is refused: `actorflow.sim.engine.forbidden_calls`. Each says what it cannot replace. Here it is:

- functions bound before the run, as in `from time import perf_counter`;
- `datetime.now`, `utcnow`, `today` and `date.today`: C methods of C classes. To replace the classes
  would break `isinstance` and every module that holds them. Use `datetime.fromtimestamp(time.time())`;
- the clocks of C extensions, and files' times;
- the environment: variables, the machine's name, the process id, the time zone of `localtime`,
  the names of temporary files.

Entry and exit cost 55 to 75 us together, with numpy, hypothesis and pytest loaded.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Lock, get_ident
from types import TracebackType
from typing import Any, Self

from actorflow.errors import Escape, SimulationError
from actorflow.sim.engine import chance, deterministic_ids, forbidden_calls
from actorflow.sim.engine.collector import Collector
from actorflow.sim.engine.patch import Patch, replace, restore, running

EPOCH_S = 946_684_800  # 2000-01-01T00:00:00Z: what time.time says when the clock of the run says 0


def patch_environment(
    now: Callable[[], float], seed: int, advance: Callable[[float], None] | None = None
) -> PatchedEnvironment:
    """Returns a context in which the thread that enters it sees a simulated world outside.

    Args:
        now: The clock of the run, in seconds; never goes back.
        seed: What chance is made from; any integer.
        advance: What `time.sleep(seconds)` does; None refuses it, since a sleep blocks the loop.

    Raises:
        SimulationError: On entry, where a run goes on in this process: collector and hidden generators
            exist once, so there is one run at a time. Use processes.
    """
    return PatchedEnvironment(now, seed, advance)


class PatchedEnvironment:
    """The world outside one run; `patch_environment` makes it.

    Promise: whatever ends the body, everything is as it was afterwards.

    Attributes:
        refused: The first few things that the run was refused, also where the program caught the error.
    """

    __slots__ = ("_advance", "_now", "_seed", "refused")

    def __init__(self, now: Callable[[], float], seed: int, advance: Callable[[float], None] | None) -> None:
        self._now = now
        self._seed = seed
        self._advance = advance
        self.refused: list[Escape] = []

    def tidy(self) -> int:
        """Collects the garbage that the run made; returns how many objects that were."""
        return _collector.tidy()

    def __enter__(self) -> Self:
        if not _one_at_a_time.acquire(blocking=False):
            # The collector and the hidden generators exist once in a process.
            raise SimulationError(
                "one simulated run at a time in a process, and one goes on in "
                + ("this thread" if running.thread == get_ident() else "another thread"),
                hint="end that run first; to run several at once, use processes (pytest -n)",
            )
        try:
            # ORDER: the collector first: what it collects now must still see the real world.
            _collector.begin()
            _replace_all()
            _clock.begin(self._now, self._advance)
            chance.chance.begin(self._seed, _clock.time_ns)
            running.refused = self.refused
            running.thread = get_ident()  # ORDER: last, when all that it switches is in place
        except BaseException:
            # From wherever the entry had got to; each part may be put back when nothing was begun.
            _leave()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            _collector.tidy()  # ORDER: first, so that finalisers of the run still see its world
        finally:
            _leave()


class _Clock:
    """The functions of `time`, by the clock of the run."""

    __slots__ = ("_advance", "_now")

    def __init__(self) -> None:
        self._now: Callable[[], float] = float
        self._advance: Callable[[float], None] | None = None

    def begin(self, now: Callable[[], float], advance: Callable[[float], None] | None) -> None:
        self._now = now
        self._advance = advance

    def elapsed(self) -> float:
        return self._now()

    def elapsed_ns(self) -> int:
        return round(self._now() * 1e9)

    def time(self) -> float:
        return EPOCH_S + self._now()

    def time_ns(self) -> int:
        return EPOCH_S * 1_000_000_000 + round(self._now() * 1e9)

    def gettime(self, clock: int) -> float:
        # Only the wall clock has an epoch; all others count from the start of the run.
        return self.time() if clock == time.CLOCK_REALTIME else self.elapsed()

    def gettime_ns(self, clock: int) -> int:
        return self.time_ns() if clock == time.CLOCK_REALTIME else self.elapsed_ns()

    def sleep(self, seconds: float) -> None:
        if seconds < 0:
            raise ValueError("sleep length must be non-negative")  # what time.sleep says
        if self._advance is None:
            # It would block the one thread there is, and virtual time with it.
            forbidden_calls.refuse("block", f"time.sleep({seconds!r})", "await asyncio.sleep(seconds)")
        self._advance(seconds)


_collector = Collector()
_clock = _Clock()


def _time_patches() -> list[Patch]:
    """Makes the patches of what this platform has of `time`."""
    inside: dict[str, Callable[..., Any]] = {
        "time": _clock.time,
        "time_ns": _clock.time_ns,
        "clock_gettime": _clock.gettime,
        "clock_gettime_ns": _clock.gettime_ns,
        "sleep": _clock.sleep,
    }
    # All clocks of the process show virtual time: none of them may tell what the machine is like.
    for name in ("monotonic", "perf_counter", "process_time", "thread_time"):
        inside |= {name: _clock.elapsed, f"{name}_ns": _clock.elapsed_ns}
    inside |= {name: _of_now(getattr(time, name)) for name in ("localtime", "gmtime", "ctime")}
    inside |= {"asctime": _of_local(time.asctime, 0), "strftime": _of_local(time.strftime, 1)}
    return [Patch(time, name, function) for name, function in inside.items() if hasattr(time, name)]


def _of_now(real: Callable[..., Any]) -> Callable[..., Any]:
    """`real`, for which no seconds, or None, mean virtual time."""
    return lambda seconds=None: real(_clock.time() if seconds is None else seconds)


def _of_local(real: Callable[..., Any], before: int) -> Callable[..., Any]:
    """`real`, with virtual local time for its last argument, where only the `before` others are given."""

    def inside(*args: Any) -> Any:
        return real(*args, _local(_clock.time())) if len(args) == before else real(*args)

    return inside


_local = time.localtime
_one_at_a_time = Lock()
_patches: list[Patch] = [
    *_time_patches(),
    *chance.patches(),
    *forbidden_calls.patches(),
    *deterministic_ids.patches(),
]
# Modules that have not been loaded yet are patched by the first run after they were.
_waiting = set(forbidden_calls.LATE)


def patches() -> tuple[Patch, ...]:
    """Returns all that a run puts in the place of something else, as far as the modules are there by now."""
    return tuple(_patches)


def _replace_all() -> None:
    forbidden_calls.install()
    if _waiting:
        _patches.extend(forbidden_calls.late_patches(_waiting))
    replace(_patches)


def _restore_all() -> None:
    try:
        restore(_patches)
    except BaseException:  # an interrupt: put back the rest all the same
        restore(_patches)
        raise


def _leave() -> None:
    """Puts the real world back, from whatever point the entry or the run had reached."""
    # ORDER: first: from here on all stand-ins go to the real functions.
    running.thread = 0
    running.refused = []
    try:
        chance.chance.end()
    # Whatever fails, all parts are put back, and the place is free again last.
    finally:
        try:
            _restore_all()
        finally:
            try:
                _collector.end()
            finally:
                _one_at_a_time.release()
