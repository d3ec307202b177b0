"""What it costs that two variables change as one: transfers in atomic blocks beside plain assigns."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack
from time import perf_counter
from typing import Any

import numpy as np

import actorflow as af
from benchmarks.harness import Contest, Peer, Round, Size, Unit
from benchmarks.registry import benchmark

CALLERS = 100
PLAIN = "two reads and two assigns, no block"
TORN = "the same step without the block: concurrent ones lose updates"

Step = Callable[[], Awaitable[Any]]


@benchmark(
    "atomic", "transfers between two variables in an atomic block, alone and among 100; against assigns"
)
async def contests(size: Size) -> AsyncGenerator[Contest]:
    """One step after the other, then 100 at once that all lock the same two variables."""
    async with AsyncExitStack() as stack:
        locked, plain = await _transfers(stack)
        n = size.operations(3_000, step=CALLERS)
        yield Contest("transfer_us", Unit.MICROSECONDS, n, _in_turn(locked), [Peer(PLAIN, _in_turn(plain))])
        peers = [Peer(PLAIN, _at_once(plain), note=TORN)]
        yield Contest("transfer_concurrent_us", Unit.MICROSECONDS, n, _at_once(locked), peers)


async def _transfers(stack: AsyncExitStack) -> tuple[Step, Step]:
    """Opens a session; returns a step that moves 1 from one variable to another, in a block and without."""
    with af.Graph() as graph:
        x = af.placeholder("float32", (), name="x")
        a, b = af.Variable(np.float32(0), name="a"), af.Variable(np.float32(0), name="b")
        with af.atomic(a, b) as block:
            a.assign(a - x)
            b.assign(b + x)
        plain = [a.assign(a - x), b.assign(b + x)]
    session = await stack.enter_async_context(af.Session(graph, max_steps=CALLERS))
    one = np.ones((), np.float32)
    in_block, without = session.make_callable(block.done, [x]), session.make_callable(plain, [x])
    return lambda: in_block(one), lambda: without(one)


def _in_turn(step: Step) -> Round:
    async def round_(n: int) -> float:
        start = perf_counter()
        for _ in range(n):
            await step()
        return perf_counter() - start

    return round_


def _at_once(step: Step) -> Round:
    """Returns the round of `n` steps by `CALLERS` callers, each its share one after the other."""

    async def caller(share: int) -> None:
        for _ in range(share):
            await step()

    async def round_(n: int) -> float:
        start = perf_counter()
        await asyncio.gather(*(caller(n // CALLERS) for _ in range(CALLERS)))
        return perf_counter() - start

    return round_
