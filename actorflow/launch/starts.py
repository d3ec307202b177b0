"""How long a process may take to start: progress counts, and the wall clock only where there is none.

On a busy machine a start that takes 5 s of processor time may take minutes. So a process that works is
charged the processor time that it got, and one that stands still the time that passed. Both end: a start
that works for ever is charged what it uses, and at least 1 / `MOST` of the time. A process that could run,
and waits for a processor because others have them all, works, however little it gets.

Pure rules: whoever applies them says how much time has passed, and what the processes have used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

MOST = 10
"""A start may take at most so many times as long as one that makes no progress."""

_WORKS = 0.03
"""The share of its time from which a process works or would: one that waits for others wakes now and then."""

LONGEST_S = 1.0
"""How much time may pass between two looks."""


@dataclass(frozen=True, slots=True)
class Used:
    """What a process has used until now.

    Attributes:
        cpu_s: Processor time.
        queued_s: How long its threads could have run while others did.
    """

    cpu_s: float = 0.0
    queued_s: float = 0.0


@dataclass(frozen=True, slots=True)
class StartProgress:
    """The start of one process, as far as it has come.

    INVARIANT: `passed_s / MOST <= charged_s <= passed_s`.

    Attributes:
        passed_s: How long it has taken.
        charged_s: How much of its time that was.
        used: What its present incarnation had used at the last look.
    """

    passed_s: float = 0.0
    charged_s: float = 0.0
    used: Used = Used()


def look(start: StartProgress, passed_s: float, used: Used | None) -> StartProgress:
    """Returns a start after a look.

    Args:
        start: As it was at the look before.
        passed_s: Since that.
        used: What the process has used until now; None where nobody can tell.
    """
    if used is None:
        return StartProgress(start.passed_s + passed_s, start.charged_s + passed_s, start.used)
    before = start.used if used.cpu_s >= start.used.cpu_s else Used()  # less is another incarnation
    worked_s = used.cpu_s - before.cpu_s
    queued_s = max(0.0, used.queued_s - before.queued_s)  # less where a thread has ended
    works = worked_s + queued_s > _WORKS * passed_s
    charge_s = min(passed_s, max(worked_s, passed_s / MOST)) if works else passed_s
    return StartProgress(start.passed_s + passed_s, start.charged_s + charge_s, used)


class StartWatch:
    """The starts of several processes: too late when one of them has used up its time.

    Args:
        ready_s: The time of each.
        now_s: When they begin.
    """

    def __init__(self, ready_s: float, now_s: float) -> None:
        self._ready_s = ready_s
        self._now_s = now_s
        self._every_s = min(LONGEST_S, ready_s / 4)
        self._starts: dict[str, StartProgress] = {}

    def late(self, now_s: float, missing: Iterable[str], used: Callable[[], Mapping[str, Used]]) -> bool:
        """Tells whether the time of one that is missing is up; looks as often as is worth it.

        Args:
            now_s: The time.
            missing: Who has not started yet, of those who were missing before.
            used: Gives what those have used of whom somebody can tell.
        """
        passed_s = now_s - self._now_s
        if passed_s >= self._every_s:
            self._now_s = now_s
            found = used()
            self._starts = {
                name: look(self._starts.get(name, StartProgress()), passed_s, found.get(name))
                for name in missing
            }
        return any(at.charged_s >= self._ready_s for at in self._starts.values())

    def passed_s(self) -> float:
        """Returns how long the starts have taken, at the last look."""
        return max((at.passed_s for at in self._starts.values()), default=0.0)

    def describe(self) -> str:
        """Says how the time that counts was reached: "" where it is that of the wall clock."""
        charged_s = max((at.charged_s for at in self._starts.values()), default=0.0)
        if self.passed_s() - charged_s < LONGEST_S:
            return ""
        return f", of {self.passed_s():.0f} s that passed while it worked on a busy machine"
