from __future__ import annotations

import asyncio
import contextlib
import importlib
import random
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import find, given
from hypothesis import strategies as st

from actorflow.errors import Escape, SimulationError
from actorflow.sim.engine import patched_environment
from actorflow.sim.engine.chance import SeededEntropy
from tests.sim.spinning import is_set

FOLLOWING = ["monotonic", "perf_counter", "process_time", "thread_time"]


class Hand:
    """A clock that is turned by hand."""

    def __init__(self) -> None:
        self.at = 0.0

    def now(self) -> float:
        return self.at

    def turn(self, seconds: float) -> None:
        self.at += seconds


def simulated(seed: int = 7) -> patched_environment.PatchedEnvironment:
    return patched_environment.patch_environment(now=Hand().now, seed=seed)


@pytest.mark.parametrize("name", FOLLOWING)
def test_a_clock_that_measures_follows_the_run(name: str) -> None:
    hand = Hand()

    with patched_environment.patch_environment(now=hand.now, seed=7):
        before = getattr(time, name)()
        hand.turn(2.5)
        after, after_ns = getattr(time, name)(), getattr(time, f"{name}_ns")()

    assert (before, after, after_ns) == (0.0, 2.5, 2_500_000_000)


def test_the_time_of_day_follows_the_run_from_the_epoch() -> None:
    hand = Hand()

    with patched_environment.patch_environment(now=hand.now, seed=7):
        hand.turn(61.0)
        seconds, nanoseconds = time.time(), time.time_ns()
        fields = time.gmtime()

    assert (seconds, nanoseconds) == (
        patched_environment.EPOCH_S + 61,
        (patched_environment.EPOCH_S + 61) * 10**9,
    )
    assert tuple(fields)[:6] == (2000, 1, 1, 0, 1, 1)


def test_the_time_of_day_as_text_follows_the_run() -> None:
    day = time.localtime(patched_environment.EPOCH_S)

    with simulated():
        told = time.ctime(), time.asctime(), time.strftime("%Y-%m-%d"), time.localtime()
        given = time.strftime("%Y", (1999, 1, 1, 0, 0, 0, 0, 1, 0)), time.gmtime(0)[0]

    assert told == (time.asctime(day), time.asctime(day), time.strftime("%Y-%m-%d", day), day)
    assert given == ("1999", 1970)


@pytest.mark.skipif(not hasattr(time, "clock_gettime"), reason="this platform has none")
def test_the_clocks_by_number_follow_the_run() -> None:
    hand = Hand()

    with patched_environment.patch_environment(now=hand.now, seed=7):
        hand.turn(1.5)
        told = time.clock_gettime(time.CLOCK_MONOTONIC), time.clock_gettime(time.CLOCK_REALTIME)
        told_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC), time.clock_gettime_ns(time.CLOCK_REALTIME)

    assert told == (1.5, patched_environment.EPOCH_S + 1.5)
    assert told_ns == (1_500_000_000, patched_environment.EPOCH_S * 10**9 + 1_500_000_000)


def test_a_sleep_is_refused_with_its_line_and_what_to_do() -> None:
    with simulated(), pytest.raises(Escape) as refused:
        time.sleep(3)

    line = refused.traceback[0].lineno + 1
    assert f"time.sleep(3), called at tests/sim/engine/test_patched_environment.py:{line}" in str(
        refused.value
    )
    assert "await asyncio.sleep" in str(refused.value)


def test_a_sleep_moves_the_clock_of_a_run_that_says_how() -> None:
    hand = Hand()

    with patched_environment.patch_environment(now=hand.now, seed=7, advance=hand.turn):
        time.sleep(3)
        slept = time.monotonic()
        with pytest.raises(ValueError, match="non-negative"):
            time.sleep(-1)

    assert slept == 3.0


def snapshot() -> dict[str, object]:
    """Everything that stands where a run puts something else."""
    with simulated():
        pass  # so that all patches are made
    return {
        f"{seam.space}.{seam.name}": getattr(seam.space, seam.name) for seam in patched_environment.patches()
    }


def fail(error: type[BaseException]) -> Callable[[], None]:
    def body() -> None:
        raise error

    return body


class StopTest(BaseException):
    """As hypothesis ends an example."""


@pytest.mark.parametrize(
    "body",
    [lambda: None, fail(ValueError), fail(KeyboardInterrupt), fail(StopTest), fail(asyncio.CancelledError)],
    ids=["no error", "error", "interrupt", "end of an example", "cancellation"],
)
def test_everything_is_put_back_whatever_ends_the_run(body: Callable[[], None]) -> None:
    before = snapshot()

    try:
        with simulated():
            assert snapshot_differs(before)
            body()
    except (ValueError, KeyboardInterrupt, StopTest, asyncio.CancelledError):
        pass

    assert {f"{s.space}.{s.name}": getattr(s.space, s.name) for s in patched_environment.patches()} == before
    with simulated():
        pass  # a next run may begin


