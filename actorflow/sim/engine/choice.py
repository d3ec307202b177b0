"""The places where a run may go another way, and what it did there.

Everything that a simulated run does not take from its inputs is a value chosen at a **point**: which
strand goes first, how long a message travels, whether a host crashes now. 0 is what happens on a
perfect machine: first come, first served, delivered at once, no fault. A positive value is a delay,
in turns for a strand and in ticks for a message; a negative one stands for one of the point's named
faults. So a run is told whole by its **deviations**, the values other than 0, and each is addressed
by label and count: the n-th time that this point was asked. Addresses survive edits of a program
that a position in one long list of choices would not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

LINK_FAULTS = ("reorder", "duplicate", "drop", "clog", "split")
HOST_FAULTS = ("pause", "crash")
FAULTS = (*LINK_FAULTS, *HOST_FAULTS)
"""What may go wrong besides the order of things; `sim.engine.faults` says what each does."""

MAX_DELAY = 16
"""The longest delay that is drawn; a plan may name a longer one."""


class ChoicePoint:
    """One place where a run may go another way.

    Attributes:
        label: Its name, the same in every run of the same program.
        delays: The largest delay to draw; 0 where nothing can be delayed.
        names: Faults that can happen here; the value of `names[i]` is `-1 - i`.
        count: How often it was asked in this run.
        planned: What a plan says about it, which comes before all chance: count -> value.
    """

    __slots__ = ("count", "delays", "label", "names", "planned")

    def __init__(self, label: str, delays: int = MAX_DELAY, names: tuple[str, ...] = ()) -> None:
        self.label = label
        self.delays = delays
        self.names = names
        self.count = 0
        self.planned: Mapping[int, int] | None = None

    def text(self, value: int) -> str:
        """Returns how a value is written: `+3` for a delay, or the name of the fault."""
        return f"+{value}" if value > 0 else self.names[-1 - value]

    def parse(self, text: str) -> int | None:
        """Returns the value that `text` stands for; None when this point has no such fault."""
        if text.startswith("+"):
            return int(text)
        return -1 - self.names.index(text) if text in self.names else None

    def __repr__(self) -> str:
        return f"<ChoicePoint '{self.label}' asked {self.count} times>"


@dataclass(frozen=True, slots=True, order=True)
class Deviation:
    """At the `nth` time that the point `label` was asked, `text` happened."""

    label: str
    nth: int
    text: str

    def __str__(self) -> str:
        return f"{self.label}#{self.nth} {self.text}"


@dataclass(frozen=True, slots=True)
class Asked:
    """What a finished run tells of one point: who plans further runs draws from it."""

    label: str
    count: int
    delays: int
    faults: tuple[str, ...]


class Scheduler(Protocol):
    """Says what happens at a point."""

    def meet(self, point: ChoicePoint) -> None:
        """Hears of a point before it is asked for the first time; writes its plan there."""
        ...

    @property
    def draw(self) -> Callable[[ChoicePoint], int] | None:
        """Gives the value of an asking that is not planned; None where that is always 0."""
        ...


def _ignore(_point: ChoicePoint) -> None:
    pass


def _plain(label: str) -> str:
    """Returns the label without what parts the entries of a plan, on one line, and not empty."""
    # Entries of a plan are parted by `;`, and stand on one line.
    return " ".join(label.replace(";", ",").split()) or "-"


class Choices:
    """All choices of one run.

    Attributes:
        taken: The deviations so far, in order.
    """

    def __init__(self, scheduler: Scheduler) -> None:
        self.taken: list[Deviation] = []
        self._points: dict[str, ChoicePoint] = {}
        self._meet: Callable[[ChoicePoint], None] = scheduler.meet
        self._draw = scheduler.draw
        self._final: tuple[Asked, ...] | None = None

    def point(self, label: str, delays: int = MAX_DELAY, names: tuple[str, ...] = ()) -> ChoicePoint:
        """Returns the point of that label, made when it is met for the first time.

        A label that no plan could hold, such as one with a line break, is written so that one can.
        """
        point = self._points.get(label)
        if point is None:
            plain = _plain(label)
            if plain != label:
                return self.point(plain, delays, names)
            point = self._points[label] = ChoicePoint(label, delays, names)
            self._meet(point)
        # The same label for another kind of point: each needs an address of its own.
        elif (point.delays, point.names) != (delays, names):
            return self.point(f"{label}~", delays, names)  # a task may be called as a link is
        return point

    @property
    def questions(self) -> int:
        """How often any point was asked, also after the end of the run."""
        return sum(point.count for point in self._points.values())

    def choose(self, point: ChoicePoint) -> int:
        """Asks what happens at `point` now."""
        # Counted whether planned or not: addresses do not shift with what is chosen.
        point.count += 1
        value = 0 if self._draw is None else self._draw(point)
        if point.planned is not None:
            # A plan comes before all chance, but chance is drawn all the same: what follows does not depend
            # on the plan.
            value = point.planned.get(point.count, value)
        if value:
            # Only what deviates is told: without it the run is that of a perfect machine.
            self.taken.append(Deviation(point.label, point.count, point.text(value)))
        return value

    def stop(self) -> None:
        """Chooses 0 from now on, and keeps no account: the run is over."""
        if self._final is None:
            # What is asked from now on is no part of the run.
            self._final = self.survey()
        self._draw = None
        self._meet = _ignore
        for point in self._points.values():
            point.planned = None

    def survey(self) -> tuple[Asked, ...]:
        """Returns all points that were asked and could have gone another way, in order of appearance.

        What was asked after the end of the run could not.
        """
        if self._final is not None:
            return self._final
        return tuple(Asked(p.label, p.count, p.delays, p.names) for p in self._points.values() if p.count)
