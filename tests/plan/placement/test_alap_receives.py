"""Receives that wait: nothing ends later for it, and no device holds more."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actorflow.plan.placement.alap_receives import alap, latest_sends
from actorflow.plan.placement.list_scheduling import list_schedule
from actorflow.plan.placement.makespan import forecast
from actorflow.plan.placement.scheduling_problem import (
    Arrangement,
    DeviceLink,
    SchedulingProblem,
    TransferControl,
    Value,
)
from tests.plan.corpus import SEEDS, drawn
from tests.plan.workloads import arrangements, workloads

LINKS = [[DeviceLink(0.0, 4.0)] * 2] * 2


def needed_last() -> tuple[SchedulingProblem, Arrangement]:
    """Parameters of three layers lie on another device; each is needed only when its layer runs."""
    parameters = [Value(k, (3 + k,), 4.0) for k in range(3)]
    layers = [Value(3 + k, (4 + k,), 0.0) for k in range(2)]
    work = SchedulingProblem([[0.0, 0.0]] * 3 + [[4.0, 4.0]] * 3, [*parameters, *layers], LINKS)
    return work, Arrangement((0, 0, 0, 1, 1, 1), tuple(map(float, range(6))))


def test_a_receive_waits_for_the_last_task_that_ends_before_it_must_begin() -> None:
    work, arranged = needed_last()

    found = alap(work, arranged)

    assert found.transfer_controls == (TransferControl(2, 1, 3),)  # the others are needed too soon
    before, after = forecast(work, arranged), forecast(work, found)
    assert (before.makespan_s, after.makespan_s) == (13.0, 13.0)
    assert (before.peak_bytes[1], after.peak_bytes[1]) == (12.0, 8.0)


def test_how_late_a_transfer_may_begin_follows_from_the_chain_behind_it() -> None:
    work, arranged = needed_last()

    latest = latest_sends(work, arranged, forecast(work, arranged))

    assert latest == {(0, 1): 0.0, (1, 1): 4.0, (2, 1): 8.0}


@pytest.mark.parametrize(
    ("value", "last"), [(Value(0, (1,), 1.0), [0.0, 0.5]), (Value(0, (1,), 0.0), [0.5, 0.0])]
)
def test_what_takes_no_time_goes_before_what_begins_at_the_same_moment(
    value: Value, last: list[float]
) -> None:
    """A transfer of nothing before one of a byte, and a task of no time before one that takes some."""
    work = SchedulingProblem(
        [[0.0, 0.0], *([s, s] for s in last)], [value, Value(0, (1,), 0.0), Value(0, (2,), 0.0)], LINKS
    )
    arranged = Arrangement((0, 1, 1), (0.0, 1.0, 0.0))
    found = forecast(work, arranged)

    latest = latest_sends(work, arranged, found)

    assert all(found.sent[key] <= by for key, by in latest.items())


@given(st.data())
def test_nothing_ends_later_and_nothing_holds_more(data: st.DataObject) -> None:
    work = data.draw(workloads())
    arranged = data.draw(arrangements(work))
    before = forecast(work, arranged)

    after = forecast(work, alap(work, arranged))

    assert after.makespan_s <= before.makespan_s * (1 + 1e-9)
    assert all(a <= b for a, b in zip(after.peak_bytes, before.peak_bytes, strict=True))


@given(st.data())
def test_no_transfer_is_forecast_to_begin_after_it_must(data: st.DataObject) -> None:
    work = data.draw(workloads())
    arranged = data.draw(arrangements(work))
    found = forecast(work, arranged)

    latest = latest_sends(work, arranged, found)

    assert latest.keys() == found.sent.keys()
    assert all(found.sent[key] <= by or found.sent[key] == pytest.approx(by) for key, by in latest.items())


def test_on_the_corpus_many_receives_wait_and_some_memory_is_saved() -> None:
    waiting = sent = saved = 0
    for seed in SEEDS:
        work = drawn(seed)
        arranged = list_schedule(work, trials=0)
        before, gated = forecast(work, arranged), alap(work, arranged)
        waiting, sent = waiting + len(gated.transfer_controls), sent + len(before.sent)
        saved += sum(forecast(work, gated).peak_bytes) < sum(before.peak_bytes)

    assert waiting * 10 >= sent
    assert saved >= 10
