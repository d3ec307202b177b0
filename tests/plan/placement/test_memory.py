"""What fits when it runs one by one never runs out of memory, whatever order was fast."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actorflow.plan.placement.list_scheduling import list_schedule
from actorflow.plan.placement.makespan import forecast, within_limits
from actorflow.plan.placement.memory import fitting, in_order, serial
from actorflow.plan.placement.scheduling_problem import Arrangement, DeviceLink, SchedulingProblem, Value
from tests.plan.workloads import SECONDS, arrangements, workloads


def limited(work: SchedulingProblem, limits: tuple[float, ...]) -> SchedulingProblem:
    return SchedulingProblem(work.seconds, work.values, work.links, work.groups, limits)


def one_by_one(work: SchedulingProblem, device: tuple[int, ...]) -> list[float]:
    """The most bytes on each device, from a plain walk through the tasks in order."""
    lying: dict[tuple[int, int], None] = {}
    peaks = [0.0] * len(work.links)

    def note() -> None:
        for d in range(len(peaks)):
            peaks[d] = max(peaks[d], sum(work.values[v].size for v, at in lying if at == d))

    for task in range(work.size):
        for v in work.takes[task]:
            lying[v, device[task]] = None
        note()
        for v in list(dict.fromkeys(v for v, _ in lying)):
            maker = device[work.values[v].maker]
            if all(t <= task for t in work.values[v].takers if device[t] != maker):
                sent = [device[t] for t in work.values[v].takers if device[t] != maker]
                if sent and all(t < task for t in work.values[v].takers if device[t] == maker):
                    lying.pop((v, maker), None)
        lying.update(((v, device[task]), None) for v in work.makes[task])
        note()
        for v, d in list(lying):
            here = [t for t in work.values[v].takers if device[t] == d]
            away = [t for t in work.values[v].takers if device[t] != d]
            home = d == device[work.values[v].maker]
            if all(t <= task for t in here) and (not home or all(t <= task for t in away)):
                del lying[v, d]
    return peaks


@given(st.data())
def test_what_fits_one_by_one_fits(data: st.DataObject) -> None:
    work = data.draw(workloads())
    first = tuple(work.choices[g][0] for g in work.groups)
    limits = tuple(forecast(work, serial(work, first)).peak_bytes)
    work = limited(work, tuple(limit + data.draw(st.integers(0, 4)) for limit in limits))

    found = fitting(work, list_schedule(work)) or fitting(work, Arrangement(first, (0.0,) * work.size))

    assert found is not None
    assert within_limits(work, forecast(work, found))
    assert forecast(work, found).makespan_s < float("inf")


@given(st.data())
def test_one_by_one_no_device_holds_more_than_one_device_alone_would(data: st.DataObject) -> None:
    work = data.draw(workloads())
    anywhere = data.draw(arrangements(work)).device
    (alone, *_) = forecast(work, serial(work, (0,) * work.size)).peak_bytes

    spread = forecast(work, serial(work, anywhere))

    assert all(peak <= alone for peak in spread.peak_bytes)


@given(st.data())
def test_one_by_one_the_peaks_are_those_of_a_walk_whatever_anything_takes(data: st.DataObject) -> None:
    work = data.draw(workloads())
    device = data.draw(arrangements(work)).device
    other = replace(work, seconds=[[data.draw(SECONDS) for _ in row] for row in work.seconds])
    order = serial(work, device)

    peaks = [forecast(w, order).peak_bytes for w in (work, other)]

    assert all(
        p <= walked for found in peaks for p, walked in zip(found, one_by_one(work, device), strict=True)
    )


@given(st.data())
def test_an_order_that_was_written_down_can_be_kept(data: st.DataObject) -> None:
    work = data.draw(workloads())
    arranged = data.draw(arrangements(work))
    found = forecast(work, arranged)

    kept = forecast(work, in_order(work, arranged, found))

    assert kept.makespan_s < float("inf")


def side_by_side() -> SchedulingProblem:
    """Four chains of which each holds 4 bytes until its end; greedy of time starts all of them at once."""
    seconds, values, ends = [], [], []
    for _ in range(4):
        at = len(seconds)
        seconds += [[1.0], [1.0]]
        values += [Value(at, (at + 1,), 4.0)]
        ends.append(at + 1)
    values += [Value(end, (8,), 0.0) for end in ends]
    return SchedulingProblem([*seconds, [1.0]], values, [[DeviceLink(0.0, 1.0)]], (), (4.0,))


def test_an_order_that_would_not_fit_is_made_to_fit() -> None:
    work = side_by_side()
    all_at_once = Arrangement((0,) * 9, (0, 1, 0, 1, 0, 1, 0, 1, 2))

    found = fitting(work, all_at_once)

    assert forecast(work, all_at_once).peak_bytes == [16.0]
    assert found is not None
    assert forecast(work, found).peak_bytes == [4.0]
    assert forecast(work, found).makespan_s == 9.0


def test_an_order_without_its_control_edges_would_not_fit() -> None:
    """So the law above can fail."""
    work = side_by_side()
    found = fitting(work, Arrangement((0,) * 9, (0, 1, 0, 1, 0, 1, 0, 1, 2)))
    assert found is not None

    loose = replace(found, after=(), transfer_controls=(), rank=(0, 1, 0, 1, 0, 1, 0, 1, 2))

    assert not within_limits(work, forecast(work, loose))


@pytest.mark.parametrize("limits", [(3.0,), (0.5,)])
def test_what_cannot_fit_is_told(limits: tuple[float, ...]) -> None:
    work = limited(side_by_side(), limits)

    assert fitting(work, Arrangement((0,) * 9, (0.0,) * 9)) is None
