"""zmq.asyncio: the same messages as `zmq_`, sent and received by coroutines on an event loop at both ends."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import Any

import msgpack
import numpy as np
import zmq.asyncio

from actorflow.runtime.event_loop import run
from benchmarks.peers.second import Second, second
from benchmarks.peers.zmq_ import bound, dialled

NOTE = "a coroutine a message at both ends, as its documentation shows"


class Coroutines:
    """The first process's end."""

    def __init__(self, socket: Any, there: Second) -> None:
        self._socket = socket
        self._there = there
        self._identity = b""

    async def meet(self) -> None:
        """Hears who is there, before the first round."""
        if not self._identity:
            self._identity = (await self._socket.recv_multipart())[0]

    async def stream(self, size: int, n: int) -> float:
        """See `zmq_.Raw`."""
        await self.meet()
        array: Any = None
        start = perf_counter()
        self._there.tell("stream", size, n)
        for _ in range(n):
            *_, header, payload = await self._socket.recv_multipart(copy=False)
            _, dtype, shape, _ = msgpack.unpackb(header.buffer)
            array = np.frombuffer(payload.buffer, dtype).reshape(shape)
        seconds = perf_counter() - start
        assert array.nbytes == size
        return seconds

    async def ask(self, size: int, n: int) -> float:
        """See `zmq_.Raw`."""
        await self.meet()
        array = np.ones(size // 4, np.float32)
        self._there.tell("answer", size, n)
        start = perf_counter()
        for _ in range(n):
            header = msgpack.packb(("t", array.dtype.str, array.shape, 7))
            await self._socket.send_multipart([self._identity, header, array], copy=False)
            await self._socket.recv_multipart(copy=False)
        return perf_counter() - start


@contextmanager
def open_way(way: str) -> Iterator[Coroutines]:
    """Opens it: over `ipc`, `tcp`, or `curve`, which is tcp with CURVE."""
    context: Any = zmq.asyncio.Context()
    try:
        with bound(context, way) as (socket, words), second("peers.zmq_asyncio_", *words) as there:
            yield Coroutines(socket, there)
    finally:
        context.destroy(0)


async def lines() -> asyncio.StreamReader:
    """Returns the lines that come by standard input."""
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
    )
    return reader


async def main(address: str, *keys: str) -> None:
    """Is the second process."""
    context: Any = zmq.asyncio.Context()
    socket = dialled(context, address, *keys)
    await socket.send_multipart([b"hello"])
    reader = await lines()
    while line := (await reader.readline()).decode().split():
        word, size, n = line[0], int(line[1]), int(line[2])
        array = np.ones(size // 4, np.float32)
        for _ in range(n):
            if word == "stream":
                header = msgpack.packb(("t", array.dtype.str, array.shape, 7))
                await socket.send_multipart([header, array], copy=False)
            else:
                await socket.recv_multipart(copy=False)
                await socket.send(b"ack")
    context.destroy(0)


if __name__ == "__main__":
    run(main(*sys.argv[1:]))
