"""A device: which library computes there, and which kernels go to its workers.

A kernel of a few microseconds runs inline on the event loop. One that is expected to take longer than
`inline_limit_s` goes to a worker thread, and its result comes back to the loop as a callback.

In a simulated run the environment gives the workers: a job then runs on the loop itself, and what is
chosen is the turn in which its result comes.
"""

from __future__ import annotations

from asyncio import AbstractEventLoop
from collections.abc import Callable
from typing import Any
from weakref import finalize

from actorflow.errors import SessionClosed
from actorflow.kernels.definition.registry import Kernel
from actorflow.kernels.device.threads import BlasThreads, Done, Threads
from actorflow.runtime.clock import Clock
from actorflow.runtime.environment import ENVIRONMENT, Workers

_SECONDS_A_UNIT = 1e-9  # first guess: one unit of cost a nanosecond; then measured a node
SURELY_SMALL = 8_192  # units; about 10 µs for any elementwise kernel


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
        self._closed = False
        # numpy's BLAS is kept at one thread while there are workers of ours: see `BlasThreads`.
        BlasThreads.enter()
        # A device that nobody closes, as that of a simulated host that crashed, leaves when it is collected.
        self._leave = finalize(self, BlasThreads.leave)
        self._leave.atexit = False
        here = ENVIRONMENT.get()
        self._workers: Workers | None = None
        if threads:
            # In a simulation the environment's, which are no threads.
            self._workers = Threads(name, loop, clock, threads) if here is None else here.workers(name)

    def __repr__(self) -> str:
        threads = len(self._workers or ())
        return f"<Device {self.name} {self.library}, {threads} threads, {self.offloaded} offloaded>"

    @property
    def inline_only(self) -> bool:
        """Tells whether there are no workers."""
        return self._workers is None

    def surely_inline(self, cost: float) -> bool:
        """Tells whether a kernel of that cost is so small that measuring it would cost more."""
        # Handing it over would cost more than it takes: two workers give 1.98x on matmul, and 0.7x on tiny
        # adds.
        return self._workers is None or cost <= SURELY_SMALL

    def submit(self, job: Callable[[], Any], done: Done) -> None:
        """Runs `job` on a worker and calls `done` with its result on the loop."""
        if self._closed or self._workers is None:
            message = f"device {self.name} " + ("is closed" if self._closed else "has no workers")
            raise SessionClosed(message)
        self.offloaded += 1
        self._workers.submit(job, done)

    async def close(self) -> None:
        """Waits for the running kernels, drops those that wait, and ends the threads."""
        if self._closed:
            return
        self._closed = True
        # ORDER: the running kernels end before BLAS may use all threads again.
        if self._workers is not None:
            await self._workers.close()
        self._leave()


class Estimate:
    """What a node's kernel takes, learnt from its firings.

    Attributes:
        rate: Seconds a unit of its cost function.
        seconds: What the firing measured last should have taken, by the rate; 0 before there was one.
    """

    __slots__ = ("_attrs", "_cost", "rate", "seconds")

    def __init__(self, kernel: Kernel, attrs: dict[str, Any]) -> None:
        self._cost = kernel.cost
        self._attrs = attrs
        self.rate = _SECONDS_A_UNIT
        self.seconds = 0.0

    def cost(self, args: Any) -> float:
        """Returns the units for these inputs, at least one."""
        return max(1.0, self._cost(*args, **self._attrs))

    def learn(self, units: float, seconds: float) -> None:
        """Takes a measured firing into account."""
        if seconds <= 0.0:  # a clock that stands still, as virtual time does, teaches nothing
            return
        measured = seconds / units
        # It believes a fast one sooner than a slow one: a cold cache or a preempted thread makes a kernel
        # look slow, nothing makes it look fast.
        self.rate += (0.5 if measured < self.rate else 0.1) * (measured - self.rate)
        self.seconds = units * self.rate


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
