"""Graphs of 10,000 additions, built with the user's API: what dispatch costs when kernels cost nothing.

`width` chains of `length` additions x + one + one + …; x and one are both fed, so that every
addition waits for two tokens and nothing can be folded.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from time import perf_counter
from typing import Any

import actorflow as af
from benchmarks.harness import Round

SHAPES = {"chain": (1, 10_000), "100x100": (100, 100)}
"""Width and length by the name that ends a metric."""

Step = Callable[[Any, Any], Awaitable[Any]]
"""(x, one) -> the end of every chain."""


@asynccontextmanager
async def open_chains(
    width: int, length: int, add: Callable[[Any, Any], Any], number: Callable[[Any], Any]
) -> AsyncIterator[Step]:
    """Opens a session on the chains, every node an actor of its own.

    Args:
        width: How many chains.
        length: Additions in each.
        add: Builds one addition.
        number: Builds what x and one go through before the additions.
    """
    with af.Graph() as graph:
        x, one = (af.placeholder("float32", (), name=name) for name in ("x", "one"))
        first, increment = number(x), number(one)
        ends = []
        for _ in range(width):
            y = first
            for _ in range(length):
                y = add(y, increment)
            ends.append(y)
    async with af.Session(graph, passes=()) as session:

        async def step(x_value: Any, one_value: Any) -> Any:
            before = session.stats().firings
            values = await session.run(ends, {x: x_value, one: one_value})
            fired = session.stats().firings - before
            if fired < width * length:
                message = f"a step of {width * length} unfused additions must fire as many nodes, got {fired}"
                raise RuntimeError(message)
            return values

        yield step


def round_of(step: Step, x: Any, one: Any, width: int, length: int) -> Round:
    """Returns the round that runs steps one after the other until it has made its `n` additions."""
    ends = [x + length * one] * width

    async def run(n: int) -> float:
        values: Any = ends
        start = perf_counter()
        for _ in range(n // (width * length)):
            values = await step(x, one)
        seconds = perf_counter() - start
        if [*values] != ends:
            message = f"every chain must end at {ends[0]}, got {values}"
            raise RuntimeError(message)
        return seconds

    return run
