"""xoscar: actors in a pool, called from an actor beside them in this process.

A call from outside any actor, or through a reference that came with a message, takes the way of a
remote one and is 3 to 15 times as slow; that would be an unfair comparison.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import xoscar

from benchmarks.peers import time_asks, time_asks_together, time_tells

NOTE = "no deadline on an ask; no limit on what is told: a tell makes a task"


class Counting(xoscar.Actor):  # type: ignore[misc]  # untyped library
    """Counts, with a plain method and with a coroutine."""

    def __init__(self) -> None:
        self.handled = 0

    def receive(self, message: Any) -> int:
        """Counts."""
        self.handled += 1
        return self.handled

    async def receive_async(self, message: Any) -> int:
        """Counts."""
        self.handled += 1
        return self.handled


class Driver(xoscar.Actor):  # type: ignore[misc]
    """Runs the rounds from inside the pool."""

    async def __post_create__(self) -> None:
        target = await xoscar.actor_ref(self.address, "counting")
        self._receive, self._receive_async = target.receive, target.receive_async

    async def tell(self, n: int) -> float:
        """See `Actors`."""
        return await time_tells(self._receive.tell, self._receive, n)

    async def ask(self, n: int) -> float:
        """See `Actors`."""
        return await time_asks(self._receive, n)

    async def ask_async(self, n: int) -> float:
        """See `Actors`."""
        return await time_asks(self._receive_async, n)

    async def ask_together(self, n: int) -> float:
        """See `Actors`."""
        return await time_asks_together(self._receive, n)


class XoscarActors:
    """See `Actors`; hands every round to the driver."""

    def __init__(self, driver: Any) -> None:
        self._driver = driver

    async def tell(self, n: int) -> float:
        """See `Actors`."""
        seconds: float = await self._driver.tell(n)
        return seconds

    async def ask(self, n: int) -> float:
        """See `Actors`."""
        seconds: float = await self._driver.ask(n)
        return seconds

    async def ask_queued(self, n: int) -> float:
        """See `Actors`."""
        return await self.ask(n)

    async def ask_async(self, n: int) -> float:
        """See `Actors`."""
        seconds: float = await self._driver.ask_async(n)
        return seconds

    async def ask_together(self, n: int) -> float:
        """See `Actors`."""
        seconds: float = await self._driver.ask_together(n)
        return seconds


@asynccontextmanager
async def open_actors() -> AsyncIterator[XoscarActors]:
    """Starts a pool of this one process, on a free port of the loopback, and stops it in the end."""
    pool = await xoscar.create_actor_pool("127.0.0.1:0", n_process=0)
    try:
        address = pool.external_address
        await xoscar.create_actor(Counting, address=address, uid="counting")
        yield XoscarActors(await xoscar.create_actor(Driver, address=address, uid="driver"))
    finally:
        await pool.stop()
