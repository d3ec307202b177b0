"""List scheduling never loses to greedy, and wins where greedy looks no further than the next end."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actorflow.plan.placement.greedy import greedy
from actorflow.plan.placement.list_scheduling import causes, improve, list_schedule, schedule_by_urgency
from actorflow.plan.placement.makespan import forecast
from actorflow.plan.placement.ranks import mean_ranks
from actorflow.plan.placement.scheduling_problem import SchedulingProblem
from tests.plan.corpus import SEEDS, TRAPS, drawn
from tests.plan.workloads import arrangements, can_run, workloads


@cache
def makespans(seed: int) -> tuple[float, float]:
    """Of number `seed` of the corpus: as list scheduling places it, and as greedy does."""
    work = drawn(seed)
    ours = list_schedule(work)
    assert can_run(work, ours)
    return forecast(work, ours).makespan_s, forecast(work, greedy(work)).makespan_s


@pytest.mark.parametrize("seed", SEEDS)
def test_it_takes_no_longer_than_greedy_on_the_corpus(seed: int) -> None:
    ours, baseline = makespans(seed)

    assert ours <= baseline


@pytest.mark.slow
def test_it_takes_a_tenth_less_than_greedy_in_the_middle_of_the_corpus() -> None:
    ratios = sorted(ours / baseline for ours, baseline in map(makespans, SEEDS))

    assert ratios[len(ratios) // 2] <= 0.9


def test_one_list_alone_would_take_longer_than_greedy_somewhere() -> None:
    """So the laws above can fail."""
    alone = [(work, schedule_by_urgency(work, mean_ranks(work), None)) for work in map(drawn, range(10))]

    assert any(
        forecast(work, ours).makespan_s > forecast(work, greedy(work)).makespan_s for work, ours in alone
    )


@pytest.mark.parametrize("trap", TRAPS, ids=lambda trap: trap.__name__)
def test_it_takes_a_tenth_less_than_greedy_in_every_trap(trap: Callable[[], SchedulingProblem]) -> None:
    work = trap()

    assert forecast(work, list_schedule(work)).makespan_s <= 0.9 * forecast(work, greedy(work)).makespan_s


@given(workloads())
def test_it_takes_no_longer_than_greedy_on_any_graph(work: SchedulingProblem) -> None:
    ours = list_schedule(work)

    assert can_run(work, ours)
    assert forecast(work, ours).makespan_s <= forecast(work, greedy(work)).makespan_s


def test_the_same_workload_is_arranged_alike_each_time() -> None:
    assert list_schedule(drawn(3)) == list_schedule(drawn(3))


def test_more_trials_never_make_it_worse() -> None:
    for seed in range(10):
        work = drawn(seed)
        few, many = list_schedule(work, trials=0), list_schedule(work)

        assert forecast(work, many).makespan_s <= forecast(work, few).makespan_s


@given(st.data())
def test_the_chain_of_causes_leads_from_the_last_end_backwards_in_time(data: st.DataObject) -> None:
    work = data.draw(workloads())
    arranged = data.draw(arrangements(work))
    found = forecast(work, arranged)

    chain = causes(work, arranged, found)

    assert found.finish[chain[0]] == found.makespan_s
    ends = [found.finish[task] for task in chain]
    assert ends == sorted(ends, reverse=True)
    assert len(set(chain)) == len(chain)


@given(st.data())
def test_an_improvement_is_one(data: st.DataObject) -> None:
    work = data.draw(workloads())
    arranged = data.draw(arrangements(work))
    found = forecast(work, arranged)

    better = improve(work, arranged, found, trials=200)

    assert can_run(work, better)
    assert forecast(work, better).makespan_s <= found.makespan_s
