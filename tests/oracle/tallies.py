"""What came of comparing: a tally for each op, and the report of all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.oracle.table import Entry

SHOWN = 40  # failures printed


@dataclass
class Tally:
    """What came of the samples of one op."""

    entry: Entry
    passed: int = 0
    with_gradient: int = 0
    second: int = 0
    lacking: Counter[str] = field(default_factory=Counter)  # second derivatives that torch has not
    excluded: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    @property
    def compared(self) -> int:
        return self.passed + len(self.failures)

    @property
    def notes(self) -> list[str]:
        """What is said below the line of the op: all that was not compared, and why."""
        entry, said = self.entry, []
        said += [f"{count} excluded: {reason}" for reason, count in sorted(self.excluded.items())]
        said += [
            f"{n} without a second order: torch says {reason}" for reason, n in sorted(self.lacking.items())
        ]
        said += [f"within {entry.rtol:g}: {entry.because}"] if entry.because else []
        said += [f"forward only: {entry.forward_only}"] if entry.forward_only else []
        said += [f"first {entry.first} outputs only: {entry.left_out}"] if entry.left_out else []
        return said + ([f"no second order: {entry.second_order}"] if entry.second_order else [])

    def __str__(self) -> str:
        ours = f"composition: {self.entry.ours}" if self.entry.composed else self.entry.ours
        excluded = self.excluded.total()
        return (
            f"{self.entry.name:44} {self.compared + excluded:5} {self.passed:5} {self.with_gradient:5} "
            f"{self.second:5} {excluded:5} {len(self.failures):5}  {ours}"
        )


def report(tallies: Sequence[Tally], of: str, least: tuple[int, int]) -> int:
    """Prints what came of it, and returns the exit status; `least` are the ops and samples wanted."""
    print(
        f"{'op of torch':44} {'samp.':>5} {'pass':>5} {'grad':>5} {'twice':>5} {'excl.':>5} {'FAIL':>5}  ours"
    )
    for tally in tallies:
        print(tally, *(f"    {note}" for note in tally.notes), sep="\n")
    mapped = [t for t in tallies if t.compared]
    failures = [f for t in tallies for f in t.failures]
    reasons: Counter[str] = sum((t.excluded for t in tallies), Counter())
    for failure in failures[:SHOWN]:
        print(f"FAILED {failure}")
    if len(failures) > SHOWN:
        print(f"... and {len(failures) - SHOWN} more")
    print(f"\nexcluded, {reasons.total()} in all:")
    for reason, count in reasons.most_common():
        print(f"  {count:5} {reason}")
    passed, composed = sum(t.passed for t in tallies), sum(t.entry.composed for t in mapped)
    print(
        f"\n{of}: {len(mapped)} ops mapped ({len(mapped) - composed} by one op of ours, {composed} as a "
        f"composition), {passed} samples passed ({sum(t.with_gradient for t in tallies)} with their "
        f"gradients, {sum(t.second for t in tallies)} with the second order), {reasons.total()} excluded, "
        f"{len(failures)} failed"
    )
    useless = [t.entry.name for t in tallies if not t.compared]
    if useless:
        print(f"no sample of {useless} is compared")
    few = len(mapped) < least[0] or passed < least[1]
    if few:
        print(f"too few: at least {least[0]} ops and {least[1]} samples are wanted")
    return 1 if failures or few or useless else 0
