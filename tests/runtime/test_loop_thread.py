"""An event loop on a thread of its own: what it runs, and how it ends."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest

from actorflow.errors import ConfigError
from actorflow.runtime.loop_thread import LoopThread


@pytest.fixture
def thread() -> Iterator[LoopThread]:
    made = LoopThread("a-loop")
    yield made
    made.close()


async def where() -> str:
    await asyncio.sleep(0)
    return threading.current_thread().name


def test_coroutines_and_functions_run_on_it(thread: LoopThread) -> None:
    assert thread.run(where()) == "a-loop"
    assert thread.call(lambda: threading.current_thread().name) == "a-loop"


def test_errors_come_through(thread: LoopThread) -> None:
    async def fails() -> None:
        raise KeyError("k")

    with pytest.raises(KeyError):
        thread.run(fails())
    with pytest.raises(ZeroDivisionError):
        thread.call(lambda: 1 // 0)


def test_what_cancels_itself_is_cancelled(thread: LoopThread) -> None:
    async def gives_up() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)

    with pytest.raises(asyncio.CancelledError):
        thread.run(gives_up())


def test_on_its_own_loop_it_refuses_to_wait(thread: LoopThread) -> None:
    async def nested() -> None:
        thread.run(where())

    with pytest.raises(ConfigError, match="'a-loop' would wait for itself"):
        thread.run(nested())


def test_a_closed_one_says_so_and_closing_twice_is_harmless() -> None:
    made = LoopThread("closed")
    made.close()
    made.close()

    with pytest.raises(ConfigError, match="'closed' is closed"):
        made.run(where())
    assert "closed" not in {thread.name for thread in threading.enumerate()}


def test_what_is_left_is_cancelled_when_it_is_closed() -> None:
    made, ended = LoopThread("left"), []

    async def waits() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("ended")

    async def begin() -> None:
        tasks.append(asyncio.create_task(waits()))
        await asyncio.sleep(0)

    tasks: list[asyncio.Task[None]] = []
    made.run(begin())
    made.close()

    assert ended == ["ended"]
