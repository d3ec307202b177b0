"""Pools for tests, and what they may not leave behind."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from actorflow.data.workers.process_pool import ProcessMapper
from actorflow.runtime.event_loop import loop_factory

LOOPS = {"asyncio": asyncio.new_event_loop, "the loop of actorflow": loop_factory()}


def run(main: Coroutine[Any, Any, Any], factory: Callable[[], Any] | None = None) -> Any:
    with asyncio.Runner(loop_factory=factory) as runner:
        return runner.run(main)


@asynccontextmanager
async def opened(function: Any, processes: int = 1, **options: Any) -> AsyncIterator[ProcessMapper]:
    pool = ProcessMapper(function, processes, **options)
    await pool.start()
    try:
        yield pool
    finally:
        await pool.close()


async def told(chunk: asyncio.Future[list[Any]]) -> Any:
    """The results of a chunk, or its failure."""
    await asyncio.wait([chunk])
    return chunk.exception() or chunk.result()


class Open:
    """A pool kept over the examples of a law."""

    def __init__(self, runner: asyncio.Runner, pool: ProcessMapper) -> None:
        self.runner = runner
        self.pool = pool

    def map(self, *chunks: list[Any], epoch: int = 0) -> list[Any]:
        """The results of all chunks, under way together; a failure stands for those of its chunk."""

        async def main() -> Any:
            first = 0
            futures = []
            for chunk in chunks:
                futures.append(self.pool.map(chunk, list(range(first, first + len(chunk))), epoch))
                first += len(chunk)
            return await asyncio.gather(*futures, return_exceptions=True)

        return self.runner.run(main())


def children() -> set[int]:
    """The processes that this one has started, zombies too."""
    found: set[int] = set()
    for task in Path("/proc/self/task").iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):  # a thread that has ended meanwhile
            found.update(map(int, (task / "children").read_text().split()))
    return found


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))
