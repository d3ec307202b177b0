"""The simulator of placements: one task a device, one value a link, one transfer a value and destination."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actorflow.plan.placement.makespan import Forecast, forecast, within_limits
from actorflow.plan.placement.scheduling_problem import (
    Arrangement,
    DeviceLink,
    SchedulingProblem,
    TransferControl,
    Value,
)
from tests.plan.workloads import arrangements, workloads

LINK = DeviceLink(latency_s=1.0, bytes_per_s=2.0)


def work(
    seconds: list[float], *values: Value, devices: int = 2, limits: tuple[float, ...] = ()
) -> SchedulingProblem:
    links = [[LINK] * devices for _ in range(devices)]
    return SchedulingProblem([[s] * devices for s in seconds], values, links, (), limits)


def arranged(*device: int) -> Arrangement:
    return Arrangement(device, tuple(map(float, range(len(device)))))


def test_a_device_runs_one_task_at_a_time_and_the_lowest_rank_first() -> None:
    found = forecast(work([1, 2, 4]), Arrangement((0, 0, 1), (2.0, 1.0, 0.0)))

    assert found.start == [2.0, 0.0, 0.0]
    assert found.makespan_s == 4.0


def test_a_value_is_there_a_latency_after_its_bytes_were_carried() -> None:
    found = forecast(work([1, 1], Value(0, (1,), 6.0)), arranged(0, 1))

    assert found.sent == {(0, 1): 1.0}
    assert found.arrived == {(0, 1): 5.0}
    assert found.makespan_s == 6.0


def test_a_value_goes_once_to_each_device_however_many_take_it() -> None:
    found = forecast(work([1, 1, 1, 1], Value(0, (1, 2, 3), 2.0)), arranged(0, 1, 1, 0))

    assert list(found.sent) == [(0, 1)]
    assert found.start == [0.0, 3.0, 4.0, 1.0]


def test_a_link_carries_one_value_at_a_time_the_more_urgent_one_first() -> None:
    values = Value(0, (1,), 4.0), Value(0, (2,), 4.0)

    found = forecast(work([1, 1, 1], *values), Arrangement((0, 1, 1), (0.0, 2.0, 1.0)))

    assert found.sent == {(1, 1): 1.0, (0, 1): 3.0}
    assert found.start == [0.0, 6.0, 4.0]


def test_the_two_directions_of_a_link_do_not_meet() -> None:
    values = Value(0, (2,), 4.0), Value(1, (3,), 4.0)

    found = forecast(work([1, 1, 1, 1], *values), arranged(0, 1, 1, 0))

    assert found.sent == {(0, 1): 1.0, (1, 0): 1.0}


def test_memory_counts_what_is_made_from_its_start_to_the_end_of_the_last_taker() -> None:
    values = Value(0, (1,), 10.0), Value(1, (2,), 5.0), Value(2, (3,), 1.0)

    found = forecast(work([1, 1, 1, 1], *values), arranged(0, 0, 0, 0))

    assert found.peak_bytes == [15.0, 0.0]


def test_memory_counts_a_value_on_both_sides_of_its_transfer() -> None:
    found = forecast(work([1, 1], Value(0, (1,), 10.0)), arranged(0, 1))

    assert found.peak_bytes == [10.0, 10.0]


def test_a_gate_holds_a_transfer_back_until_its_task_has_ended_and_said_so() -> None:
    found = forecast(
        work([1, 5, 1], Value(0, (2,), 2.0)),
        replace(arranged(0, 1, 1), transfer_controls=(TransferControl(0, 1, 1),)),
    )

    assert found.sent == {(0, 1): 6.0}  # at 5 it ended, at 6 the sender knows
    assert found.start[2] == 8.0


def test_an_order_is_kept_whatever_the_ranks_say() -> None:
    found = forecast(work([1, 1]), Arrangement((0, 0), (0.0, 1.0), after=((1, 0),)))

    assert found.start == [1.0, 0.0]


def test_tasks_that_wait_for_each_other_never_end() -> None:
    found = forecast(work([1, 1]), Arrangement((0, 0), (0.0, 1.0), after=((1, 0), (0, 1))))

    assert found.makespan_s == float("inf")
    assert found.start == [-1.0, -1.0]


def test_a_throttled_run_starts_nothing_that_does_not_fit() -> None:
    values = Value(0, (2,), 4.0), Value(1, (3,), 4.0), Value(2, (4,), 0.0), Value(3, (4,), 0.0)
    of = work([1, 1, 1, 1, 1], *values, devices=1, limits=(4.0,))
    both_first = Arrangement((0,) * 5, (0.0, 3.0, 1.0, 4.0, 5.0))

    free = forecast(of, Arrangement((0,) * 5, (0.0, 0.0, 1.0, 1.0, 2.0)))
    throttled = forecast(of, both_first, throttled=True)

    assert not within_limits(of, free)
    assert within_limits(of, throttled)
    assert throttled.makespan_s == 5.0


def no_overlap(spans: list[tuple[float, float]]) -> bool:
    return all(end <= begin for (_, end), (begin, _) in pairwise(sorted(spans)))


@given(st.data())
def test_what_is_forecast_can_happen(data: st.DataObject) -> None:
    of = data.draw(workloads())
    chosen = data.draw(arrangements(of))
    device = chosen.device

    found = forecast(of, chosen)

    for d in range(len(of.links)):
        ran = [(found.start[t], found.finish[t]) for t in range(of.size) if device[t] == d]
        assert no_overlap([span for span in ran if span[0] < span[1]])
    carried: dict[tuple[int, int], list[tuple[float, float]]] = {}
    for (v, d), at in found.sent.items():
        source = device[of.values[v].maker]
        taken = of.values[v].size / of.links[source][d].bytes_per_s
        assert at >= found.finish[of.values[v].maker]
        assert found.arrived[v, d] == pytest.approx(at + taken + of.links[source][d].latency_s)
        if taken:
            carried.setdefault((source, d), []).append((at, at + taken))
    assert all(no_overlap(spans) for spans in carried.values())
    for v, value in enumerate(of.values):
        for taker in value.takers:
            here = device[taker]
            came = found.finish[value.maker] if here == device[value.maker] else found.arrived[v, here]
            assert found.start[taker] >= came


@given(st.data())
def test_what_began_stands_behind_all_that_it_waited_for(data: st.DataObject) -> None:
    of = data.draw(workloads())
    chosen = data.draw(arrangements(of))

    found = forecast(of, chosen)

    place = {what: k for k, what in enumerate(found.begun)}
    times = [found.start[item] if to < 0 else found.sent[item, to] for item, to in found.begun]
    assert times == sorted(times)
    assert len(place) == of.size + len(found.sent)
    for v, value in enumerate(of.values):
        for taker in value.takers:
            here = chosen.device[taker]
            sent = place.get((v, here), place[value.maker, -1])
            assert place[value.maker, -1] <= sent < place[taker, -1]


@given(st.data())
def test_no_device_is_idle_while_a_task_is_ready_there(data: st.DataObject) -> None:
    of = data.draw(workloads())
    chosen = data.draw(arrangements(of))

    found = forecast(of, chosen)

    for task in range(of.size):
        here = chosen.device[task]
        ready = max((came(of, chosen, found, v, task) for v in of.takes[task]), default=0.0)
        busy = sum(
            max(0.0, min(found.finish[t], found.start[task]) - max(found.start[t], ready))
            for t in range(of.size)
            if chosen.device[t] == here and t != task
        )
        assert found.start[task] - ready == pytest.approx(busy)


def came(of: SchedulingProblem, chosen: Arrangement, found: Forecast, v: int, task: int) -> float:
    maker, here = of.values[v].maker, chosen.device[task]
    return found.finish[maker] if chosen.device[maker] == here else found.arrived[v, here]


@given(st.data())
def test_a_run_that_is_broken_off_tells_nothing_else_than_a_whole_one(data: st.DataObject) -> None:
    of = data.draw(workloads())
    chosen = data.draw(arrangements(of))
    whole = forecast(of, chosen)

    part = forecast(of, chosen, until_s=whole.makespan_s / 2)

    assert part.makespan_s in (float("inf"), whole.makespan_s)
    assert all(a in (-1.0, b) for a, b in zip(part.start, whole.start, strict=True))
