"""Measures contestants against each other, turn about: the only way in which a ratio means much.

A contest is one metric with ours and its peers. Each round asks every contestant in order (A B C
A B C …) for the same number of operations, so that what slows the machine for a while slows all of
them; the median over the rounds is the value. Warm-up rounds come first, and everything that they
left alive is frozen, so that the collector does not walk one contestant's objects in another's time.

It knows neither actorflow nor any peer.
"""

from __future__ import annotations

import gc
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from statistics import median, quantiles

Round = Callable[[int], Awaitable[float]]
"""(operations) -> the seconds that they took, taken as close to them as can be, or the MiB.

For a metric in MB/s an operation is a byte."""


class Better(Enum):
    """Which way a metric should go."""

    HIGH = "high"
    LOW = "low"

    def reaches(self, value: float, aim: float) -> bool:
        """Tells whether `value` is as good as `aim`."""
        return value >= aim if self is Better.HIGH else value <= aim


class Unit(Enum):
    """What a metric counts: rates should be high, times and memory low."""

    FIRINGS = "firings/s"
    MESSAGES = "messages/s"
    OPS = "ops/s"
    ELEMENTS = "elements/s"
    TURNS = "turns/s"
    WORDS = "words/s"
    MEGABYTES = "MB/s"
    MILLISECONDS = "ms"
    MICROSECONDS = "us"
    MEBIBYTES = "MiB"

    @property
    def better(self) -> Better:
        """Which way it should go."""
        low = self in (Unit.MILLISECONDS, Unit.MICROSECONDS, Unit.MEBIBYTES)
        return Better.LOW if low else Better.HIGH

    def of(self, operations: int, seconds: float) -> float:
        """Returns the value of a round."""
        if self is Unit.MEBIBYTES:
            return seconds
        if self is Unit.MILLISECONDS:
            return seconds / operations * 1e3
        if self is Unit.MICROSECONDS:
            return seconds / operations * 1e6
        return operations / seconds / (1e6 if self is Unit.MEGABYTES else 1)


@dataclass(frozen=True, slots=True)
class Peer:
    """What a user could pick instead.

    Attributes:
        round: None when it is not installed.
        aim: What ours / theirs should reach; None where the design sets nothing.
        note: What a reader must know to judge the comparison.
    """

    name: str
    round: Round | None
    aim: float | None = None
    note: str = ""


def absent(name: str, install: str, aim: float | None = None) -> Peer:
    """Returns the stand-in for a peer that is not installed; its row says so."""
    return Peer(f"{name} (absent: install {install})", None, aim)


@dataclass(frozen=True, slots=True)
class Contest:
    """One metric.

    Attributes:
        operations: How many a round asks of every contestant.
        aim: What ours should reach, in `unit`; None where the design sets nothing.
        once: Whether one long round, with no warm-up, is the measurement.
    """

    metric: str
    unit: Unit
    operations: int
    ours: Round
    peers: Sequence[Peer]
    aim: float | None = None
    note: str = ""
    once: bool = False


@dataclass(frozen=True, slots=True)
class Size:
    """How long to measure.

    Attributes:
        share: How much of its usual number of operations a round asks.
    """

    rounds: int = 9
    warm_up: int = 2
    share: float = 1.0

    def operations(self, usual: int, step: int = 1) -> int:
        """Returns the share of `usual`, a positive multiple of `step`."""
        return max(round(usual * self.share / step), 1) * step


QUICK = Size(rounds=3, warm_up=1, share=0.2)


@dataclass(frozen=True, slots=True)
class Sample:
    """One value a round.

    INVARIANT: there is at least one.
    """

    values: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        """The value to report."""
        return median(self.values)

    @property
    def spread(self) -> float:
        """Half the distance between the quartiles over the median: how far to trust it."""
        if len(self.values) < 2:
            return 0.0
        low, _, high = quantiles(self.values, n=4, method="inclusive")
        return (high - low) / 2 / self.median


@dataclass(frozen=True, slots=True)
class Row:
    """Ours beside one peer; `theirs` is None when the peer is absent."""

    contest: Contest
    peer: Peer
    ours: Sample
    theirs: Sample | None

    @property
    def ratio(self) -> float | None:
        """Ours over theirs, whichever way is better."""
        return None if self.theirs is None else self.ours.median / self.theirs.median

    @property
    def met(self) -> bool | None:
        """Whether ours reached its own aim; None where there is none."""
        aim = self.contest.aim
        return None if aim is None else self.contest.unit.better.reaches(self.ours.median, aim)

    @property
    def ratio_met(self) -> bool | None:
        """Whether the ratio reached its aim; None where there is none, or no peer."""
        if self.peer.aim is None or self.ratio is None:
            return None
        return self.contest.unit.better.reaches(self.ratio, self.peer.aim)


async def measure(contest: Contest, size: Size) -> list[Row]:
    """Returns one row a peer, from `size.rounds` rounds taken in turns."""
    rounds: list[Round] = [contest.ours, *(peer.round for peer in contest.peers if peer.round is not None)]
    unit, operations = contest.unit, contest.operations
    for _ in range(0 if contest.once else size.warm_up):
        for run in rounds:
            await run(operations)
    samples = [Sample() for _ in rounds]
    gc.collect()
    gc.freeze()
    try:
        for _ in range(1 if contest.once else size.rounds):
            for run, sample in zip(rounds, samples, strict=True):
                sample.values.append(unit.of(operations, await run(operations)))
    finally:
        gc.unfreeze()
    ours, *others = samples
    theirs = iter(others)
    return [Row(contest, p, ours, next(theirs) if p.round is not None else None) for p in contest.peers]
