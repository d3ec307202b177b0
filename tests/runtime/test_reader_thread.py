"""Plain code beside an event loop: in order, one at a time, with its context, and left alone when given up."""

from __future__ import annotations

import asyncio
import threading
from contextvars import ContextVar
from functools import partial
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import actorflow as af
from actorflow.runtime import reader_thread
from actorflow.runtime.clock import SystemClock
from actorflow.runtime.reader_thread import HOLD_S, ReaderThread, hold_s

WAIT_S = 30.0


async def done(thread: ReaderThread, function: Any) -> Any:
    call = thread.hand_over(function)
    await thread.until_over(call)
    return call.result()


def reader() -> ReaderThread:
    return ReaderThread(asyncio.get_running_loop(), SystemClock())


def held(took: list[float], rule: Any = hold_s) -> float:
    """Returns for how long calls that take so long hold the loop by a rule."""
    total = last = 0.0
    for seconds in took:
        total += min(seconds, rule(last))
        last = seconds
    return total


durations = st.lists(st.one_of(st.floats(0.0, HOLD_S), st.floats(HOLD_S, 100.0)), max_size=50)


def costs(took: list[float]) -> float:
    """Returns for how long the loop may be held: for what is quick, and once where quick turns into slow."""
    quick = [True, *(seconds <= HOLD_S for seconds in took)]
    turns = sum(before and not now for before, now in pairwise(quick))
    return sum(seconds for seconds in took if seconds <= HOLD_S) + turns * HOLD_S


@given(durations)
def test_the_loop_is_held_for_what_is_quick_and_once_where_that_turns_slow(took: list[float]) -> None:
    assert held(took) <= costs(took) + 1e-9


def test_the_law_finds_a_rule_that_always_holds_the_loop() -> None:
    took = [1.0, 1.0]
    assert held(took, lambda _last: HOLD_S) > costs(took)


def test_calls_run_in_order_on_one_thread_that_is_not_the_loops() -> None:
    async def main() -> None:
        thread, seen = reader(), []

        def look(k: int) -> None:
            seen.append((k, threading.get_ident()))

        calls = [thread.hand_over(partial(look, k)) for k in range(50)]
        for call in reversed(calls):
            await thread.until_over(call)
        assert [k for k, _ in seen] == list(range(50))
        (ident,) = {ident for _, ident in seen}
        assert ident != threading.get_ident()

    af.run(main)


def test_what_a_call_raises_is_raised_where_its_result_is_asked_for() -> None:
    def fails() -> None:
        raise StopIteration(3)

    async def main() -> None:
        thread = reader()
        call = thread.hand_over(fails)
        await thread.until_over(call)
        with pytest.raises(StopIteration):
            call.result()
        assert await done(thread, lambda: 5) == 5

    af.run(main)


def test_a_call_sees_the_context_of_who_hands_it_over_and_leaves_nothing_in_it() -> None:
    told: ContextVar[int] = ContextVar("told", default=0)

    async def main() -> None:
        thread = reader()
        told.set(7)

        def sets() -> int:
            seen = told.get()
            told.set(9)
            return seen

        assert [await done(thread, sets) for _ in range(2)] == [7, 7]
        assert told.get() == 7

    af.run(main)


def test_a_call_that_is_given_up_keeps_its_thread_and_those_after_it_get_another() -> None:
    go_on, begun, closed = threading.Event(), threading.Event(), threading.Event()

    def stands() -> int:
        begun.set()
        assert go_on.wait(WAIT_S)
        return threading.get_ident()

    async def main() -> None:
        thread = reader()
        standing = thread.hand_over(stands)
        waiting = asyncio.ensure_future(thread.until_over(standing))
        behind = asyncio.ensure_future(done(thread, threading.get_ident))
        await asyncio.to_thread(begun.wait, WAIT_S)
        waiting.cancel()
        await asyncio.wait([waiting])
        assert waiting.cancelled()
        thread.after(standing, closed.set)
        other = await behind
        assert not standing.over
        assert not closed.is_set()
        go_on.set()
        await asyncio.to_thread(closed.wait, WAIT_S)
        assert closed.is_set()
        assert standing.result() != other

    af.run(main)


def test_what_comes_after_a_call_that_was_over_by_then_runs_as_well() -> None:
    closed = threading.Event()

    async def main() -> None:
        thread = reader()
        call = thread.hand_over(int)
        await thread.until_over(call)
        thread.after(call, closed.set)
        assert await asyncio.to_thread(closed.wait, WAIT_S)

    af.run(main)


def test_a_call_that_is_given_up_before_it_begins_never_does() -> None:
    go_on, ran = threading.Event(), []

    async def main() -> None:
        thread = reader()
        first = thread.hand_over(lambda: go_on.wait(WAIT_S))
        second = asyncio.ensure_future(done(thread, lambda: ran.append(2)))
        await asyncio.sleep(0.01)
        second.cancel()
        await asyncio.wait([second])
        go_on.set()
        await thread.until_over(first)
        assert await done(thread, lambda: 3) == 3
        assert not ran

    af.run(main)


def test_a_thread_without_calls_ends_and_the_next_call_starts_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reader_thread, "_IDLE_S", 0.001)

    async def main() -> None:
        thread = reader()
        first = await done(thread, threading.current_thread)
        await asyncio.to_thread(first.join, WAIT_S)
        assert not first.is_alive()
        assert await done(thread, threading.current_thread) is not first

    af.run(main)


def test_a_loop_has_one_thread_for_all_who_read_on_it() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        assert reader_thread.of(loop, SystemClock()) is reader_thread.of(loop, SystemClock())

    af.run(main)
