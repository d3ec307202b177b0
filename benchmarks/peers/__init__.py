"""What a user could pick instead of actorflow, each used the way its own documentation shows.

Actor libraries are measured by one protocol, `Actors`, whose methods each time one round; what
is common to those that live on an event loop stands here, so that they run the same loops.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from importlib import import_module
from importlib.util import find_spec
from time import perf_counter
from types import ModuleType
from typing import Any, Protocol

OPTIONAL = ("pykka", "xoscar", "tensorflow", "torch", "grain", "msgpack_numpy", "ray", "jax")
"""Peers that may not be installed; the module of `x` here is `x_`."""

CAPACITY = 1024
"""Messages that fit into a mailbox, where the library lets one say so."""

DEADLINE_S = 5.0
"""How long an ask may take, where the library lets one say so."""

ASKERS = 100

Send = Callable[[Any], Awaitable[Any]]


class Actors(Protocol):
    """Two actors of one library that count their messages: a plain handler and an `async def` one."""

    async def tell(self, n: int) -> float:
        """Tells the plain one `n` messages, one awaited after the other, until it has handled all."""
        ...

    async def ask(self, n: int) -> float:
        """Asks the plain one `n` times in a row; it is idle every time."""
        ...

    async def ask_queued(self, n: int) -> float:
        """The same; every question goes through its mailbox, as it must to a busy one."""
        ...

    async def ask_async(self, n: int) -> float:
        """Asks the async one `n` times in a row."""
        ...

    async def ask_together(self, n: int) -> float:
        """Lets `ASKERS` askers share `n` asks of the plain one."""
        ...


class Counter:
    """A handler as cheap as can be, which still shows how many messages it has handled."""

    def __init__(self) -> None:
        self.handled = 0

    def receive(self, message: Any) -> int:
        """Counts."""
        self.handled += 1
        return self.handled


class AsyncCounter(Counter):
    """The same as a coroutine."""

    async def receive(self, message: Any) -> int:  # type: ignore[override]
        """Counts."""
        self.handled += 1
        return self.handled


def load(name: str) -> ModuleType | None:
    """Returns the module here that measures an optional peer; None when the peer is not installed."""
    return import_module(f"benchmarks.peers.{name}_") if find_spec(name) is not None else None


async def time_tells(tell: Send, ask: Send, n: int) -> float:
    """Returns the seconds from the first of `n` tells until all have been handled."""
    before = await ask(0)
    start = perf_counter()
    for i in range(n):
        await tell(i)
    after = await ask(0)
    seconds = perf_counter() - start
    check(after - before - 1, n)
    return seconds


async def time_asks(ask: Send, n: int) -> float:
    """Returns the seconds of `n` asks in a row."""
    before = await ask(0)
    start = perf_counter()
    for i in range(n):
        await ask(i)
    seconds = perf_counter() - start
    check(await ask(0) - before - 1, n)
    return seconds


async def time_asks_together(ask: Send, n: int) -> float:
    """Returns the seconds that `ASKERS` tasks need for `n` asks, each its share in a row."""
    share = n // ASKERS

    async def asker() -> None:
        for i in range(share):
            await ask(i)

    before = await ask(0)
    start = perf_counter()
    await asyncio.gather(*(asker() for _ in range(ASKERS)))
    seconds = perf_counter() - start
    check(await ask(0) - before - 1, share * ASKERS)
    return seconds


def check(handled: int, n: int) -> None:
    """Raises RuntimeError unless a round did what it is timed for."""
    if handled != n:
        message = f"a round of {n} messages must handle {n}, got {handled}"
        raise RuntimeError(message)
