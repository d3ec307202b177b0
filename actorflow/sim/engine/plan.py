"""A plan: the few deviations that make a run what it is, and the one artefact of a failure.

`Plan("coord>g0#1 +5; v>c0#2 drop")` reads: the first message from coord to g0 took 5 ticks longer,
the second from v to c0 was lost, and all else went as on a perfect machine. It can be pasted into a
test as `@example(schedule=Plan("..."))`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from actorflow.errors import ConfigError
from actorflow.sim.engine.choice import FAULTS, Asked, ChoicePoint, Deviation

MAX_DEVIATIONS = 8
"""More than a reader can hold in mind is not an explanation."""

_ENTRY = re.compile(r"(?P<label>.*\S)#(?P<nth>[1-9][0-9]*) (?P<text>\+[1-9][0-9]*|[a-z_]+[0-9]*)")


class Plan:
    """A schedule told by its deviations; without any it is first come, first served.

    Args:
        text: Entries `label#n what`, separated by `; `. `what` is `+k` for a delay of k turns or
            ticks, or the name of a fault.

    Raises:
        ConfigError: no text, an entry that cannot be read, two for one place, or more than 8.
    """

    __slots__ = ("deviations",)

    needs_survey = False

    def __init__(self, text: str = "") -> None:
        given: object = text
        if not isinstance(given, str):
            message = f"a plan is made of its text, got {given!r}"
            raise ConfigError(message, hint='for example Plan("v>c0#1 drop; worker#3 +5")')
        entries = [_parse(entry) for part in text.split(";") if (entry := part.strip())]
        if len(entries) > MAX_DEVIATIONS:
            message = f"a plan has at most {MAX_DEVIATIONS} deviations, got {len(entries)}"
            raise ConfigError(message)
        places = [(entry.label, entry.nth) for entry in entries]
        for label, nth in places:
            if places.count((label, nth)) > 1:
                message = f"a plan says one thing for each place, got two for '{label}#{nth}'"
                raise ConfigError(message)
        self.deviations: tuple[Deviation, ...] = tuple(entries)

    @classmethod
    def of(cls, deviations: Iterable[Deviation]) -> Plan:
        """Returns the plan of these deviations, however many they are."""
        # What a run did may be more than a reader would write: the limit is for plans that are given.
        plan = cls()
        plan.deviations = tuple(deviations)
        return plan

    def scheduler(self, survey: Sequence[Asked] = ()) -> Planned:
        """Returns the scheduler that follows this plan; it needs no survey."""
        del survey
        return Planned(self)

    def __str__(self) -> str:
        return "; ".join(map(str, self.deviations))

    def __repr__(self) -> str:
        text = str(self).replace("\\", "\\\\").replace('"', '\\"')
        return f'Plan("{text}")'

    def __len__(self) -> int:
        return len(self.deviations)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Plan) and self.deviations == other.deviations

    def __hash__(self) -> int:
        return hash(self.deviations)


def _parse(entry: str) -> Deviation:
    match = _ENTRY.fullmatch(entry)
    if match is None:
        message = f"an entry of a plan reads 'label#n what', got {entry!r}"
        raise ConfigError(message, hint="for example 'v>c0#1 drop' or 'worker#3 +5'")
    text = match["text"]
    # Wrong words are found when the plan is read, not when its place is reached.
    if not text.startswith("+") and text not in FAULTS:
        message = f"'{entry}' names no fault that there is"
        raise ConfigError(message, hint=f"delays are +1, +2 and so on, faults are {', '.join(FAULTS)}")
    return Deviation(match["label"], int(match["nth"]), text)


def _value(point: ChoicePoint, deviation: Deviation) -> int:
    value = point.parse(deviation.text)
    # The point has no such fault: a host is not dropped, a message does not crash.
    if value is None:
        faults = ", ".join(point.names) or "no fault"
        message = f"'{deviation}' cannot happen: at '{point.label}' there can be {faults}"
        raise ConfigError(message)
    return value


class Planned:
    """The scheduler that follows a plan.

    Attributes:
        unused: Deviations whose place was not reached, or could not be what they say.
    """

    draw = None

    def __init__(self, plan: Plan) -> None:
        self._by_label: dict[str, list[Deviation]] = {}
        for deviation in plan.deviations:
            self._by_label.setdefault(deviation.label, []).append(deviation)
        self._points: list[tuple[ChoicePoint, list[Deviation]]] = []

    def meet(self, point: ChoicePoint) -> None:
        """Writes what the plan says about this point there."""
        point.planned = self.values(point)

    def values(self, point: ChoicePoint) -> dict[int, int] | None:
        """Returns what the plan says about this point: count -> value; None when it is silent."""
        # Taken out: what is left of them in the end was never met.
        deviations = self._by_label.pop(point.label, None)
        if deviations is None:
            return None
        self._points.append((point, deviations))
        return {deviation.nth: _value(point, deviation) for deviation in deviations}

    @property
    def unused(self) -> tuple[Deviation, ...]:
        """Deviations that had no effect so far."""
        unmet = [d for deviations in self._by_label.values() for d in deviations]
        # Met, but not asked that often.
        missed = [d for point, deviations in self._points for d in deviations if d.nth > point.count]
        return (*unmet, *missed)
