"""How long a process may take to start: progress counts, and the wall clock only where there is none.

On a busy machine a start that takes 5 s of processor time may take minutes. So a process that works is
charged the processor time that it got, and one that stands still the time that passed. Both end: a start
that works for ever is charged what it uses, and at least 1 / `MOST` of the time.

Pure rules: whoever applies them says how much time has passed, and what the processes have used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

MOST = 10
"""A start may take at most so many times as long as one that makes no progress."""

_WORKS = 0.03
"""The share of a processor from which a process works: one that waits for others wakes now and then."""

LONGEST_S = 1.0
"""How much time may pass between two looks."""


@dataclass(frozen=True, slots=True)
class Start:
    """The start of one process, as far as it has come.

    INVARIANT: `passed_s / MOST <= charged_s <= passed_s`.

    Attributes:
        passed_s: How long it has taken.
        charged_s: How much of its time that was.
        used_s: Processor time that its present life had used at the last look.
    """

    passed_s: float = 0.0
    charged_s: float = 0.0
    used_s: float = 0.0


def looked(start: Start, passed_s: float, used_s: float | None) -> Start:
    """Returns a start after a look.

    Args:
        start: As it was at the look before.
        passed_s: Since that.
        used_s: The processor time of the process until now; None where nobody can tell.
    """
    if used_s is None:
        return Start(start.passed_s + passed_s, start.charged_s + passed_s, start.used_s)
    worked_s = used_s - start.used_s if used_s >= start.used_s else used_s  # less is another life
    works = worked_s > _WORKS * passed_s
    charge_s = min(passed_s, max(worked_s, passed_s / MOST)) if works else passed_s
    return Start(start.passed_s + passed_s, start.charged_s + charge_s, used_s)


class Starts:
    """The starts of several processes: too late when one of them has used up its time.

    Args:
        ready_s: The time of each.
        now_s: When they begin.
    """

    def __init__(self, ready_s: float, now_s: float) -> None:
        self._ready_s = ready_s
        self._now_s = now_s
        self._every_s = min(LONGEST_S, ready_s / 4)
        self._starts: dict[str, Start] = {}

    def late(self, now_s: float, missing: Iterable[str], used_s: Callable[[], Mapping[str, float]]) -> bool:
        """Tells whether the time of one that is missing is up; looks as often as is worth it.

        Args:
            now_s: The time.
            missing: Who has not started yet, of those who were missing before.
            used_s: Gives the processor time of those of whom somebody can tell.
        """
        passed_s = now_s - self._now_s
        if passed_s >= self._every_s:
            self._now_s = now_s
            used = used_s()
            self._starts = {
                name: looked(self._starts.get(name, Start()), passed_s, used.get(name)) for name in missing
            }
        return any(at.charged_s >= self._ready_s for at in self._starts.values())

    def passed_s(self) -> float:
        """Returns how long the starts have taken, at the last look."""
        return max((at.passed_s for at in self._starts.values()), default=0.0)

    def said(self) -> str:
        """Says how the time that counts was reached: "" where it is that of the wall clock."""
        charged_s = max((at.charged_s for at in self._starts.values()), default=0.0)
        if self.passed_s() - charged_s < LONGEST_S:
            return ""
        return f", of {self.passed_s():.0f} s that passed while it worked on a busy machine"
