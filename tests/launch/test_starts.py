"""How long a start may take: progress counts, and what stands still has the wall clock."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import ExitStack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actorflow.launch import starts
from actorflow.launch.process_id import processor_times
from actorflow.launch.starts import MOST, StartProgress, StartWatch, Used, look

looks = st.lists(st.tuples(st.floats(0.01, 5.0), st.none() | st.floats(0.0, 5.0)), max_size=50)


def after(told: list[tuple[float, float | None]]) -> StartProgress:
    start = StartProgress()
    for passed_s, cpu_s in told:
        start = look(start, passed_s, None if cpu_s is None else Used(cpu_s))
    return start


def check_bounds(told: list[tuple[float, float | None]]) -> None:
    start, passed_s = after(told), sum(passed for passed, _ in told)
    assert start.passed_s == pytest.approx(passed_s)
    assert passed_s / MOST - 1e-6 <= start.charged_s <= passed_s + 1e-6


@given(told=looks)
def test_a_start_is_charged_at_most_the_time_and_at_least_a_part_of_it(
    told: list[tuple[float, float | None]],
) -> None:
    check_bounds(told)


def test_the_law_finds_a_start_that_is_charged_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(starts, "MOST", 1e9)  # a start that works a little would never be too late
    with pytest.raises(AssertionError):
        check_bounds([(1.0, 0.04), (1.0, 0.08)])


@given(shares=st.lists(st.floats(0.11, 1.0), min_size=1, max_size=50))
def test_who_works_is_charged_what_it_got(shares: list[float]) -> None:
    used = [sum(shares[: k + 1]) for k in range(len(shares))]
    assert after([(1.0, at) for at in used]).charged_s == pytest.approx(used[-1])


@given(times=st.lists(st.floats(0.01, 5.0), max_size=50), used=st.none() | st.just(0.0))
def test_who_stands_still_is_charged_the_time(times: list[float], used: float | None) -> None:
    assert after([(at, used) for at in times]).charged_s == pytest.approx(sum(times))


def test_who_only_looks_for_others_now_and_then_stands_still() -> None:
    assert after([(1.0, 0.02 * k) for k in range(1, 11)]).charged_s == pytest.approx(10)


@given(share=st.floats(0.0, 0.02))
def test_who_could_run_and_gets_next_to_nothing_works(share: float) -> None:
    start = StartProgress()
    for k in range(1, 11):
        start = look(start, 1.0, Used(share * k, (1 - share) * k))
    assert start.charged_s == pytest.approx(10 / MOST)


def test_threads_that_have_ended_take_their_waiting_along() -> None:
    start = look(StartProgress(), 1.0, Used(0.0, 0.9))
    assert look(start, 1.0, Used(0.0, 0.1)).charged_s == pytest.approx(1 / MOST + 1)


def test_another_life_begins_with_no_processor_time() -> None:
    assert after([(1.0, 0.5), (1.0, 0.2)]).charged_s == pytest.approx(0.7)


def lasts(share_of: dict[str, float], ready_s: float = 60.0) -> float:
    """After how long processes are too late that get such shares of a processor."""
    waited = StartWatch(ready_s, 0.0)

    def late(now_s: float) -> bool:
        return waited.late(
            now_s, share_of, lambda: {name: Used(now_s * share) for name, share in share_of.items()}
        )

    return next(0.25 * k for k in range(10_000) if late(0.25 * k))


def test_a_start_on_a_busy_machine_has_longer_and_ends_all_the_same() -> None:
    assert lasts({"worker0": 0.0}) == pytest.approx(60)
    assert lasts({"worker0": 0.2}) == pytest.approx(300)
    assert lasts({"worker0": 0.05}) == pytest.approx(600)


def test_one_that_stands_still_is_waited_for_no_longer_beside_one_that_works() -> None:
    assert lasts({"worker0": 0.2, "worker1": 0.0}) == pytest.approx(60)


def test_a_start_without_anybody_missing_is_never_late() -> None:
    waited = StartWatch(1.0, 0.0)
    assert not waited.late(100.0, (), dict)
    assert waited.describe() == ""


def test_how_it_was_counted_is_said_where_it_was_not_the_wall_clock() -> None:
    waited = StartWatch(10.0, 0.0)
    used = iter(Used(0.2 * k) for k in range(1, 100))
    late = [waited.late(float(k), ("chief",), lambda: {"chief": next(used)}) for k in range(1, 51)]
    assert late == [False] * 49 + [True]
    assert waited.describe() == ", of 50 s that passed while it worked on a busy machine"


@pytest.mark.processes
def test_the_system_says_what_a_process_has_used() -> None:
    code = "import time\nwhile time.process_time() < 0.2: pass\nprint(flush=True)\ninput()"
    argv = [sys.executable, "-c", code]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        found = processor_times({"child": child.pid, "nobody": 2**22 + 1})
        child.communicate(b"\n")
    assert found.keys() == {"child"}
    assert found["child"].cpu_s >= 0.15
    assert processor_times({"own": os.getpid()})["own"].cpu_s > 0


@pytest.mark.processes
@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="only Linux gives processes to processors")
def test_the_system_says_how_long_a_process_has_waited_for_a_processor() -> None:
    code = "import os, time\nos.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n"
    code += "while time.process_time() < 0.3: pass\nprint(flush=True)\ninput()"
    with ExitStack() as stack:
        argv = [sys.executable, "-c", code]
        children = [
            stack.enter_context(subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE))
            for _ in range(3)
        ]
        for child in children:
            assert child.stdout is not None
            child.stdout.readline()
        found = processor_times({str(k): child.pid for k, child in enumerate(children)})
        for child in children:
            child.communicate(b"\n")
    assert max(at.queued_s for at in found.values()) > 0.1
