"""torch.distributed over gloo: two processes, `send` and `recv` of tensors; the receiver keeps the time."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from time import perf_counter
from typing import Any

from benchmarks.peers.second import Second, obey, second

NOTE = "into a tensor that is there already; no header, no framing"


class Gloo:
    """The first process's end: it tells both others what to do, and keeps no time itself."""

    def __init__(self, ranks: tuple[Second, Second]) -> None:
        self._ranks = ranks

    async def stream(self, size: int, n: int) -> float:
        """See `zmq_.Raw`."""
        return await self._both("stream", size, n)

    async def ask(self, size: int, n: int) -> float:
        """See `zmq_.Raw`."""
        return await self._both("ask", size, n)

    async def _both(self, *words: object) -> float:
        self._ranks[1].tell(*words)
        seconds = await self._ranks[0].seconds(*words)
        await self._ranks[1].answer()
        return seconds


def free_port() -> int:
    """Returns a port of the loopback that nobody uses now."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


@contextmanager
def open_way() -> Iterator[Gloo]:
    """Starts both processes."""
    port = str(free_port())
    with second("peers.gloo_", port, "0") as first, second("peers.gloo_", port, "1") as other:
        yield Gloo((first, other))


def main(port: str, rank: str) -> None:
    """Is one of the processes."""
    torch: Any = import_module("torch")
    dist: Any = import_module("torch.distributed")
    torch.set_num_threads(1)
    me, other = int(rank), 1 - int(rank)
    address = f"tcp://127.0.0.1:{port}"
    dist.init_process_group("gloo", init_method=address, rank=me, world_size=2)
    small, arrays = torch.zeros(1), {}

    def array(size: int) -> Any:
        return arrays.setdefault(size, torch.ones(size // 4))

    def stream(size: int, n: int) -> float:
        tensor = array(size)
        dist.barrier()
        start = perf_counter()
        for _ in range(n):
            _ = dist.send(tensor, other) if me else dist.recv(tensor, other)
        return perf_counter() - start

    def ask(size: int, n: int) -> float:
        tensor = array(size)
        dist.barrier()
        start = perf_counter()
        for _ in range(n):
            if me:
                dist.recv(tensor, other)
                dist.send(small, other)
            else:
                dist.send(tensor, other)
                dist.recv(small, other)
        return perf_counter() - start

    obey({"stream": stream, "ask": ask})
    dist.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
