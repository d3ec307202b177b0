"""How urgent tasks are."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actorflow.plan.makespan import forecast
from actorflow.plan.ranks import hopeful_ranks, mean_ranks, placed_ranks
from actorflow.plan.workload import Link, Value, Workload
from tests.plan.workloads import arrangements, workloads


def test_a_mean_rank_is_the_longest_way_to_the_end() -> None:
    values = Value(0, (1, 2), 4.0), Value(1, (3,), 0.0), Value(2, (3,), 0.0)
    work = Workload([[1, 3], [2, 2], [5, 7], [1, 1]], values, [[Link(1.0, 2.0)] * 2] * 2)

    assert mean_ranks(work) == [2 + 3 + 6 + 1 + 1, 2 + 1 + 1, 6 + 1 + 1, 1]


@given(workloads())
def test_mean_ranks_never_rise_along_an_edge(work: Workload) -> None:
    ranks = mean_ranks(work)

    assert all(ranks[v.maker] >= ranks[taker] for v in work.values for taker in v.takers)


@given(st.data())
def test_nothing_ends_before_its_rank_says(data: st.DataObject) -> None:
    """Hopeful ranks hold for any arrangement, those of a placement for that one."""
    work = data.draw(workloads())
    arranged = data.draw(arrangements(work))

    found = forecast(work, arranged)
    placed, hopeful = placed_ranks(work, arranged.device), hopeful_ranks(work)

    for task, (start, here) in enumerate(zip(found.start, arranged.device, strict=True)):
        least = hopeful[task][here] + work.seconds[task][here]
        assert least <= placed[task] or least == pytest.approx(placed[task])
        assert start + placed[task] <= found.makespan_s * (1 + 1e-9)
