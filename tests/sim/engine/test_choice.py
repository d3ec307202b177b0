from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actorflow.sim.engine.choice import ChoicePoint, Choices, Deviation
from actorflow.sim.engine.plan import Plan, Planned


class Always:
    """A scheduler that always says the same, and counts the choice points that it meets."""

    def __init__(self, value: int) -> None:
        self.value = value
        self.met: list[str] = []

    def meet(self, point: ChoicePoint) -> None:
        self.met.append(point.label)

    def draw(self, point: ChoicePoint) -> int:
        return self.value


def test_a_point_is_met_once_and_asked_by_count() -> None:
    chooser = Always(2)
    choices = Choices(chooser)

    for label in ("a", "b", "a"):
        choices.choose(choices.point(label))

    assert chooser.met == ["a", "b"]
    assert choices.taken == [Deviation("a", 1, "+2"), Deviation("b", 1, "+2"), Deviation("a", 2, "+2")]
    assert choices.questions == 3
    assert repr(choices.point("a")) == "<ChoicePoint 'a' asked 2 times>"


def test_what_is_as_on_a_perfect_machine_is_no_deviation() -> None:
    choices = Choices(Always(0))

    choices.choose(choices.point("a"))

    assert choices.taken == []


def test_a_stopped_run_asks_nobody_and_keeps_no_account() -> None:
    choices = Choices(Always(1))
    point = choices.point("a")
    choices.choose(point)

    choices.stop()

    assert choices.choose(point) == 0
    assert len(choices.taken) == 1


def test_the_survey_has_the_points_that_were_asked_in_order_of_appearance() -> None:
    choices = Choices(Always(0))
    for label in ("z", "never", "a"):
        choices.point(label, 3, ("drop",))
    for label in ("a", "z", "a"):
        choices.choose(choices.point(label, 3, ("drop",)))

    assert [(a.label, a.count, a.delays, a.faults) for a in choices.survey()] == [
        ("z", 1, 3, ("drop",)),
        ("a", 2, 3, ("drop",)),
    ]


def test_what_is_asked_after_the_end_of_a_run_is_no_place_for_a_harm() -> None:
    choices = Choices(Always(0))
    choices.choose(choices.point("a>b"))

    choices.stop()
    for label in ("a>b", "b>a"):
        choices.choose(choices.point(label))
    choices.stop()

    assert [(asked.label, asked.count) for asked in choices.survey()] == [("a>b", 1)]


@given(st.integers(1, 10**6) | st.integers(-3, -1))
def test_a_value_is_written_and_read_back(value: int) -> None:
    point = ChoicePoint("p", names=("reorder", "drop", "host_2"))

    assert point.parse(point.text(value)) == value


def test_a_harm_that_a_point_does_not_have_is_not_read() -> None:
    assert ChoicePoint("p", names=("drop",)).parse("crash") is None


@given(st.text(max_size=20), st.integers(1, 10**6))
def test_whatever_a_label_holds_a_plan_can_say_it(label: str, nth: int) -> None:
    choices = Choices(Always(7))
    point = choices.point(label)
    point.count = nth - 1
    choices.choose(point)

    told = Plan(str(Plan.of(choices.taken)))

    assert told.deviations == tuple(choices.taken)
    again = Choices(Planned(told))
    assert again.point(label).planned == {nth: 7}
    assert again.point(label) is again.point(label)


@pytest.mark.parametrize("label", ["a", "v>c0", "host ps0", "worker/3 #2", "x  y", " a;b\n"])
def test_a_label_has_one_point_however_it_is_asked_for(label: str) -> None:
    choices = Choices(Always(0))

    assert choices.point(label) is choices.point(label)
    assert re.search(r";|\n", choices.point(label).label) is None
