"""The threads of a device, and how their results come back to its event loop.

BLAS gets one thread in every worker while any device is open, so that pools do not multiply; the
old limit comes back when the last one closes.
"""

from __future__ import annotations

import threading
from asyncio import AbstractEventLoop, Future
from collections import deque
from collections.abc import Callable
from contextvars import copy_context
from queue import SimpleQueue
from typing import Any, ClassVar

from threadpoolctl import threadpool_limits

from actorflow.kernels.device.parallel_for import HERE, SharedParts
from actorflow.runtime.clock import Clock
from actorflow.values.arrays import ignore_float_errors

Done = Callable[[Any, BaseException | None, float], None]
"""(result, error, seconds) -> None, called on the loop's thread."""


class BlasThreads:
    """Counts open devices and holds BLAS at one thread while there is one."""

    lock: ClassVar[Any] = threading.RLock()  # a collected device leaves at any moment
    users: ClassVar[int] = 0
    limits: ClassVar[Any] = None

    @classmethod
    def enter(cls) -> None:
        """One device more."""
        with cls.lock:
            # One thread in every worker: pools must not multiply.
            if cls.users == 0:
                cls.limits = threadpool_limits(limits=1, user_api="blas")
            cls.users += 1

    @classmethod
    def leave(cls) -> None:
        """One device less."""
        with cls.lock:
            cls.users -= 1
            if cls.users == 0:
                # The old limit comes back with the last device.
                cls.limits.restore_original_limits()
                cls.limits = None


class Threads:
    """Worker threads of one event loop; they take jobs in order, each when it is free.

    Args:
        name: Of the device, for the names of the threads.
        loop: Where results are handed in.
        clock: Measures the jobs.
        n: How many.
    """

    def __init__(self, name: str, loop: AbstractEventLoop, clock: Clock, n: int) -> None:
        self._loop = loop
        self._now = clock.now
        self._jobs: SimpleQueue[tuple[Callable[[], Any], Done] | SharedParts | None] = SimpleQueue()
        self._waiting: deque[None] = deque()  # one entry for each thread that waits for a job
        self._results: deque[tuple[Done, Any, BaseException | None, float]] = deque()
        self._waking = False
        self._closed: Future[None] | None = None
        self._working = n
        self._threads = [
            threading.Thread(target=self._work, name=f"actorflow{name}-{i}", daemon=True) for i in range(n)
        ]
        for thread in self._threads:
            thread.start()

    def __len__(self) -> int:
        return len(self._threads)

    def submit(self, job: Callable[[], Any], done: Done) -> None:
        """Runs `job` on a worker and calls `done` with its result on the loop."""
        self._jobs.put((job, done))

    def idle(self) -> int:
        """How many threads have nothing to do, nor a job on its way to them."""
        # Jobs on their way will be taken by those that wait.
        return len(self._waiting) - self._jobs.qsize()

    def help(self, shared: SharedParts) -> None:
        """Has a worker take parts of the work of another."""
        self._jobs.put(shared)

    async def close(self) -> None:
        """Waits for the running jobs, drops those that wait, and ends the threads."""
        self._closed = self._loop.create_future()
        # Jobs that wait are dropped; whoever asked for them is closing.
        while not self._jobs.empty():
            self._jobs.get_nowait()
        for _ in self._threads:
            self._jobs.put(None)
        await self._closed
        for thread in self._threads:
            thread.join()

    def _work(self) -> None:
        """The life of a worker thread."""
        now = self._now
        HERE.crew = self
        ignore_float_errors()
        # Each job begins in the same context: what one sets there is its own.
        context = copy_context()
        while (item := self._next()) is not None:
            job, done = item
            start = now()
            try:
                result, error = context.copy().run(job), None  # what a job sets there is its own
            except BaseException as caught:  # noqa: BLE001  it travels to the step
                result, error = None, caught
            del item, job  # ORDER: before anyone hears of the result, or its inputs would seem to be held
            self._results.append((done, result, error, now() - start))
            del done, result, error
            if not self._waking:  # at worst two wake-ups for one batch, never none
                self._waking = True
                self._tell(self._drain)
        self._tell(self._after_thread)

    def _next(self) -> tuple[Callable[[], Any], Done] | None:
        """Waits for the next job, and helps others until it comes; None for the end."""
        self._waiting.append(None)
        while isinstance(item := self._jobs.get(), SharedParts):
            item.take()  # it goes on to count as one that waits: who shares again at once still finds it
        self._waiting.pop()
        return item

    def _tell(self, what: Callable[[], None]) -> None:
        """Calls on the loop's thread; a loop that was closed before a job ended has nobody who waits."""
        try:
            self._loop.call_soon_threadsafe(what)
        except RuntimeError:
            if not self._loop.is_closed():
                raise

    def _drain(self) -> None:
        # ORDER: before the results are looked at: one that comes now wakes the loop again.
        self._waking = False
        while self._results:
            done, result, error, seconds = self._results.popleft()
            done(result, error, seconds)

    def _after_thread(self) -> None:
        self._working -= 1
        if not self._working and self._closed is not None and not self._closed.done():
            self._closed.set_result(None)
