"""From a run that fails to the few deviations that it takes.

First whole groups of deviations are left out, then single ones (delta debugging); then fewer but
longer delays are tried; then every delay is shortened, and faults become delays where that
is enough. Each try is a run of the program, so the
result is a plan that was seen to fail.

Source: Zeller, Hildebrandt, "Simplifying and Isolating Failure-Inducing Input", IEEE TSE 2002.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from actorflow.sim.engine.choice import MAX_DELAY, Asked, Deviation
from actorflow.sim.engine.plan import Plan

MAX_RUNS = 500
_TRIES = 200  # of one delay, at places of a run that its own deviations do not name


class Shrinking:
    """The search for the shortest plan that fails.

    Args:
        fails: Runs the program under a plan; true when it fails as it did at first.
        max_runs: How many runs it may take; then the best so far is the result.

    Attributes:
        runs: How many it took.
    """

    def __init__(self, fails: Callable[[Plan], bool], max_runs: int = MAX_RUNS) -> None:
        self._fails = fails
        self._max_runs = max_runs
        self._known: dict[tuple[Deviation, ...], bool] = {}
        self.runs = 0

    def reduce(self, deviations: Sequence[Deviation], places: Sequence[Asked] = ()) -> Plan | None:
        """Returns the shortest plan found; None when not even all the deviations together fail.

        Args:
            deviations: Those of the run that failed.
            places: Its points; where several deviations are left, one long delay is tried at each.
        """
        entries = tuple(sorted(set(deviations)))
        if not self._still(entries):
            return None
        entries = self._fewer_but_longer(self._alone(self._leave_out(entries)))
        if len(entries) > 1:
            entries = self._anywhere(places) or entries
        return Plan.of(self._leave_out(self._shorten(entries)))

    def _anywhere(self, places: Sequence[Asked]) -> tuple[Deviation, ...] | None:
        """Looks whether one long delay does it, at whatever place of the run."""
        tries = 0
        for asked in places:
            for nth in range(1, asked.count + 1 if asked.delays else 0):
                tries += 1
                alone = (Deviation(asked.label, nth, f"+{MAX_DELAY}"),)
                if tries > _TRIES:
                    return None
                if self._still(alone):
                    return alone
        return None

    def _still(self, entries: tuple[Deviation, ...]) -> bool:
        known = self._known.get(entries)
        if known is None:
            if self.runs >= self._max_runs:
                return False
            self.runs += 1
            known = self._known[entries] = self._fails(Plan.of(entries))
        return known

    def _leave_out(self, entries: tuple[Deviation, ...]) -> tuple[Deviation, ...]:
        size = len(entries)
        while size:
            start, before = 0, len(entries)
            while start < len(entries):
                fewer = entries[:start] + entries[start + size :]
                if self._still(fewer):
                    entries = fewer
                else:
                    start += size
            if size > 1 or len(entries) == before:  # one by one until none can be spared
                size = min(size // 2, len(entries))
        return entries

    def _alone(self, entries: tuple[Deviation, ...]) -> tuple[Deviation, ...]:
        """Looks whether one delay, made long, does what several short ones do together."""
        if len(entries) > 1:
            for entry in entries:
                alone = (_longer(entry),)
                if self._still(alone):
                    return alone
        return entries

    def _fewer_but_longer(self, entries: tuple[Deviation, ...]) -> tuple[Deviation, ...]:
        """Leaves one out as long as the others, made long, do it without that one."""
        i = 0
        while i < len(entries) and len(entries) > 1:
            rest = tuple(map(_longer, (*entries[:i], *entries[i + 1 :])))
            if self._still(rest):
                entries, i = rest, 0
            else:
                i += 1
        return entries

    def _shorten(self, entries: tuple[Deviation, ...]) -> tuple[Deviation, ...]:
        for i, entry in enumerate(entries):
            for text in _milder(entry.text):
                milder = (*entries[:i], Deviation(entry.label, entry.nth, text), *entries[i + 1 :])
                if self._still(milder):
                    entries = milder
                    break
        return entries


def _longer(entry: Deviation) -> Deviation:
    if not entry.text.startswith("+") or int(entry.text) >= MAX_DELAY:
        return entry
    return Deviation(entry.label, entry.nth, f"+{MAX_DELAY}")


def _milder(text: str) -> list[str]:
    """Returns what to try instead of `text`, mildest first."""
    limit = int(text) if text.startswith("+") else MAX_DELAY + 1
    return [f"+{k}" for k in (1, 2, 3, 4, 5, 6, 8, 10, 12, 14, 16) if k < limit]
