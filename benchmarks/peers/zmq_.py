"""pyzmq as it is: a DEALER in a second process, a ROUTER here, and blocking calls.

A message is a header in msgpack and the memory of an array, neither copied by pyzmq; or, in chunks, a
train of messages of 1 MiB that is put together in one array, made once.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any

import msgpack
import numpy as np
import zmq

from benchmarks.peers.second import Second, obey, second

CHUNK_BYTES = 1 << 20
PATIENCE_MS = 60_000
NOTE = (
    "blocking calls, a message whole in one frame; no order across restarts, no acknowledgements, no credit"
)
CHUNKS_NOTE = "the same, in messages of 1 MiB that are put together in an array made once"


class Side:
    """What both ends do with a socket.

    Args:
        before: Frames that go first: at the ROUTER, whom it is for.
    """

    def __init__(self, socket: Any, before: tuple[bytes, ...] = ()) -> None:
        self.socket = socket
        self.before = before
        self._arrays: dict[int, Any] = {}

    def array(self, size: int) -> Any:
        """Returns an array of so many bytes, made once."""
        if size not in self._arrays:
            self._arrays[size] = np.ones(size // 4, np.float32)
        return self._arrays[size]

    def send(self, array: Any, chunk: int) -> None:
        """Sends one, in pieces of `chunk` bytes unless that is 0."""
        header = msgpack.packb(("t", array.dtype.str, array.shape, 7))
        if not 0 < chunk < array.nbytes:
            self.socket.send_multipart([*self.before, header, array], copy=False)
            return
        memory = memoryview(array).cast("B")
        self.socket.send_multipart([*self.before, header, memory[:chunk]], copy=False)
        for start in range(chunk, array.nbytes, chunk):
            self.socket.send_multipart([*self.before, memory[start : start + chunk]], copy=False)

    def receive(self, chunk: int) -> Any:
        """Receives one."""
        *_, header, payload = self.socket.recv_multipart(copy=False)
        _, dtype, shape, _ = msgpack.unpackb(header.buffer)
        size = np.dtype(dtype).itemsize * int(np.prod(shape))
        if not 0 < chunk < size:
            return np.frombuffer(payload.buffer, dtype).reshape(shape)
        whole = self._arrays.setdefault(-size, np.empty(size, np.uint8))
        whole[:chunk] = np.frombuffer(payload.buffer, np.uint8)
        for start in range(chunk, size, chunk):
            piece = np.frombuffer(self.socket.recv_multipart(copy=False)[-1].buffer, np.uint8)
            whole[start : start + len(piece)] = piece
        return whole.view(dtype).reshape(shape)


class Raw:
    """The first process's end."""

    def __init__(self, side: Side, there: Second) -> None:
        self._side = side
        self._there = there

    async def stream(self, size: int, n: int, chunk: int = 0) -> float:
        """Returns the seconds until `n` messages of `size` bytes have come that were asked for."""
        start = perf_counter()
        self._there.tell("stream", size, n, chunk)
        for _ in range(n):
            array = self._side.receive(chunk)
        seconds = perf_counter() - start
        assert array.nbytes == size
        return seconds

    async def stream_chunks(self, size: int, n: int) -> float:
        """The same in messages of 1 MiB."""
        return await self.stream(size, n, CHUNK_BYTES)

    async def ask(self, size: int, n: int) -> float:
        """Returns the seconds of `n` messages, each answered by a small one before the next."""
        array = self._side.array(size)
        self._there.tell("answer", n)
        start = perf_counter()
        for _ in range(n):
            self._side.send(array, 0)
            self._side.socket.recv_multipart(copy=False)
        return perf_counter() - start


@contextmanager
def bound(context: Any, way: str) -> Iterator[tuple[Any, list[str]]]:
    """Gives a ROUTER for a way, and what its peer is to know: the address, and the keys under CURVE."""
    socket = context.socket(zmq.ROUTER)
    socket.linger, socket.rcvtimeo = 0, PATIENCE_MS
    words = []
    with tempfile.TemporaryDirectory() as folder, socket:
        if way == "curve":
            (public, secret), (their_public, their_secret) = zmq.curve_keypair(), zmq.curve_keypair()
            socket.curve_server, socket.curve_publickey, socket.curve_secretkey = True, public, secret
            words = [key.decode() for key in (public, their_public, their_secret)]
        if way == "ipc":
            address = f"ipc://{Path(folder) / 'way'}"
            socket.bind(address)
        else:
            address = f"tcp://127.0.0.1:{socket.bind_to_random_port('tcp://127.0.0.1')}"
        yield socket, [address, *words]


def dialled(context: Any, address: str, *keys: str) -> Any:
    """Returns a DEALER of the second process."""
    socket = context.socket(zmq.DEALER)
    socket.linger, socket.rcvtimeo = 0, PATIENCE_MS
    if keys:
        socket.curve_serverkey, socket.curve_publickey, socket.curve_secretkey = (
            key.encode() for key in keys
        )
    socket.connect(address)
    return socket


@contextmanager
def open_way(way: str) -> Iterator[Raw]:
    """Opens it: over `ipc`, `tcp`, or `curve`, which is tcp with CURVE."""
    context: Any = zmq.Context()
    with context, bound(context, way) as (socket, words), second("peers.zmq_", *words) as there:
        identity = socket.recv_multipart()[0]
        yield Raw(Side(socket, (identity,)), there)


def main(address: str, *keys: str) -> None:
    """Is the second process."""
    context: Any = zmq.Context()
    side = Side(dialled(context, address, *keys))
    side.socket.send_multipart([b"hello"])

    def stream(size: int, n: int, chunk: int) -> None:
        array = side.array(size)
        for _ in range(n):
            side.send(array, chunk)

    def answer(n: int) -> None:
        for _ in range(n):
            side.receive(0)
            side.socket.send(b"ack")

    obey({"stream": stream, "answer": answer})
    context.destroy(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
