"""Schedules: descriptions of how a run chooses, each a small value that can be printed and pasted.

| schedule | at a point | found quickly with it |
| --- | --- | --- |
| `Plan("...")` | what the plan says, else 0 | what is already known |
| `Drawn(...)` | a plan whose addresses are counted in a FIFO run | all; shrinks to one deviation |
| `Seeded(seed, p)` | with probability p any delay | bugs that many orders show |
| `DelayBounded(seed, delays)` | deviates exactly `delays` times | bugs that one or two delays show |
| `PCT(seed, depth)` | runs the highest priority, which falls `depth - 1` times | deep orders of few strands |

Sources: PCT: Burckhardt, Kothari, Musuvathi, Nagarakatte, "A Randomized Scheduler with Probabilistic
Guarantees of Finding Bugs", ASPLOS 2010; its number of steps is learnt from a FIFO run. Delay-bounded:
Emmi, Qadeer, Rakamarić, "Delay-Bounded Scheduling", POPL 2011.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from actorflow.errors import ConfigError
from actorflow.runtime.clock import Entropy
from actorflow.sim.engine.choice import Asked, ChoicePoint, Deviation, Scheduler
from actorflow.sim.engine.plan import MAX_DEVIATIONS, Plan, Planned
from actorflow.sim.settings import check_number, check_whole


@runtime_checkable
class Schedule(Protocol):
    """How a run is to choose, before it runs."""

    @property
    def needs_survey(self) -> bool:
        """Whether it has to know the points of a FIFO run."""
        ...

    def scheduler(self, survey: Sequence[Asked]) -> Scheduler:
        """Returns the scheduler of one run.

        Args:
            survey: The points of a FIFO run of the same program; empty unless `needs_survey`.
        """
        ...


@dataclass(frozen=True, slots=True)
class Drawn:
    """A plan drawn before anything is known of the program.

    `(a, b, c)` is the b-th asking at the a-th point of a FIFO run, and the c-th value there, each
    counted from 0 and modulo what there is. So every entry hits a place that exists, small numbers
    mean early and mild, and one entry less is one deviation less: what hypothesis shrinks well.
    """

    entries: tuple[tuple[int, int, int], ...] = ()

    def __post_init__(self) -> None:
        entries: object = self.entries
        if not isinstance(entries, tuple):
            message = f"a drawn plan has a tuple of (a, b, c), got {entries!r}"
            raise ConfigError(message, hint="let hypothesis draw it: @given(schedule=sim.schedules())")

    @property
    def needs_survey(self) -> bool:
        """Without entries it is FIFO."""
        return bool(self.entries)

    def plan(self, survey: Sequence[Asked]) -> Plan:
        """Returns the plan among the points of `survey`; of two entries for one place the first counts."""
        found: dict[tuple[str, int], Deviation] = {}
        # only where something can be delayed
        places = [asked for asked in survey if asked.delays]
        # Modulo what there is: every entry hits a place that exists.
        for a, b, c in self.entries if places else ():
            asked = places[a % len(places)]
            nth = 1 + b % asked.count
            delay = 1 + c % asked.delays
            # Of two entries for one place the first counts, so that one entry less is one deviation less.
            found.setdefault((asked.label, nth), Deviation(asked.label, nth, f"+{delay}"))
        return Plan.of(found.values())

    def scheduler(self, survey: Sequence[Asked]) -> Planned:
        """Returns the scheduler that follows the plan."""
        return Planned(self.plan(survey))


def is_planned(schedule: Schedule) -> bool:
    """Tells whether the schedule is already told by its deviations."""
    return isinstance(schedule, Plan | Drawn)


@dataclass(frozen=True, slots=True)
class Seeded:
    """Delays with probability `p` at every point, at most `budget` times."""

    seed: int
    p: float = 0.1
    budget: int | None = None
    needs_survey: bool = field(default=False, init=False, repr=False)

    def __post_init__(self) -> None:
        check_whole("seed", self.seed)
        check_number("p", self.p, 0, 1)
        if self.budget is not None:
            check_whole("budget", self.budget, 0)

    def scheduler(self, survey: Sequence[Asked]) -> Scheduler:
        """Returns the scheduler."""
        del survey
        return _Random(self)


class _Random:
    def __init__(self, schedule: Seeded) -> None:
        self._chance = Entropy(schedule.seed)
        self._p = schedule.p
        self._left = float("inf") if schedule.budget is None else schedule.budget

    def meet(self, point: ChoicePoint) -> None:
        pass

    def draw(self, point: ChoicePoint) -> int:
        # Drawn only where something may be delayed: what is drawn at other points would move with them.
        if self._left <= 0 or not point.delays or self._chance.uniform() >= self._p:
            return 0
        self._left -= 1
        return 1 + self._chance.below(point.delays)


@dataclass(frozen=True, slots=True)
class DelayBounded:
    """Deviates at `delays` places, drawn evenly from those of a FIFO run."""

    seed: int
    delays: int = 2
    needs_survey: bool = field(default=True, init=False, repr=False)

    def __post_init__(self) -> None:
        check_whole("seed", self.seed)
        check_whole("delays", self.delays, 0, MAX_DEVIATIONS)

    def scheduler(self, survey: Sequence[Asked]) -> Planned:
        """Returns the scheduler."""
        chance = Entropy(self.seed)
        places = [(a, nth) for a in survey if a.delays for nth in range(1, a.count + 1)]
        # without putting back: so many different places
        drawn = [places.pop(chance.below(len(places))) for _ in range(min(self.delays, len(places)))]
        delays = (Deviation(a.label, nth, f"+{1 + chance.below(a.delays)}") for a, nth in drawn)
        return Planned(Plan.of(delays))


@dataclass(frozen=True, slots=True)
class PCT:
    """Runs the ready strand of highest priority; at `depth - 1` turns the first falls to the last.

    Messages, which have no priority, are late with probability `p`.
    """

    seed: int
    depth: int = 3
    p: float = 0.1
    needs_survey: bool = field(default=True, init=False, repr=False)

    def __post_init__(self) -> None:
        check_whole("seed", self.seed)
        check_whole("depth", self.depth, 1)
        check_number("p", self.p, 0, 1)

    def scheduler(self, survey: Sequence[Asked]) -> Ranks:
        """Returns the scheduler."""
        # Only points that are strands: faults have no turn that could fall.
        return Ranks(self, sum(asked.count for asked in survey if not asked.faults))


class Ranks(_Random):
    """The scheduler of PCT: strands have a rank, points that are no strands are asked."""

    def __init__(self, schedule: PCT, steps: int) -> None:
        super().__init__(Seeded(schedule.seed, schedule.p))
        self._depth = schedule.depth
        self._ranks: dict[str, float] = {}
        # Drawn before the run: at which pick, and how far down. A later fall is lower.
        self._falls = {self._chance.below(max(1, steps)): -1.0 - d for d in range(schedule.depth - 1)}
        self._picks = 0

    def rank(self, label: str) -> float:
        """Returns the rank of a strand; the highest goes first."""
        rank = self._ranks.get(label)
        if rank is None:
            # Above all ranks that a fall leads to, in an order drawn as strands come up.
            rank = self._ranks[label] = self._depth + self._chance.uniform()
        return rank

    def best(self, labels: Sequence[str]) -> int:
        """Returns whose turn it is among the ready strands, as an index."""
        ranks = [self.rank(label) for label in labels]
        first = max(range(len(ranks)), key=ranks.__getitem__)
        fall = self._falls.get(self._picks)
        self._picks += 1
        # It falls before it runs: the next one goes in its place.
        if fall is not None:
            self._ranks[labels[first]] = ranks[first] = fall
            first = max(range(len(ranks)), key=ranks.__getitem__)
        return first


FIFO = Plan()
"""First come, first served, delivered at once, no fault."""
