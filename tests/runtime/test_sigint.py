"""Ctrl-C is kept, whatever the code that it hit made of it."""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
from collections.abc import Callable

import pytest

from actorflow.runtime import event_loop
from actorflow.runtime.sigint import guard_sigint


def ctrl_c() -> None:
    signal.raise_signal(signal.SIGINT)


def swallow() -> None:
    with pytest.raises(KeyboardInterrupt):
        ctrl_c()


def mistake() -> None:
    swallow()
    raise ImportError


@pytest.mark.parametrize("code", [ctrl_c, swallow, mistake])
def test_an_interrupt_ends_the_block_as_one(code: Callable[[], None]) -> None:
    with pytest.raises(KeyboardInterrupt), guard_sigint():
        code()


@pytest.mark.parametrize("code", [ctrl_c, lambda: None])
def test_handler_and_hook_are_put_back(code: Callable[[], None]) -> None:
    before = signal.getsignal(signal.SIGINT), sys.unraisablehook

    try:
        with guard_sigint():
            code()
    except KeyboardInterrupt:
        pass

    assert (signal.getsignal(signal.SIGINT), sys.unraisablehook) == before


def test_one_that_comes_before_the_block_begins_is_raised_once() -> None:
    heard: list[sys.UnraisableHookArgs] = []
    before = signal.getsignal(signal.SIGINT), sys.unraisablehook
    sys.unraisablehook = heard.append
    try:
        made = guard_sigint()
        made.__enter__()
        with pytest.raises(KeyboardInterrupt):
            ctrl_c()  # where `with` has not taken over yet
        del made
        assert heard == []
        assert signal.getsignal(signal.SIGINT) is before[0]
    finally:
        signal.signal(signal.SIGINT, before[0])
        sys.unraisablehook = before[1]


def test_an_error_of_the_block_stays_what_it_is() -> None:
    with pytest.raises(ImportError), guard_sigint():
        raise ImportError


def test_a_handler_of_somebody_else_is_left_alone() -> None:
    heard = []
    before = signal.signal(signal.SIGINT, lambda *_: heard.append(True))
    try:
        with guard_sigint():
            ctrl_c()
    finally:
        signal.signal(signal.SIGINT, before)

    assert heard == [True]


def test_a_thread_that_ctrl_c_does_not_reach_is_left_alone() -> None:
    ran = []

    def block() -> None:
        with guard_sigint():
            ran.append(True)

    thread = threading.Thread(target=block)
    thread.start()
    thread.join()

    assert ran == [True]


def test_one_that_comes_before_the_loop_runs_leaves_no_warning(
    monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder
) -> None:
    async def main() -> None: ...

    def factory() -> Callable[[], asyncio.AbstractEventLoop]:
        raise KeyboardInterrupt

    monkeypatch.setattr(event_loop, "loop_factory", factory)
    with pytest.raises(KeyboardInterrupt):
        event_loop.run(main())
    assert not recwarn.list
