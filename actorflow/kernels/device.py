"""A device: which library computes there, and which threads take the kernels too long for the loop.

A kernel of a few microseconds runs inline on the event loop: handing it over would cost more than
it takes. One that is expected to take longer than `inline_limit_s` goes to a worker thread, and its
result comes back to the loop as a callback, several at a time. numpy releases the GIL inside large
calls, so two workers give 1.98x on matmul, and 0.7x on tiny adds, which is why those stay inline.

BLAS gets one thread in every worker while any device is open, so that pools do not multiply; the
old limit comes back when the last one closes.
"""

from __future__ import annotations

import threading
from asyncio import AbstractEventLoop, Future
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, ClassVar

from threadpoolctl import threadpool_limits

from actorflow.arrays import ignore_float_errors
from actorflow.clock import Clock
from actorflow.errors import SessionClosed
from actorflow.kernels.registry import Kernel

Done = Callable[[Any, BaseException | None, float], None]
"""(result, error, seconds) -> None, called on the loop's thread."""

_SECONDS_A_UNIT = 1e-9  # first guess: one unit of cost a nanosecond; then measured a node
_SURELY_SMALL = 8_192  # units; about 10 µs for any elementwise kernel


class _Blas:
    """Counts open devices and holds BLAS at one thread while there is one."""

    lock: ClassVar[threading.Lock] = threading.Lock()
    users: ClassVar[int] = 0
    limits: ClassVar[Any] = None

    @classmethod
    def enter(cls) -> None:
        with cls.lock:
            if cls.users == 0:
                cls.limits = threadpool_limits(limits=1, user_api="blas")
            cls.users += 1

    @classmethod
    def leave(cls) -> None:
        with cls.lock:
            cls.users -= 1
            if cls.users == 0:
                cls.limits.restore_original_limits()
                cls.limits = None


class Device:
    """The host's processor as a device of one event loop.

    Args:
        name: For example `/cpu:0`.
        threads: Number of workers; with 0 every kernel runs inline.
        inline_limit_s: The longest that a kernel may be expected to hold the loop.
    """

    library = "numpy"

    def __init__(
        self,
        name: str,
        loop: AbstractEventLoop,
        clock: Clock,
        *,
        threads: int,
        inline_limit_s: float = 100e-6,
    ) -> None:
        self.name = name
        self.inline_limit_s = inline_limit_s
        self.offloaded = 0
        self.now = clock.now
        self._loop = loop
        self._jobs: SimpleQueue[tuple[Callable[[], Any], Done] | None] = SimpleQueue()
        self._results: deque[tuple[Done, Any, BaseException | None, float]] = deque()
        self._waking = False
        self._closed: Future[None] | None = None
        self._working = threads
        _Blas.enter()
        self._threads = [
            threading.Thread(target=self._work, name=f"actorflow{name}-{i}", daemon=True)
            for i in range(threads)
        ]
        for thread in self._threads:
            thread.start()

    def __repr__(self) -> str:
        return (
            f"<Device {self.name} {self.library}, {len(self._threads)} threads, {self.offloaded} offloaded>"
        )

    @property
    def inline_only(self) -> bool:
        """Tells whether there are no worker threads."""
        return not self._threads

    def surely_inline(self, cost: float) -> bool:
        """Tells whether a kernel of that cost is so small that measuring it would cost more."""
        return not self._threads or cost <= _SURELY_SMALL

    def submit(self, job: Callable[[], Any], done: Done) -> None:
        """Runs `job` on a worker and calls `done` with its result on the loop."""
        if self._closed is not None:
            message = f"device {self.name} is closed"
            raise SessionClosed(message)
        self.offloaded += 1
        self._jobs.put((job, done))

    async def close(self) -> None:
        """Waits for the running kernels, drops those that wait, and ends the threads."""
        if self._closed is not None:
            return
        self._closed = self._loop.create_future()
        while not self._jobs.empty():
            self._jobs.get_nowait()
        for _ in self._threads:
            self._jobs.put(None)
        if self._threads:
            await self._closed
        for thread in self._threads:
            thread.join()
        _Blas.leave()

    def _work(self) -> None:
        """The life of a worker thread."""
        now = self.now
        ignore_float_errors()
        while (item := self._jobs.get()) is not None:
            job, done = item
            start = now()
            try:
                result, error = job(), None
            except BaseException as caught:  # noqa: BLE001  it travels to the step
                result, error = None, caught
            self._results.append((done, result, error, now() - start))
            del item, job, done, result, error
            if not self._waking:  # at worst two wake-ups for one batch, never none
                self._waking = True
                self._loop.call_soon_threadsafe(self._drain)
        self._loop.call_soon_threadsafe(self._left)

    def _drain(self) -> None:
        self._waking = False
        while self._results:
            done, result, error, seconds = self._results.popleft()
            done(result, error, seconds)

    def _left(self) -> None:
        self._working -= 1
        if not self._working and self._closed is not None and not self._closed.done():
            self._closed.set_result(None)


class Estimate:
    """What a node's kernel takes, learnt from its firings: seconds a unit of its cost function."""

    __slots__ = ("_attrs", "_cost", "rate")

    def __init__(self, kernel: Kernel, attrs: dict[str, Any]) -> None:
        self._cost = kernel.cost
        self._attrs = attrs
        self.rate = _SECONDS_A_UNIT

    def cost(self, args: Any) -> float:
        """Returns the units for these inputs, at least one."""
        return max(1.0, self._cost(*args, **self._attrs))

    def learn(self, units: float, seconds: float) -> None:
        """Takes a measured firing into account.

        It believes a fast one sooner than a slow one: a cold cache or a preempted thread makes a
        kernel look slow, nothing makes it look fast.
        """
        measured = seconds / units
        self.rate += (0.5 if measured < self.rate else 0.1) * (measured - self.rate)


class Shaped:
    """Stands for an array of which only the shape is known, for cost functions."""

    __slots__ = ("shape", "size")

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = shape
        self.size = 1
        for n in shape:
            self.size *= n

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)