def snapshot_differs(before: dict[str, object]) -> bool:
    """Every single name is replaced, so a patch that does nothing is seen."""
    return all(
        getattr(s.space, s.name) is not before[f"{s.space}.{s.name}"] for s in patched_environment.patches()
    )


def test_everything_is_put_back_when_the_entry_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    before = snapshot()

    def interrupted(*args: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(SeededEntropy, "begin", interrupted)

    with pytest.raises(KeyboardInterrupt):
        simulated().__enter__()

    monkeypatch.undo()
    assert snapshot() == before


def test_another_thread_sees_the_real_world() -> None:
    seen: dict[str, float] = {}
    go, gone = threading.Event(), threading.Event()

    def look() -> None:
        go.wait(10)
        seen["monotonic"] = time.monotonic()
        time.sleep(0.001)
        seen["time"] = time.time()
        inner = threading.Thread(target=lambda: seen.setdefault("inner", 1.0))
        inner.start()
        inner.join()
        gone.set()

    thread = threading.Thread(target=look)
    thread.start()
    earliest, today = time.monotonic(), time.time()

    with simulated():
        go.set()
        assert is_set(gone)
        here = time.monotonic()
    thread.join()

    assert here == 0.0
    assert seen["monotonic"] >= earliest
    assert seen["time"] >= today
    assert seen["inner"] == 1.0


def test_a_run_within_a_run_is_refused_and_the_outer_goes_on() -> None:
    with simulated():
        with pytest.raises(SimulationError, match="one goes on in this thread"), simulated(8):
            pass
        still = time.monotonic()

    assert still == 0.0


def test_a_run_beside_that_of_another_thread_is_refused() -> None:
    refused: list[BaseException] = []

    def second() -> None:
        go.wait(10)
        try:
            simulated().__enter__()
        except SimulationError as error:
            refused.append(error)
        gone.set()

    go, gone = threading.Event(), threading.Event()
    thread = threading.Thread(target=second)
    thread.start()

    with simulated():
        go.set()
        assert is_set(gone)
        here = time.monotonic()
    thread.join()

    assert "one goes on in another thread" in str(refused[0])
    assert "processes" in str(refused[0])
    assert here == 0.0


def test_a_name_bound_by_an_import_during_a_run_is_real_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bound_meanwhile.py").write_text(
        "from time import monotonic\nclass Clock:\n    now = monotonic\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))

    with simulated():
        module = importlib.import_module("bound_meanwhile")
        inside = module.monotonic(), module.Clock().now()
    first = time.monotonic()
    after = module.monotonic(), module.Clock().now()
    del sys.modules["bound_meanwhile"]

    assert inside == (0.0, 0.0)
    assert min(after) >= first


def test_what_a_test_has_put_in_place_of_a_function_is_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    def frozen() -> float:
        return 5.0

    monkeypatch.setattr(time, "time", frozen)
    with simulated():
        inside = time.time()

    assert inside == patched_environment.EPOCH_S
    assert time.time is frozen


def test_a_stand_in_that_is_put_back_too_late_does_no_harm(monkeypatch: pytest.MonkeyPatch) -> None:
    real = time.time
    with simulated():
        monkeypatch.setattr(time, "time", lambda: 5.0)
    monkeypatch.undo()  # puts the stand-in back, after the run
    try:
        outside = time.time()
        with simulated():
            inside = time.time()
    finally:
        left, time.time = time.time, real

    assert outside > patched_environment.EPOCH_S
    assert inside == patched_environment.EPOCH_S
    assert left is real


def test_what_was_refused_is_remembered_where_the_program_caught_it() -> None:
    with simulated() as outside:
        for seconds in range(20):
            with contextlib.suppress(Exception):  # a careless program
                time.sleep(seconds)

    assert len(outside.refused) == 8
    assert "time.sleep(0)" in str(outside.refused[0])
    with simulated() as next_run:
        pass
    assert next_run.refused == []


@given(st.data(), st.integers())
def test_hypothesis_may_draw_during_a_run(data: st.DataObject, seed: int) -> None:
    with simulated(seed):
        drawn = data.draw(st.lists(st.integers(0, 9), max_size=5))
        chance = random.random()
    with simulated(seed):
        again = random.random()

    assert len(drawn) <= 5
    assert chance == again


def test_hypothesis_shrinks_through_runs() -> None:
    def long_enough(data: list[int]) -> bool:
        with simulated():
            return sum(data) + random.random() * 0 + time.time() >= patched_environment.EPOCH_S + 100

    assert find(st.lists(st.integers(0, 1000)), long_enough) == [100]


def test_a_finaliser_of_the_run_sees_its_world() -> None:
    seen: list[float] = []

    class Cycle:
        def __init__(self) -> None:
            self.me = self

        def __del__(self) -> None:
            seen.append(time.time())

    with simulated():
        Cycle()

    assert seen == [patched_environment.EPOCH_S]
