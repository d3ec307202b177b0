"""The greedy baseline: each task where it would end first."""

from __future__ import annotations

from hypothesis import given

from actorflow.plan.placement.greedy import greedy
from actorflow.plan.placement.makespan import forecast
from actorflow.plan.placement.scheduling_problem import DeviceLink, SchedulingProblem, Value
from tests.plan.workloads import can_run, workloads

LINKS = [[DeviceLink(1.0, 1.0)] * 2] * 2


def test_each_task_goes_where_it_would_end_first() -> None:
    work = SchedulingProblem([[3, 4], [3, 4], [3, 4]], (), LINKS)

    assert greedy(work).device == (0, 1, 0)


def test_a_dear_transfer_keeps_a_task_beside_its_input() -> None:
    work = SchedulingProblem([[1, 9], [5, 1]], [Value(0, (1,), 10.0)], LINKS)

    assert greedy(work).device == (0, 0)


def test_a_cheap_transfer_does_not() -> None:
    work = SchedulingProblem([[1, 9], [5, 1]], [Value(0, (1,), 1.0)], LINKS)

    assert greedy(work).device == (0, 1)


def test_a_link_that_is_taken_counts() -> None:
    values = Value(0, (1,), 10.0), Value(0, (2,), 1.0)
    work = SchedulingProblem([[1, 99], [99, 1], [7, 1]], values, LINKS)

    assert greedy(work).device == (0, 1, 0)


def test_the_first_of_a_group_decides_for_all() -> None:
    work = SchedulingProblem([[1, 2], [9, 1]], (), LINKS, (0, 0))

    assert greedy(work).device == (0, 0)


@given(workloads())
def test_every_task_is_placed_where_it_can_run(work: SchedulingProblem) -> None:
    found = greedy(work)

    assert can_run(work, found)
    assert sorted(found.rank) == list(range(work.size))
    assert forecast(work, found).makespan_s < float("inf")
