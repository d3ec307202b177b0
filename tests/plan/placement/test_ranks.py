"""How urgent tasks are."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actorflow.plan.placement.makespan import forecast
from actorflow.plan.placement.ranks import mean_ranks, optimistic_cost_table, ranks_of_placed
from actorflow.plan.placement.scheduling_problem import DeviceLink, SchedulingProblem, Value
from tests.plan.workloads import arrangements, workloads


def test_a_mean_rank_is_the_longest_way_to_the_end() -> None:
    values = Value(0, (1, 2), 4.0), Value(1, (3,), 0.0), Value(2, (3,), 0.0)
    work = SchedulingProblem([[1, 3], [2, 2], [5, 7], [1, 1]], values, [[DeviceLink(1.0, 2.0)] * 2] * 2)

    assert mean_ranks(work) == [2 + 3 + 6 + 1 + 1, 2 + 1 + 1, 6 + 1 + 1, 1]


@given(workloads())
def test_mean_ranks_never_rise_along_an_edge(work: SchedulingProblem) -> None:
    ranks = mean_ranks(work)

    assert all(ranks[v.maker] >= ranks[taker] for v in work.values for taker in v.takers)


@given(st.data())
def test_nothing_ends_before_its_rank_says(data: st.DataObject) -> None:
    """Hopeful ranks hold for any arrangement, those of a placement for that one."""
    work = data.draw(workloads())
    arranged = data.draw(arrangements(work))

    found = forecast(work, arranged)
    placed, hopeful = ranks_of_placed(work, arranged.device), optimistic_cost_table(work)

    for task, (start, here) in enumerate(zip(found.start, arranged.device, strict=True)):
        least = hopeful[task][here] + work.seconds[task][here]
        assert least <= placed[task] or least == pytest.approx(placed[task])
        assert start + placed[task] <= found.makespan_s * (1 + 1e-9)
