"""Memory that stays: how much a process grows while a session runs the same step over and over."""

from __future__ import annotations

import gc
from collections.abc import AsyncGenerator
from pathlib import Path

import numpy as np

import actorflow as af
from benchmarks.harness import Contest, Peer, Size, Unit
from benchmarks.registry import benchmark

FIRST = 1_000
STEPS = 100_000
LIMIT_MIB = 2.0


@benchmark("memory", "growth of the resident set between step 1,000 and step 100,000 of training")
async def contests(size: Size) -> AsyncGenerator[Contest]:
    """Training steps with deadlines, one after the other; each makes what a step makes."""
    steps = size.operations(STEPS - FIRST)
    with af.Graph() as graph:
        x = af.placeholder("float32", (None, 8), name="x")
        w = af.Variable(af.init.he((8, 4)), name="w")
        loss = af.mean(af.square(af.tanh(x @ w)))
        train = af.minimize(loss, af.optim.adam(1e-3))
    value = np.ones((4, 8), np.float32)

    async with af.Session(graph, deadline_s=30.0, passes=()) as session:

        async def growth(n: int) -> float:
            for _ in range(FIRST):
                await session.run([loss, train], {x: value})
            gc.collect()
            before = resident_mib()
            for _ in range(n):
                await session.run([loss, train], {x: value})
            gc.collect()
            return max(resident_mib() - before, 0.0)

        async def limit(n: int) -> float:
            return LIMIT_MIB

        peers = [Peer(f"the limit, {LIMIT_MIB:g} MiB", limit, aim=1.0)]
        yield Contest("rss_growth", Unit.MEBIBYTES, steps, growth, peers, aim=LIMIT_MIB, once=True)


def resident_mib() -> float:
    """Returns the resident set of this process (Linux: field 2 of /proc/self/statm, in pages)."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 2**20
