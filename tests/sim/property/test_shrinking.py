from __future__ import annotations

from collections.abc import Callable

from hypothesis import example, given
from hypothesis import strategies as st

from actorflow.sim.engine.choice import Deviation
from actorflow.sim.engine.plan import Plan
from actorflow.sim.property.shrinking import Shrinking

LABELS = "abc"
texts = st.integers(1, 20).map("+{}".format) | st.sampled_from(["drop", "clog"])
plans = st.lists(
    st.builds(Deviation, st.sampled_from(LABELS), st.integers(1, 30), texts),
    unique_by=lambda d: (d.label, d.nth),
    max_size=20,
)

Fails = Callable[[Plan], bool]


def needs(wanted: list[Deviation]) -> Fails:
    """Fails where all these places deviate, each by at least as much: the more the sooner."""

    def fails(plan: Plan) -> bool:
        here = {(d.label, d.nth): d.text for d in plan.deviations}
        return all(_reaches(here.get((d.label, d.nth)), d.text) for d in wanted)

    return fails


def _reaches(text: str | None, wanted: str) -> bool:
    if text is None or not wanted.startswith("+"):
        return text == wanted
    return not text.startswith("+") or int(text) >= int(wanted)


def counted(fails: Fails) -> tuple[Fails, list[Plan]]:
    asked: list[Plan] = []

    def counts(plan: Plan) -> bool:
        asked.append(plan)
        return fails(plan)

    return counts, asked


@given(plans, st.data())
def test_of_a_failure_that_takes_some_deviations_those_are_left(
    deviations: list[Deviation], data: st.DataObject
) -> None:
    wanted = data.draw(st.lists(st.sampled_from(deviations), unique=True, max_size=4)) if deviations else []
    fails, asked = counted(needs(wanted))
    reduction = Shrinking(fails)

    plan = reduction.reduce(deviations)

    assert plan is not None
    assert fails(plan)
    assert {(d.label, d.nth) for d in plan.deviations} == {(d.label, d.nth) for d in wanted}
    assert reduction.runs == len(asked) - 1
    for found in plan.deviations:
        text = next(d.text for d in wanted if (d.label, d.nth) == (found.label, found.nth))
        if text.startswith("+") and int(text) <= 6:
            assert found.text == text  # as short as it can be
        elif text.startswith("+"):
            assert int(text[1:]) <= int(found.text) <= max(int(text) + 1, 20)
        else:
            assert found.text == text


@given(plans, st.integers(0, 2**32))
@example([Deviation("a", 1, "drop")], 0)
def test_whatever_the_failure_depends_on_the_plan_fails_and_no_entry_can_be_left_out(
    deviations: list[Deviation], salt: int
) -> None:
    """A predicate of no shape at all: a hash of the plan; the whole of it fails."""
    whole = tuple(sorted(deviations))

    def fails(plan: Plan) -> bool:
        return plan.deviations == whole or hash((salt, str(plan).count("+"), len(str(plan)))) % 3 == 0

    plan = Shrinking(fails).reduce(deviations)

    assert plan is not None
    assert fails(plan)
    for i in range(len(plan)):
        fewer = Plan.of(plan.deviations[:i] + plan.deviations[i + 1 :])
        assert not fails(fewer)


def test_no_plan_of_a_run_that_does_not_fail_again() -> None:
    assert Shrinking(lambda _: False).reduce([Deviation("a", 1, "+1")]) is None


def test_what_fails_without_any_deviation_is_an_empty_plan() -> None:
    assert Shrinking(lambda _: True).reduce([Deviation("a", n, "+9") for n in range(1, 50)]) == Plan()


@given(plans, st.integers(1, 30))
def test_it_takes_no_more_runs_than_it_may_and_what_it_has_then_fails(
    deviations: list[Deviation], most: int
) -> None:
    fails, asked = counted(needs(deviations[::2]))
    reduction = Shrinking(fails, max_runs=most)

    plan = reduction.reduce(deviations)

    assert plan is not None
    assert len(asked) == reduction.runs <= most
    assert fails(plan)


def test_no_plan_is_run_twice() -> None:
    fails, asked = counted(needs([Deviation("a", 3, "+5"), Deviation("a", 7, "drop")]))

    Shrinking(fails).reduce([Deviation("a", n, "+9" if n != 7 else "drop") for n in range(1, 40)])

    assert len(asked) == len(set(asked))
    assert len(asked) < 120


def test_a_harm_becomes_a_delay_where_that_is_enough() -> None:
    fails = needs([Deviation("v>c0", 1, "+3")])

    assert Shrinking(fails).reduce([Deviation("v>c0", 1, "drop")]) == Plan("v>c0#1 +3")


def test_harms_and_delays_of_the_first_place_are_one_entry() -> None:
    twice = [Deviation("a", 1, "+2"), Deviation("a", 1, "+2")]

    assert Shrinking(needs(twice)).reduce(twice) == Plan("a#1 +2")


def late(plan: Plan, label: str) -> int:
    """Returns by how much that strand is late in all."""
    return sum(int(d.text) for d in plan.deviations if d.label == label)


def test_one_long_delay_is_told_instead_of_several_short_ones() -> None:
    deviations = [Deviation("a", nth, "+4") for nth in (1, 2, 3)]

    plan = Shrinking(lambda plan: late(plan, "a") >= 12).reduce(deviations)

    assert plan == Plan("a#1 +12")


def test_of_two_lanes_each_is_late_once() -> None:
    deviations = [Deviation("a", nth, "+5") for nth in (1, 2)] + [Deviation("b", nth, "+3") for nth in (4, 7)]

    plan = Shrinking(lambda plan: late(plan, "a") >= 10 and late(plan, "b") >= 6).reduce(deviations)

    assert plan is not None
    assert [(d.label, d.text) for d in plan.deviations] == [("a", "+10"), ("b", "+6")]
