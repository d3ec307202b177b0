from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actorflow.actors.timer_wheel import Timer, TimerWheel, remove
from actorflow.sim.engine.event_loop import SimLoop
from tests.actors.playing import LoopClock, pause, run_on

delays = st.lists(st.tuples(st.floats(0, 3), st.booleans()), max_size=30)


@given(delays=delays)
def test_timers_fire_once_never_early_and_at_most_a_tick_late_unless_removed(
    delays: list[tuple[float, bool]],
) -> None:
    async def main() -> list[tuple[float, float]]:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, SimLoop)
        wheel = TimerWheel(loop, loop)
        fired: list[tuple[float, float]] = []

        def note(delay: float) -> None:
            fired.append((delay, loop.time()))

        timers = [(wheel.after(delay, partial(note, delay)), keep) for delay, keep in delays]
        for timer, keep in timers:
            if not keep:
                timer.cancel()
        assert len(wheel) == sum(keep for _, keep in delays)
        await pause(4)
        assert len(wheel) == 0
        return fired

    fired = run_on("virtual", main)

    assert sorted(delay for delay, _ in fired) == sorted(delay for delay, keep in delays if keep)
    for delay, at in fired:
        assert delay <= at + 1e-9
        assert at <= delay + 0.01 + 1e-9


def test_an_entry_that_another_one_removes_in_the_same_bucket_does_not_fire() -> None:
    async def main() -> list[str]:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, SimLoop)
        wheel = TimerWheel(loop, loop)
        fired: list[str] = []
        second = Timer(lambda: fired.append("second"))

        def first() -> None:
            fired.append("first")
            remove(second)

        wheel.after(0.001, first)
        wheel.add(0.002, second)
        await pause(1)
        return fired

    assert run_on("virtual", main) == ["first"]


def test_an_idle_wheel_sets_no_loop_timer() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, SimLoop)
        set_: list[asyncio.TimerHandle] = []

        class Noting:
            """The loop, which notes the timers that are set."""

            def call_later(self, *args: Any, **options: Any) -> asyncio.TimerHandle:
                set_.append(loop.call_later(*args, **options))
                return set_[-1]

        wheel = TimerWheel(Noting(), loop)  # type: ignore[arg-type]  # of a loop it asks no more
        for _ in range(3):
            wheel.after(2.0, lambda: None).cancel()
        wheel.after(0.5, lambda: None)
        await pause(1)
        assert set_
        assert all(handle.cancelled() or handle.when() < loop.time() for handle in set_)
        wheel.close()

    run_on("virtual", main)


@given(kept=st.sets(st.integers(0, 1999)))
def test_empty_buckets_are_thrown_out_before_their_time(kept: set[int]) -> None:
    fired: list[int] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, SimLoop)
        wheel = TimerWheel(loop, loop)
        for n in range(2000):  # as asks do that are answered at once: each tick has a bucket of its own
            timer = wheel.after(100 + n * 0.01, partial(fired.append, n))
            if n not in kept:
                timer.cancel()
            assert len(wheel.buckets) <= 2 * len(wheel) + 66
        assert wheel._keys[0] == min(wheel.buckets)
        await pause(150)
        assert not wheel.buckets

    run_on("virtual", main)

    assert fired == sorted(kept)


class Enough(BaseException):
    """Ends a program, as KeyboardInterrupt does, but not that of the tests."""


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
@pytest.mark.parametrize("kind", [ValueError, Enough])
def test_an_entry_that_raises_is_reported_and_keeps_no_other_from_its_time(
    kind: type[BaseException], loop: str
) -> None:
    """On real loops: what is no Exception ends a simulated run."""
    fired: list[int] = []
    reports: list[Any] = []

    def ring(n: int) -> None:
        fired.append(n)
        if n % 2:
            raise kind(n)

    async def main() -> None:
        running = asyncio.get_running_loop()
        running.set_exception_handler(lambda _loop, context: reports.append(context["exception"]))
        wheel = TimerWheel(running, LoopClock())
        for n in range(4):
            wheel.after(0.001, partial(ring, n))
        wheel.after(0.02, partial(ring, 4))
        await pause(0.05)
        assert len(wheel) == 0

    run_on(loop, main)

    assert fired == [0, 1, 2, 3, 4]
    assert [error.args for error in reports] == ([(1,), (3,)] if kind is ValueError else [(1,)])
