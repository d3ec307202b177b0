"""The environment in which a program runs: none in the real world, the simulator in a simulated one.

A program that makes its own `ActorSystem` or `Session` runs in a simulation unchanged: what is not
given is asked here. It is carried by the context, since the hosts of one simulated world
share an event loop and have a clock each.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, Protocol

from actorflow.runtime.clock import Clock, Entropy, SystemClock


class SchedulerSlot(Protocol):
    """The slot of one ring of actors in a simulated run."""

    def enter(self) -> None:
        """Marks the present context as the ring's own."""
        ...

    def pick(self, ring: deque[tuple[Any, Any]]) -> tuple[Any, Any] | None:
        """Removes and returns the entry whose turn it is; None gives the event loop back."""
        ...


class Workers(Protocol):
    """Who runs the kernels that take too long for the event loop."""

    def submit(
        self, job: Callable[[], Any], done: Callable[[Any, BaseException | None, float], None]
    ) -> None:
        """Runs `job`, and later `done(result, error, seconds)` on the event loop."""
        ...

    async def close(self) -> None:
        """Ends once nothing runs any more; what waits is dropped."""
        ...

    def __len__(self) -> int:
        """How many jobs can run side by side."""
        ...


class Environment(Protocol):
    """What a simulated run hands to the programs in it."""

    clock: Clock
    entropy: Entropy

    def slot(self, system: Any) -> SchedulerSlot:
        """Returns the slot of an actor system's ring."""
        ...

    def workers(self, name: str) -> Workers:
        """Returns the workers of a device."""
        ...


ENVIRONMENT: ContextVar[Environment | None] = ContextVar("actorflow_setting", default=None)
"""None in the real world."""


def clock() -> Clock:
    """Returns the clock of the present environment."""
    here = ENVIRONMENT.get()
    return SystemClock() if here is None else here.clock


def entropy() -> Entropy:
    """Returns a source of chance: the environment's, or a fresh one from the operating system."""
    here = ENVIRONMENT.get()
    return Entropy() if here is None else here.entropy
