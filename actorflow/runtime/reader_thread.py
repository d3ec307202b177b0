"""A thread beside an event loop for plain code that gives batches, which may take as long as it likes.

Calls run one after another, in the order in which they were handed over. The loop waits on the spot for what
is quick, since that costs less than coming back to it; what is slow is awaited, and the loop goes on.

    the last call was quick     hold the loop, for HOLD_S at most
    it was not                  await at once

A call that nobody waits for any more cannot be ended. It keeps its thread until it returns, and those after
it get another one.
"""

from __future__ import annotations

import logging
import threading
from asyncio import AbstractEventLoop, CancelledError, Future
from collections.abc import Callable
from contextvars import copy_context
from queue import Empty, SimpleQueue
from typing import Any
from weakref import WeakKeyDictionary

from actorflow.runtime.clock import Clock

log = logging.getLogger("actorflow.training.batches")

HOLD_S = 0.001
"""How long the loop is held at most: much longer than a change of threads, shorter than anyone notices."""

_IDLE_S = 1.0
"""After which a thread without calls ends; the next call starts another."""


def hold_s(took_s: float) -> float:
    """Returns for how long the loop is held for a call, by how long the last one took.

    >>> from actorflow.runtime.reader_thread import HOLD_S, hold_s
    >>> hold_s(0.0) == HOLD_S, hold_s(2 * HOLD_S)
    (True, 0.0)
    """
    return HOLD_S if took_s <= HOLD_S else 0.0


class ThreadCall:
    """A call that was handed over; it belongs to the `ReaderThread` that gave it."""

    __slots__ = (
        "_error",
        "_result",
        "after",
        "begun",
        "context",
        "ended",
        "function",
        "over",
        "seconds",
        "waiter",
    )

    def __init__(self, function: Callable[[], Any]) -> None:
        self.function = function
        # As `asyncio.to_thread` does it: the caller's context, environment and all.
        self.context = copy_context()
        self.ended = threading.Lock()  # held until it is over
        self.ended.acquire()
        self.begun = self.over = False
        self.after: Callable[[], Any] | None = None
        self.waiter: Future[None] | None = None
        self.seconds = 0.0
        self._result: Any = None
        self._error: BaseException | None = None

    def run(self, clock: Clock) -> None:
        """Does it, on the thread."""
        start = clock.now()
        try:
            self._result = self.context.run(self.function)
        except BaseException as error:  # noqa: BLE001  it is raised where the result is asked for
            self._error = error
        self.seconds = clock.now() - start

    def result(self) -> Any:
        """Returns what the function returned, or raises what it raised; once it is over."""
        if self._error is not None:
            raise self._error
        return self._result


class ReaderThread:
    """Runs calls one at a time on a thread; all but what runs there is for the thread of the loop.

    INVARIANT: at most one thread takes calls; those before it end with the call that they are at.

    Args:
        loop: On which results are awaited.
        clock: Measures the calls.
    """

    def __init__(self, loop: AbstractEventLoop, clock: Clock) -> None:
        self._loop = loop
        self._clock = clock
        self._took_s = 0.0
        self._guard = threading.Lock()  # of `begun`, `over` and `after` of calls, and of what is below
        self._calls: SimpleQueue[ThreadCall | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def hand_over(self, function: Callable[[], Any]) -> ThreadCall:
        """Hands a function over, which runs in the context of the caller."""
        call = ThreadCall(function)
        with self._guard:
            self._put(call)
        return call

    async def until_over(self, call: ThreadCall) -> None:
        """Returns when a call is over; who is cancelled gives it up."""
        held_s = hold_s(self._took_s)
        # Quick most of the time: a change of threads costs less than coming back to the loop.
        if not (held_s and call.ended.acquire(timeout=held_s)):
            call.waiter = self._loop.create_future()
            if not call.over:  # ORDER: it looks for the waiter when it is over
                try:
                    await call.waiter
                # Nobody can end plain code: it keeps its thread.
                except CancelledError:
                    self._give_up(call)
                    raise
        self._took_s = call.seconds

    def after(self, call: ThreadCall, function: Callable[[], Any]) -> None:
        """Has a function run when a call is over that was given up; nobody waits for it."""
        with self._guard:
            # Not over, so the thread looks at `after` when it is.
            if call.begun and not call.over:
                call.after = function
            # Over, or never begun: behind all others, on the thread as everything of the source.
            else:
                last = ThreadCall(lambda: None)
                last.after = function
                self._put(last)

    def _put(self, call: ThreadCall) -> None:
        self._calls.put(call)
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._work, args=(self._calls,), name="actorflow-batches", daemon=True
            )
            self._thread.start()

    def _give_up(self, call: ThreadCall) -> None:
        """Leaves a call alone: with its thread, if it has begun."""
        with self._guard:
            if call.over:
                return
            # Never begun: the thread leaves it out.
            if not call.begun:
                call.over = True
                return
            # The thread stays with that call; a new queue and thread take the others.
            calls, self._calls, self._thread = self._calls, SimpleQueue(), None
            while not calls.empty():
                waiting = calls.get()
                if waiting is not None:
                    self._put(waiting)
            # Once it returns there is nothing for it: None ends it.
            calls.put(None)

    # -- on the thread --------------------------------------------------------------------------------

    def _work(self, calls: SimpleQueue[ThreadCall | None]) -> None:
        while True:
            try:
                call = calls.get(timeout=_IDLE_S)
            except Empty:
                # ORDER: looked at again under the lock: `_put` may have added one in between.
                with self._guard:
                    if calls.empty():
                        # The thread of a call that was given up is not the one that `_thread` names.
                        if calls is self._calls:
                            self._thread = None
                        return
                continue
            if call is None:
                return
            self._run(call)
            del call  # or its arrays would live until the next one

    def _run(self, call: ThreadCall) -> None:
        with self._guard:
            if call.over:  # given up before it began
                return
            call.begun = True
        call.run(self._clock)
        with self._guard:
            call.over = True
            last = call.after
        # ORDER: behind `seconds`, which whoever holds the loop reads as soon as the lock is free.
        call.ended.release()
        # ORDER: behind `over`: who has set a waiter by then is told, who comes later sees `over`.
        waiter = call.waiter
        if waiter is not None:
            self._tell(waiter)
        if last is not None:
            try:
                call.context.run(last)
            except BaseException as error:  # noqa: BLE001  nobody waits for it
                log.warning("what gave batches failed when it was closed: %r", error)

    def _tell(self, waiter: Future[None]) -> None:
        """Wakes who waits; a loop that is closed has nobody who does."""
        try:
            # Futures belong to the loop's thread.
            self._loop.call_soon_threadsafe(_wake, waiter)
        except RuntimeError:
            if not self._loop.is_closed():
                raise


def _wake(waiter: Future[None]) -> None:
    # Its task may have been cancelled in the meantime.
    if not waiter.done():
        waiter.set_result(None)


_THREADS: WeakKeyDictionary[AbstractEventLoop, ReaderThread] = WeakKeyDictionary()


def of(loop: AbstractEventLoop, clock: Clock) -> ReaderThread:
    """Returns that of a loop: workers that share a loop read one after another, as they would on it."""
    found = _THREADS.get(loop)
    if found is None:
        found = _THREADS[loop] = ReaderThread(loop, clock)
    return found
