"""When it is said that a graph grows with every step."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from actorflow.plan.growth_warning import MANY, GrowthWarning


def test_it_is_told_once_after_many_plans_of_one_line_in_a_graph_that_grows() -> None:
    growth = GrowthWarning()

    told = [growth.count_plan("a.py:1", nodes) for nodes in range(3 * MANY)]

    assert [n for n in told if n] == [MANY + 1]
    assert told[MANY] == MANY + 1


def test_many_plans_of_a_graph_that_does_not_grow_are_no_news() -> None:
    growth = GrowthWarning()

    assert not any(growth.count_plan("a.py:1", 500) for _ in range(3 * MANY))


@given(st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=60))
def test_each_line_counts_for_itself(events: list[tuple[int, bool]]) -> None:
    growth, nodes = GrowthWarning(), 0
    for line, grows in events:
        nodes += grows
        assert growth.count_plan(line, nodes) == 0  # fewer than many of any

    assert not growth.told
