"""Results over seeds, as rows of a markdown table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean, stdev

from studies.runs import LOCAL, Result

NEVER = "never"


@dataclass(frozen=True, slots=True)
class Spread:
    """Mean and standard deviation over seeds.

    Attributes:
        mean: Over the seeds that have a value; None if none has.
        spread: Their standard deviation; 0 of one.
        found: How many have a value.
        seeds: How many there are.
    """

    mean: float | None
    spread: float
    found: int
    seeds: int

    @classmethod
    def of(cls, values: Sequence[float | None]) -> Spread:
        """Returns that of some values; None is a seed that has none."""
        found = [value for value in values if value is not None]
        spread = stdev(found) if len(found) > 1 else 0.0
        return cls(mean(found) if found else None, spread, len(found), len(values))

    def text(self, digits: int) -> str:
        """Returns `1.2 ± 0.3`, with how many seeds that is of where it is not all."""
        if self.mean is None:
            return NEVER
        told = f"{self.mean:.{digits}f} ± {self.spread:.{digits}f}"
        return told if self.found == self.seeds else f"{told} ({self.found} of {self.seeds})"


def cell(results: Sequence[Result], policy: str, workers: int, *, stragglers: bool) -> list[Result]:
    """Returns the runs of one policy with so many workers, one a seed; with one worker all are local."""
    if workers == 1:
        policy = LOCAL
    return [
        result
        for result in results
        if (result.run.policy, result.run.workers, result.run.stragglers) == (policy, workers, stragglers)
    ]


def table(results: Sequence[Result]) -> str:
    """Returns all results, a row for each policy and number of workers."""
    head = (
        "policy", "workers", "rate", "seconds to the loss", "… with stragglers", "updates to the loss",
        "test accuracy", "… with stragglers", "mean staleness", "late gradients", "… with stragglers",
    )  # fmt: skip
    rows = [head, ("---",) * len(head)]
    kinds = list(dict.fromkeys((result.run.policy, result.run.workers) for result in results))
    for policy, workers in kinds:
        steady = cell(results, policy, workers, stragglers=False)
        troubled = cell(results, policy, workers, stragglers=True)
        rows.append(
            (
                policy,
                str(workers),
                f"{steady[0].run.rate:g}",
                Spread.of([r.reached_s for r in steady]).text(1),
                Spread.of([r.reached_s for r in troubled]).text(1),
                Spread.of([r.reached_updates for r in steady]).text(0),
                Spread.of([r.accuracy for r in steady]).text(3),
                Spread.of([r.accuracy for r in troubled]).text(3),
                f"{mean(r.staleness for r in steady):.1f}",
                f"{mean(r.dropped for r in steady):.0f}",
                f"{mean(r.dropped for r in troubled):.0f}",
            )
        )
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)
