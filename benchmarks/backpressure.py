"""A fast source before a slow step: how much a pipeline holds, and what waiting costs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from time import process_time
from typing import Any

import numpy as np

import actorflow as af
from benchmarks.harness import Contest, Peer, Size, Unit
from benchmarks.registry import benchmark

BYTES = 65_536
BATCH, BUFFER = 32, 1_000
HELD_S = 1.0
MIB = 1 << 20


@benchmark(
    "backpressure",
    "source, map, shuffle(1000), batch, slow step: what is buffered at most; CPU while blocked",
)
async def contests(size: Size) -> AsyncGenerator[Contest]:
    """All elements of 64 KiB through one stream, whose step lingers; then a stream that nobody takes from."""
    n = size.operations(100_000, step=BATCH)
    for threads in (None, 2):
        pipeline = _pipeline(n, threads)
        stated = pipeline.capacity.bytes
        assert stated is not None

        async def ours(count: int, pipeline: af.data.Pipeline = pipeline) -> float:
            return await _peak(pipeline, count)

        async def theirs(count: int, stated: int = stated) -> float:
            return stated / MIB

        held = "inline" if threads is None else f"{threads}_threads"
        peers = [Peer("sum of the stated capacities", theirs, 1.0)]
        note = f"{n:,} elements of 64 KiB, {n * BYTES / MIB:,.0f} MiB in all"
        yield Contest(f"peak_{held}", Unit.MEBIBYTES, n, ours, peers, note=note, once=True)
    idle = Peer("an idle loop", _idle, note="the processor's time in a second in which nothing happens")
    yield Contest("blocked_cpu_ms", Unit.MILLISECONDS, 1, _blocked, [idle])


def _pipeline(n: int, threads: int | None) -> af.data.Pipeline:
    elements = np.broadcast_to(np.zeros(BYTES, np.uint8), (n, BYTES))  # one row in memory, n to read
    mapped = af.data.arrays(elements).map(_plus_one, threads=threads, element_bytes=BYTES)
    return mapped.shuffle(BUFFER, seed=1).batch(BATCH)


def _plus_one(x: Any) -> Any:
    return x + 1


async def _peak(pipeline: af.data.Pipeline, count: int) -> float:
    """Takes all batches, lingering now and then, and returns the most that was buffered, in MiB."""
    seen = 0
    async with pipeline.open() as stream:
        async for batch in stream:
            seen += len(batch)
            if seen % (100 * BATCH) == 0:
                await asyncio.sleep(0.01)
        peak = stream.stats().peak_bytes
    if seen != count:
        message = f"{count} elements must come out, got {seen}"
        raise RuntimeError(message)
    return peak / MIB


async def _blocked(_: int) -> float:
    """Returns the processor's time in a second in which a stream is full and nobody takes."""
    async with _pipeline(100_000, None).prefetch(4).open() as stream:
        await anext(aiter(stream))
        working = True
        while working:  # until it has filled itself
            before = process_time()
            await asyncio.sleep(0.05)
            working = process_time() - before > 0.005
        return await _idle(1)


async def _idle(_: int) -> float:
    before = process_time()
    await asyncio.sleep(HELD_S)
    return process_time() - before
