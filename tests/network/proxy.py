"""A TCP proxy that delays, holds and cuts what passes it."""

from __future__ import annotations

import asyncio
import random
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from enum import Enum
from functools import partial


class Way(Enum):
    """A direction, as whoever dials sees it."""

    OUT = "to the one who is dialled"
    BACK = "to the one who dials"


class Proxy:
    """Stands before an address; what it is dialled for it dials there. It may be dialled as soon as it is made.

    Bytes of a connection stay in order, whatever is done to them.

    Args:
        host: Where it leads.
        port: Where it leads.
        seed: Of the jitter.

    Attributes:
        port: Where to dial it, on 127.0.0.1.
        delay_s: How long every piece takes.
        jitter_s: How much longer at most.
        connections: How many there were.
        passed: Bytes that went each way.
    """

    def __init__(self, host: str, port: int, *, seed: int = 0) -> None:
        self._to = host, port
        self._chance = random.Random(seed)
        self._open = {way: asyncio.Event() for way in Way}
        self.delay_s = self.jitter_s = 0.0
        self.connections = 0
        self.passed = dict.fromkeys(Way, 0)
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._socket.getsockname()[1])
        for event in self._open.values():
            event.set()
        self._serving = self._later(self._serve)

    def hold(self, way: Way) -> None:
        """Lets nothing pass that way any more; what comes is kept."""
        self._open[way].clear()

    def release(self) -> None:
        """Lets all pass that was held."""
        for event in self._open.values():
            event.set()

    def cut(self) -> int:
        """Cuts all connections, with all that is on its way; returns how many ends there were."""
        writers, self._writers = self._writers, set()
        for writer in writers:
            writer.transport.abort()
        return len(writers)

    async def close(self) -> None:
        """Cuts all, and takes no more."""
        self.cut()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._socket.close()

    # -- within -----------------------------------------------------------------------------------------

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._met, sock=self._socket)
        try:
            await server.serve_forever()
        finally:
            server.close()

    async def _met(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            there, back = await asyncio.open_connection(*self._to)
        except OSError:
            writer.transport.abort()
            return
        self._writers |= {writer, back}
        pumps = [
            self._later(partial(self._pump, reader, back, Way.OUT)),
            self._later(partial(self._pump, there, writer, Way.BACK)),
        ]
        await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        for end in (writer, back):
            self._writers.discard(end)
            end.transport.abort()
        for pump in pumps:
            pump.cancel()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, way: Way) -> None:
        loop = asyncio.get_running_loop()
        waiting: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(256)

        async def write() -> None:
            while True:
                due, piece = await waiting.get()
                if (wait_s := due - loop.time()) > 0:
                    await asyncio.sleep(wait_s)
                await self._open[way].wait()
                writer.write(piece)
                await writer.drain()
                self.passed[way] += len(piece)

        writing, due = self._later(write), 0.0
        try:
            with suppress(OSError):
                while piece := await reader.read(1 << 16):
                    due = max(due, loop.time() + self.delay_s + self._chance.random() * self.jitter_s)
                    await waiting.put((due, piece))
        finally:
            writing.cancel()

    def _later(self, do: Callable[[], Awaitable[None]]) -> asyncio.Task[None]:
        task: asyncio.Task[None] = asyncio.ensure_future(_quietly(do))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


async def _quietly(do: Callable[[], Awaitable[None]]) -> None:
    """Makes the coroutine only when it is to run: one that is cancelled before would never be awaited."""
    with suppress(OSError):
        await do()
