"""Laws of who may run: places are bounded, lent to steps within steps, and nobody waits without need."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actorflow.session.admission import Admission

Event = tuple[str, int]
"""("ask", whose code runs it: 0 for nobody's) or ("end", which of those that may end)."""

EVENTS = st.lists(st.tuples(st.sampled_from(["ask", "ask", "end"]), st.integers(0, 9)), max_size=60)


class Model:
    """Who runs whom; a step may end when none that it runs is left."""

    def __init__(self, admission: Admission[int]) -> None:
        self.admission = admission
        self.within: dict[int, int | None] = {}
        self.made = 0

    def ask(self, choice: int) -> None:
        live = list(self.admission.live)
        runner = live[choice % len(live)] if live and choice else None
        self.made += 1
        self.within[self.made] = runner
        self.admission.ask(self.made, runner)

    def may_end(self) -> list[int]:
        """Those that run and run none, or whose code does not wait for what it runs."""
        inner = set(self.within.values())
        return [step for step in self.admission.live if step not in inner]

    def end(self, choice: int, able: list[int]) -> None:
        if able:
            step = able[choice % len(able)]
            del self.within[step]
            self.admission.end(step)

    def check(self) -> None:
        """Asserts the invariants, and that somebody can go on."""
        admission = self.admission
        own = [step for step, lender in admission.live.items() if lender is None]
        assert admission.taken == len(own) <= admission.limit
        assert set(admission.live) | set(admission.waiting) == set(self.within)
        for step, lender in admission.live.items():
            assert lender is None or admission.granted[lender] == step
        for within in admission.waiting.values():
            assert admission.taken == admission.limit, "it waits while there is a place"
            assert within is None or within in admission.granted, "it waits while a place may be lent"
        assert not self.within or self.may_end(), "all wait for each other"


def holds(make: Callable[[int], Admission[int]], limit: int, events: list[Event]) -> None:
    model = Model(make(limit))
    for what, choice in events:
        if what == "ask":
            model.ask(choice)
        else:
            model.end(choice, model.may_end())
        model.check()
    while model.within:
        model.end(0, model.may_end())
        model.check()
    assert not model.admission.taken
    assert not model.admission.granted


@given(st.integers(1, 3), EVENTS)
def test_places_are_bounded_and_somebody_can_always_go_on(limit: int, events: list[Event]) -> None:
    holds(Admission, limit, events)


@given(st.integers(1, 3), EVENTS)
def test_steps_that_end_before_those_that_they_run_leave_no_place_behind(
    limit: int, events: list[Event]
) -> None:
    """Code may begin a step and not wait for it."""
    model = Model(Admission(limit))
    for what, choice in events:
        if what == "ask":
            model.ask(choice)
        else:
            model.end(choice, list(model.admission.live))
        own = [step for step, lender in model.admission.live.items() if lender is None]
        assert model.admission.taken == len(own) <= limit
        assert not model.admission.waiting or model.admission.live
    while model.admission.live:
        model.end(0, list(model.admission.live))
    assert not model.admission.waiting
    assert not model.admission.taken


class NothingLent(Admission[int]):
    """The rule before: a step within a step waits like any other."""

    def ask(self, step: int, within: int | None = None) -> bool:
        return super().ask(step)


class EverythingBegins(Admission[int]):
    """A step within a step needs no place, so that nothing bounds them."""

    def ask(self, step: int, within: int | None = None) -> bool:
        if within is None:
            return super().ask(step)
        self.taken += 1
        self.live[step] = None
        return True


class NobodyHears(Admission[int]):
    """A place that comes back to who lent it goes to nobody."""

    def end(self, step: int) -> Sequence[int]:
        waiting, self.waiting = self.waiting, {}
        found = super().end(step)
        self.waiting = waiting
        return found


@pytest.mark.parametrize("fault", [NothingLent, EverythingBegins, NobodyHears])
def test_the_law_finds_a_planted_fault(fault: type[Admission[int]]) -> None:
    events: list[Event] = [("ask", 0), ("ask", 2), ("ask", 2), ("end", 0)]

    with pytest.raises(AssertionError):
        holds(fault, 1, events)


def test_a_cancelled_wait_gives_nothing_back() -> None:
    admission: Admission[str] = Admission(1)
    assert admission.ask("a")
    assert not admission.ask("b")

    assert not admission.end("b")
    assert not admission.end("a")
    assert admission.taken == 0


def test_a_first_value_needs_no_place_and_has_one_to_lend() -> None:
    admission: Admission[str] = Admission(1)
    admission.ask("a")
    admission.free("first")

    assert admission.ask("inner", "first")
    assert not admission.ask("other", "first")
    assert admission.end("inner") == ["other"]


# -- behind whom a step waits ------------------------------------------------------------------------


def ended(admission: Admission[int], group: list[int]) -> set[int]:
    """Who begins when all of a group end, the innermost first, and whatever begins meanwhile runs on."""
    begun: set[int] = set()
    for step in reversed(group):
        begun |= set(admission.end(step))
    return begun


def ahead_holds(make: Callable[[int], Admission[int]], limit: int, events: list[Event]) -> None:
    """For each history: one whole group lets somebody begin, and nothing less than a group does."""
    model = Model(make(limit))
    for what, choice in events:
        if what == "ask":
            model.ask(choice)
        else:
            model.end(choice, list(model.admission.live))
    for waiting in tuple(model.admission.waiting):
        groups = model.admission.ahead(waiting)
        assert groups, "nobody is before it, and it waits"
        for group in groups:
            assert ended(deepcopy(model.admission), group), "the end of a group gives no place"
        kept = {step for each in groups for step in (each[0], each[-1])}
        others = [step for each in groups for step in each if step not in kept]
        assert not ended(deepcopy(model.admission), others), "somebody began while some of each group ran"


@given(st.integers(1, 3), EVENTS)
def test_who_waits_knows_whose_end_lets_somebody_begin(limit: int, events: list[Event]) -> None:
    ahead_holds(Admission, limit, events)


class NoChains(Admission[int]):
    """Who has a lent place is not counted."""

    def ahead(self, step: int) -> list[list[int]]:
        return [[each] for each, place in self.live.items() if place is None]


def test_the_law_finds_groups_without_those_that_have_a_lent_place() -> None:
    events: list[Event] = [("ask", 0), ("ask", 2), ("ask", 0)]

    with pytest.raises(AssertionError):
        ahead_holds(NoChains, 1, events)
