"""From one process to another: small messages, answers, and arrays of 1 to 64 MiB, over every way."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from time import perf_counter
from typing import Any

import numpy as np

from benchmarks import far
from benchmarks.harness import Contest, Peer, Round, Size, Unit, absent
from benchmarks.registry import benchmark

WAYS = ("ipc", "tcp", "curve", "shm")
BYTES = {"1mb": 1 << 20, "16mb": 1 << 24, "64mb": 1 << 26}
SMALL = 64
MESSAGES, QUESTIONS = 20_000, 1_000
A_ROUND = 128 << 20  # bytes

LIKE_PYZMQ, LIKE_COROUTINES, LIKE_MEMCPY = 0.8, 5.0, 0.8
MEMCPY_NOTE = "np.copyto from one array to another of that size; every way between processes copies twice"
OVER_IPC = "small messages go by ipc there too"
ACTORS_NOTE = "an actor here and one there, with mailboxes, bounds and deadlines; pyzmq delivers to a loop"


@benchmark("transport", "from process to process, 64 B to 64 MiB, over ipc, tcp, CURVE and shared memory")
async def contests(size: Size) -> AsyncGenerator[Contest]:
    """Each way with its peers, which live as long as it is measured; then actors over one."""
    messages, questions = size.operations(MESSAGES), size.operations(QUESTIONS)
    for way in WAYS:
        async with AsyncExitStack() as stack:
            ours = await stack.enter_async_context(far.open_way(way))
            peers = _open_peers(stack, way)
            note = OVER_IPC if way == "shm" else ""
            stream, ask = partial(ours.stream, SMALL), partial(ours.ask, SMALL)
            name = f"messages_64b_{way}"
            yield Contest(name, Unit.MESSAGES, messages, stream, peers.small("stream"), note=note)
            name = f"round_trip_64b_{way}_us"
            yield Contest(name, Unit.MICROSECONDS, questions, ask, peers.small("ask"), note=note)
            for large, length in BYTES.items():
                n, stream = size.operations(A_ROUND, step=length), _by_bytes(ours.stream, length)
                yield Contest(f"stream_{large}_{way}", Unit.MEGABYTES, n, stream, peers.large(length))
    async with AsyncExitStack() as stack:
        actors = await stack.enter_async_context(far.open_way("ipc", actors=True))
        peers = _open_peers(stack, "actors")
        tell, ask = partial(actors.stream, SMALL), partial(actors.ask, SMALL)
        theirs = peers.small("stream", aims=False)
        yield Contest("tell_64b_ipc", Unit.MESSAGES, messages, tell, theirs, note=ACTORS_NOTE)
        theirs = peers.small("ask", aims=False)
        yield Contest("ask_64b_ipc_us", Unit.MICROSECONDS, questions, ask, theirs, note=ACTORS_NOTE)


class _Peers:
    """Who else goes the same way."""

    def __init__(self, way: str) -> None:
        self._way = way
        self.raw: Any = None
        self.coroutines: Any = None
        self.others: list[tuple[str, Any, str]] = []  # name, way or None where it is absent, note

    def small(self, verb: str, *, aims: bool = True) -> list[Peer]:
        """Those that send `SMALL` bytes; the aims are of messages one way."""
        aims = aims and verb == "stream" and self._way != "shm"
        raw, coroutines = _module("zmq"), _module("zmq_asyncio")
        peers = [
            Peer("pyzmq", partial(getattr(self.raw, verb), SMALL), LIKE_PYZMQ if aims else None, raw.NOTE),
            Peer(
                "zmq.asyncio",
                partial(getattr(self.coroutines, verb), SMALL),
                LIKE_COROUTINES if aims else None,
                coroutines.NOTE,
            ),
        ]
        for name, other, note in self.others:
            one = absent(name, _INSTALL[name]) if other is None else None
            peers.append(one or Peer(name, partial(getattr(other, verb), SMALL), note=note))
        return peers

    def large(self, length: int) -> list[Peer]:
        """Those that send an array."""
        aim = LIKE_PYZMQ if self._way != "shm" else None
        raw = _module("zmq")
        peers = [Peer("pyzmq", _by_bytes(self.raw.stream, length), aim, raw.NOTE)]
        if length > raw.CHUNK_BYTES:
            chunks = _by_bytes(self.raw.stream_chunks, length)
            peers.append(Peer("pyzmq, 1 MiB chunks", chunks, aim, raw.CHUNKS_NOTE))
        peers.append(Peer("zmq.asyncio", _by_bytes(self.coroutines.stream, length)))
        for name, other, note in self.others:
            one = absent(name, _INSTALL[name]) if other is None else None
            peers.append(one or Peer(name, _by_bytes(other.stream, length), note=note))
        floor = LIKE_MEMCPY if self._way == "shm" else None
        return [*peers, Peer("memcpy", _by_bytes(_copies, length), floor, MEMCPY_NOTE)]


_INSTALL = {"gloo": "torch", "Ray": "ray"}


def _module(name: str) -> Any:
    """Returns the module of a peer that comes with us."""
    return import_module(f"benchmarks.peers.{name}_")


def _open_peers(stack: AsyncExitStack, way: str) -> _Peers:
    """Starts those of a way: gloo beside tcp, which it uses, and Ray beside shared memory and actors."""
    peers = _Peers(way)
    below = "ipc" if way in ("shm", "actors") else way
    peers.raw = stack.enter_context(_module("zmq").open_way(below))
    peers.coroutines = stack.enter_context(_module("zmq_asyncio").open_way(below))
    if way == "tcp":
        peers.others.append(_optional(stack, "gloo", "torch", "gloo"))
    if way in ("shm", "actors"):
        peers.others.append(_optional(stack, "Ray", "ray", "ray"))
    return peers


def _optional(stack: AsyncExitStack, name: str, needs: str, module: str) -> tuple[str, Any, str]:
    if find_spec(needs) is None:
        return name, None, ""
    found = _module(module)
    return name, stack.enter_context(found.open_way()), found.NOTE


def _by_bytes(stream: Any, length: int) -> Round:
    return lambda n: stream(length, n // length)


async def _copies(length: int, n: int) -> float:
    here, there = np.ones(length // 4, np.float32), np.empty(length // 4, np.float32)
    np.copyto(there, here)
    start = perf_counter()
    for _ in range(n):
        np.copyto(there, here)
    return perf_counter() - start
