"""Decides whether a process that has ended is started again, and after how long.

The k-th restart in a row waits `first_s · 2^(k-1)`, at most `max_s`; an incarnation that lasted `healthy_s`
ends the row. In any `window_s` seconds there are at most `limit` restarts; one more gives the process up.

Pure rules: no clock, no process. `process_supervisor.py` obeys them.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from actorflow.errors import ConfigError, pluralise
from actorflow.launch.exits import meaning, worth_restart
from actorflow.values.checks import is_whole, number


@dataclass(frozen=True, slots=True)
class Restarts:
    """How often and how soon a process is started again.

    Attributes:
        limit: Restarts within any `window_s`; 0 for none at all.
        window_s: Length of that window.
        first_s: How long the first restart waits; each further one in a row twice as long.
        max_s: The longest wait.
        healthy_s: An incarnation that lasted as long ends a row.
    """

    limit: int = 5
    window_s: float = 60.0
    first_s: float = 0.1
    max_s: float = 5.0
    healthy_s: float = 10.0

    def __post_init__(self) -> None:
        """Raises ConfigError for what cannot mean anything."""
        if not is_whole(self.limit, 0, plain=True):
            message = f"limit must be an integer of at least 0, got {self.limit!r}"
            raise ConfigError(message)
        for name in ("window_s", "first_s", "max_s", "healthy_s"):
            if not 0 <= number(value := getattr(self, name)) < inf:
                message = f"{name} must be a number of at least 0, got {value!r}"
                raise ConfigError(message)
        if self.max_s < self.first_s:
            message = f"max_s must be at least first_s, {self.first_s}, got {self.max_s}"
            raise ConfigError(message)


NEVER = Restarts(limit=0)
"""Nothing is started again."""


@dataclass(frozen=True, slots=True)
class Past:
    """What a process has been through.

    Attributes:
        restarts: When it was decided to start it again, in seconds; those within the last window.
        row: How many restarts there were since an incarnation was healthy.
    """

    restarts: tuple[float, ...] = ()
    row: int = 0


@dataclass(frozen=True, slots=True)
class Restart:
    """It starts again after so many seconds."""

    after_s: float


@dataclass(frozen=True, slots=True)
class GiveUp:
    """It does not start again.

    Attributes:
        why: The end of a sentence that begins with its name.
        gave_up: Whether it was worth another incarnation and has had too many.
    """

    why: str
    gave_up: bool


def decide(
    past: Past, rule: Restarts, returncode: int, *, lasted_s: float, now_s: float
) -> tuple[Past, Restart | GiveUp]:
    """Returns what becomes of a process that has ended.

    Args:
        past: What it had been through before.
        rule: How often it may be started again.
        returncode: How it ended, as `subprocess` has it.
        lasted_s: How long this incarnation was.
        now_s: The time, on any clock that does not go back.
    """
    if not worth_restart(returncode):
        return past, GiveUp(meaning(returncode), gave_up=False)
    recent = tuple(at for at in past.restarts if now_s - at <= rule.window_s)
    if len(recent) >= rule.limit:
        said = f" after {pluralise(len(recent), 'restart')} in {rule.window_s:g} s" if recent else ""
        return Past(recent, past.row), GiveUp(f"{meaning(returncode)}{said}", gave_up=True)
    row = 0 if lasted_s >= rule.healthy_s else past.row
    wait_s = min(rule.max_s, rule.first_s * 2.0 ** min(row, 64))
    return Past((*recent, now_s), row + 1), Restart(wait_s)


def told_incarnation(said: str | None, previous: int, now_ms: int) -> int:
    """Returns the incarnation of a process: as a supervisor says, once, and else as `next_incarnation`.

    Args:
        said: `ACTORFLOW_INCARNATION`, or None.
        previous: Of the incarnation before in this process, 0 for none.
        now_ms: The time.

    Raises:
        ConfigError: it says no number from 1 on.
    """
    if said is None:
        return next_incarnation(previous, now_ms)
    if not (said.isascii() and said.isdigit() and len(said) < 20 and int(said)):
        message = f"ACTORFLOW_INCARNATION must be a number from 1 on, got {said!r:.60}"
        raise ConfigError(message)
    return int(said) if int(said) > previous else next_incarnation(previous, now_ms)


def next_incarnation(previous: int, now_ms: int) -> int:
    """Returns the number of the next incarnation: the time, but always above the one before."""
    return max(previous + 1, now_ms)
