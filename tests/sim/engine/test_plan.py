from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from actorflow.errors import ConfigError
from actorflow.sim.engine.choice import FAULTS, LINK_FAULTS, ChoicePoint, Choices, Deviation
from actorflow.sim.engine.plan import MAX_DEVIATIONS, Plan, Planned

labels = st.text(
    st.characters(codec="utf-8", exclude_characters=";", exclude_categories=("C", "Z")), min_size=1
)
spaced = st.lists(labels, min_size=1, max_size=3).map(" ".join)
deviations = st.builds(
    Deviation,
    spaced | st.sampled_from(["v>c0", "host ps0", "a#1", "a#1 +2", "x/y #3", "#"]),
    st.integers(1, 10**9),
    st.integers(1, 10**9).map("+{}".format) | st.sampled_from(LINK_FAULTS),
)
plans = st.lists(deviations, max_size=MAX_DEVIATIONS, unique_by=lambda d: (d.label, d.nth)).map(Plan.of)


@given(plans)
@example(Plan.of([Deviation('say "\\n"', 1, "+1")]))
@example(Plan.of([Deviation("a#1 +2", 3, "+1"), Deviation("v>c 0/x", 1, "drop")]))
def test_a_plan_is_read_back_from_what_it_prints(plan: Plan) -> None:
    assert Plan(str(plan)) == plan
    assert eval(repr(plan), {"Plan": Plan}) == plan
    assert hash(Plan(str(plan))) == hash(plan)
    assert len(Plan(str(plan))) == len(plan)


def test_an_empty_plan_is_first_come_first_served() -> None:
    assert Plan("") == Plan() == Plan(" ; ")
    assert repr(Plan()) == 'Plan("")'
    point = ChoicePoint("a")
    Plan().scheduler().meet(point)
    assert (Plan().scheduler().draw, point.planned) == (None, None)


@pytest.mark.parametrize(
    "text",
    [
        "a", "a#1", "a#0 +1", "a#-1 +1", "#1 +1", " #1 +1", "a#1 +0", "a#1 1", "a#1 -1", "a#1  +1", "a#1 Drop",
        "a#1+1", "a#x +1", "a #1 +1", "a#1 +1\nb#1 +1",
    ],
)  # fmt: skip
def test_an_entry_that_cannot_be_read_is_refused_with_its_text(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Plan(text)

    assert "an entry of a plan reads 'label#n what', got " in str(caught.value)
    assert repr(text.strip()) in str(caught.value)


def test_more_than_eight_deviations_are_refused() -> None:
    eight = "; ".join(f"a#{n} +1" for n in range(1, 9))

    assert len(Plan(eight)) == MAX_DEVIATIONS
    with pytest.raises(ConfigError, match="at most 8 deviations, got 9"):
        Plan(f"{eight}; b#1 drop")


def test_two_entries_for_one_place_are_refused() -> None:
    with pytest.raises(ConfigError, match="one thing for each place, got two for 'a#2'"):
        Plan("a#2 +1; a#1 +1; a#2 drop")


def followed(plan: Plan, asks: list[str], names: tuple[str, ...] = ()) -> tuple[list[int], Planned]:
    chooser = Planned(plan)
    choices = Choices(chooser)
    return [choices.choose(choices.point(label, names=names)) for label in asks], chooser


def test_a_planned_run_does_what_the_plan_says_there_and_nothing_else() -> None:
    values, chooser = followed(Plan("a#2 +3; b#1 drop"), ["a", "b", "a", "a", "c"], ("clog", "drop"))

    assert values == [0, -2, 3, 0, 0]
    assert chooser.unused == ()


@given(plans, st.lists(st.sampled_from(["v>c0", "host ps0", "a#1", "x/y #3"]), max_size=10))
def test_unused_are_the_entries_without_effect_and_only_those(plan: Plan, asks: list[str]) -> None:
    choices = Choices(chooser := Planned(plan))
    for label in asks:
        choices.choose(choices.point(label, names=FAULTS))

    assert set(chooser.unused) == set(plan.deviations) - set(choices.taken)
    assert set(choices.taken) <= set(plan.deviations)


def test_a_harm_at_a_point_that_does_not_have_it_is_refused() -> None:
    with pytest.raises(ConfigError, match="'a#1 crash' cannot happen: at 'a' there can be drop"):
        followed(Plan("a#1 crash; a#2 +1"), ["a", "a"], ("drop",))


def test_a_harm_that_there_is_not_is_refused_when_the_plan_is_read() -> None:
    with pytest.raises(ConfigError, match="'a>b#1 dropp' names no fault that there is\n.*drop, clog"):
        Plan("a>b#1 dropp")


def test_an_entry_beyond_the_last_asking_is_unused() -> None:
    _, chooser = followed(Plan("a#3 +1; never#1 +1"), ["a", "a"])

    assert set(map(str, chooser.unused)) == {"a#3 +1", "never#1 +1"}


def test_a_plan_is_made_of_text() -> None:
    for wrong in (3, None, Plan()):
        with pytest.raises(ConfigError, match=r"(?s)made of its text, got .*Plan\(\"v>c0#1 drop"):
            Plan(wrong)  # type: ignore[arg-type]
