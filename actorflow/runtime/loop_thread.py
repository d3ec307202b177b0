"""An event loop on a thread of its own, for code that cannot await."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, wait
from typing import Any, TypeVar

from actorflow.errors import ConfigError
from actorflow.runtime.event_loop import loop_factory

T = TypeVar("T")

_LOOK_S = 0.25
"""How often a thread that waits looks for signals: one that comes just before it waits, or that another
thread of the process takes, does not wake it, and Ctrl-C would be lost."""


class LoopThread:
    """Runs coroutines and functions that other threads hand over, and gives them the results.

    Args:
        name: What the thread is called.
    """

    def __init__(self, name: str) -> None:
        self._loop = loop_factory()()
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self._thread.start()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Runs a coroutine to its end on the loop, and returns its result or raises its error.

        Ctrl-C cancels it, and comes through once it has cleaned up; a second one does not wait for that.

        Raises:
            ConfigError: on the thread of the loop itself, where waiting would never end; or it is closed.
        """
        try:
            self._check()
        except ConfigError:
            # Python would warn of one that nobody has awaited.
            coroutine.close()
            raise
        ended: Future[T] = Future()
        tasks: list[asyncio.Task[T]] = []
        self._loop.call_soon_threadsafe(_begin, self._loop, coroutine, ended, tasks)
        try:
            return _result(ended)
        except BaseException as error:
            # The coroutine's own error: nothing is left to cancel.
            if ended.done() and error is ended.exception():
                raise
            self._loop.call_soon_threadsafe(_cancel, tasks)  # ORDER: behind `_begin`, so there is a task
            # Until it has cleaned up; a second Ctrl-C raises out of this.
            while not ended.done():
                wait((ended,), _LOOK_S)
            raise

    def call(self, function: Callable[[], T]) -> T:
        """Calls a function on the loop, between its tasks, and returns its result or raises its error.

        Raises:
            ConfigError: as `run`.
        """

        async def called() -> T:
            return function()

        return self.run(called())

    def close(self) -> None:
        """Cancels what is left, ends the loop and its thread; closing twice is harmless."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._loop.stop)
            while self._thread.is_alive():
                self._thread.join(_LOOK_S)

    def _check(self) -> None:
        if threading.current_thread() is self._thread:
            message = f"'{self._thread.name}' would wait for itself: this is called on its own event loop"
            raise ConfigError(message, hint="return, or await the session that it was opened for")
        if self._loop.is_closed():
            message = f"'{self._thread.name}' is closed"
            raise ConfigError(message)

    def _serve(self) -> None:
        """Runs the loop until it is stopped, and then what is left of its tasks."""
        # The runner cancels what is left, when it leaves.
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.get_loop().run_forever()


def _result(ended: Future[T]) -> T:
    """Waits for a result, and returns it or raises its error; looks for signals meanwhile."""
    while True:
        try:
            return ended.result(_LOOK_S)
        except TimeoutError:
            if ended.done():  # then it may be its own
                return ended.result()


def _begin(
    loop: asyncio.AbstractEventLoop,
    coroutine: Coroutine[Any, Any, T],
    ended: Future[T],
    tasks: list[asyncio.Task[T]],
) -> None:
    """Makes the task of a call, which tells its end to the thread that waits."""
    task = loop.create_task(coroutine)
    # Made on the loop's thread, and cancelled by what the other thread hands over.
    tasks.append(task)

    def end(task: asyncio.Task[T]) -> None:
        if task.cancelled():
            ended.set_exception(asyncio.CancelledError())
        elif (error := task.exception()) is not None:
            ended.set_exception(error)
        else:
            ended.set_result(task.result())

    task.add_done_callback(end)


def _cancel(tasks: list[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
