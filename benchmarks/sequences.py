"""An LSTM over a sequence and back, as `control_flow` times it; as a process of its own, what it keeps."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

import actorflow as af
from actorflow.runtime.event_loop import run
from benchmarks.harness import Round
from benchmarks.memory import resident_mib
from benchmarks.peers.second import obey, second

UNITS = 256
ROWS = 32

WAYS: dict[str, dict[str, Any]] = {"loop": {}, "recompute": {"recompute": True}, "unroll": {"unroll": True}}
"""Settings of `af.nn.rnn`."""


async def open_lstm(stack: AsyncExitStack, steps: int, way: str) -> Round:
    """Opens a session, of one thread, and returns the round of forward and backward passes."""
    with af.Graph(seed=0) as graph:
        x = af.placeholder("float32", (steps, ROWS, UNITS), name="x")
        cell = af.nn.LSTMCell(UNITS, UNITS)
        outputs, _ = af.nn.rnn(cell, x, time_major=True, **WAYS[way])
        slopes = af.gradients(af.mean(af.square(outputs)), [cell.w, cell.u, cell.b])
    session = await stack.enter_async_context(af.Session(graph, threads=1))
    value = np.random.default_rng(0).standard_normal((steps, ROWS, UNITS)).astype(np.float32)

    async def round_(n: int) -> float:
        start = perf_counter()
        for _ in range(n):
            found: Any = await session.run(slopes, {x: value})
            assert all(np.isfinite(slope).all() for slope in found)
        return perf_counter() - start

    return round_


def peak(way: str, steps: int) -> Round:
    """Returns the round that starts a process which runs one pass, and says by how much its peak grew."""

    async def round_(_: int) -> float:
        with second("sequences") as process:
            return float(await process.ask(way, steps))

    return round_


async def _grown(way: str, steps: int) -> float:
    """MiB by which the largest resident set of this process grows in a pass of so many steps.

    A pass of one step comes first, for what is the same whatever the length: code, graph, variables.
    """
    async with AsyncExitStack() as stack:
        await (await open_lstm(stack, 1, way))(1)
    async with AsyncExitStack() as stack:
        pass_ = await open_lstm(stack, steps, way)
        before = resident_mib()
        await pass_(1)
    return max(_peak_mib() - before, 0.0)


def _peak_mib() -> float:
    """The largest resident set of this process (Linux); getrusage would count the one it was forked from."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) / 1024


if __name__ == "__main__":
    obey({way: lambda steps, way=way: run(_grown(way, steps)) for way in WAYS})
