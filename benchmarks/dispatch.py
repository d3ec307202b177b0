"""The actor model's hot paths: firings of nodes, tells, asks."""

from __future__ import annotations

import operator
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

import numpy as np

import actorflow as af
from benchmarks.chains import SHAPES, open_chains, round_of
from benchmarks.harness import Contest, Peer, Round, Size, Unit, absent
from benchmarks.peers import (
    CAPACITY,
    Actors,
    AsyncCounter,
    Counter,
    load,
    queue_task,
    time_asks,
    time_asks_together,
    time_tells,
)
from benchmarks.registry import benchmark

QUEUE = f"asyncio.Queue({CAPACITY}) + task"
INSTALL = "actorflow[bench]"


class Counting(Counter, af.Actor):
    """Counts with a plain handler."""


class CountingAsync(AsyncCounter, af.Actor):
    """Counts with an async handler."""


class Ours:
    """See `Actors`."""

    def __init__(self, system: af.ActorSystem) -> None:
        self._system = system
        self._plain, self._async = system.spawn(Counting), system.spawn(CountingAsync)

    async def tell(self, n: int) -> float:
        """See `Actors`."""
        return await time_tells(self._plain.tell, self._plain.ask, n)

    async def ask(self, n: int) -> float:
        """See `Actors`."""
        return await time_asks(self._plain.ask, n)

    async def ask_queued(self, n: int) -> float:
        """See `Actors`; turns inline answers off, so that each question waits for its turn."""
        system = self._system
        usual, before = system.inline.limit, system.stats().turns
        system.inline.limit = system.inline.left = 0
        try:
            seconds = await self.ask(n)
        finally:
            system.inline.limit = usual
        if system.stats().turns - before < n:
            raise RuntimeError("questions were answered inline")
        return seconds

    async def ask_async(self, n: int) -> float:
        """See `Actors`."""
        return await time_asks(self._async.ask, n)

    async def ask_together(self, n: int) -> float:
        """See `Actors`."""
        return await time_asks_together(self._plain.ask, n)


@dataclass(frozen=True, slots=True)
class Test:
    """What is asked of every actor library.

    Attributes:
        aims: What ours / theirs should reach, by peer.
    """

    metric: str
    unit: Unit
    operations: int
    round: Callable[[Actors], Round]
    aim: float | None = None
    aims: dict[str, float] = field(default_factory=dict)


TESTS = (
    Test("tell", Unit.MESSAGES, 20_000, lambda a: a.tell, aims={QUEUE: 1.5, "pykka": 5.0, "xoscar": 5.0}),
    Test("ask_idle_us", Unit.MICROSECONDS, 10_000, lambda a: a.ask, 1.5, {"xoscar": 0.5}),
    Test("ask_queued_us", Unit.MICROSECONDS, 10_000, lambda a: a.ask_queued, 6.0),
    Test("ask_async_us", Unit.MICROSECONDS, 10_000, lambda a: a.ask_async, 6.0),
    Test("ask_100_us", Unit.MICROSECONDS, 10_000, lambda a: a.ask_together, 2.0),
)


@benchmark("dispatch", "firings of unfused nodes, tells and asks, against Queue + task, pykka and xoscar")
async def contests(size: Size) -> AsyncGenerator[Contest]:
    """Firings in both shapes, then the tests of actors, whose pools and threads live through all of them."""
    for (shape, (width, length)), aim in zip(SHAPES.items(), (1e6, 0.7e6), strict=True):
        async with _open_firings(width, length) as (ours, peer):
            n = size.operations(5 * width * length, step=width * length)
            yield Contest(f"firings_{shape}", Unit.FIRINGS, n, ours, [peer], aim)
    async with AsyncExitStack() as stack:
        actors = Ours(await stack.enter_async_context(af.ActorSystem()))
        rivals: dict[str, tuple[Actors | None, str]] = {
            QUEUE: (await stack.enter_async_context(queue_task.open_actors()), "")
        }
        for name in ("pykka", "xoscar"):
            module = load(name)
            opened = None if module is None else await stack.enter_async_context(module.open_actors())
            rivals[name] = (opened, "" if module is None else module.NOTE)
        for test in TESTS:
            peers = [
                absent(name, INSTALL, test.aims.get(name))
                if rival is None
                else Peer(name, test.round(rival), test.aims.get(name), note)
                for name, (rival, note) in rivals.items()
            ]
            n = size.operations(test.operations, step=100)
            yield Contest(test.metric, test.unit, n, test.round(actors), peers, test.aim)


@asynccontextmanager
async def _open_firings(width: int, length: int) -> AsyncIterator[tuple[Round, Peer]]:
    """Opens both sides on a graph of additions of Python numbers."""
    from benchmarks import scalar  # here, for it adds to the tables of ops and kernels

    x, one = np.zeros((), np.float32), np.ones((), np.float32)
    async with (
        open_chains(width, length, scalar.add, scalar.number) as ours,
        queue_task.open_chains(operator.add, width, length) as theirs,
    ):
        peer = f"asyncio.Queue({queue_task.NODE_CAPACITY}) + task a node"
        yield (
            round_of(ours, x, one, width, length),
            Peer(peer, round_of(theirs.run, 0.0, 1.0, width, length), 4.0),
        )
