"""A message as bytes and back, from 64 B to 64 MiB: what the codec costs beside other ways to say it."""

from __future__ import annotations

import pickle
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np

from actorflow.coord.rules.messages import Batch, Heartbeat, Permit
from actorflow.transport.codec import message_codec
from actorflow.transport.codec.types import Lossy
from benchmarks.harness import Contest, Peer, Round, Size, Unit, absent
from benchmarks.peers import load
from benchmarks.registry import benchmark

BYTES = {"64b": 1 << 6, "1kb": 1 << 10, "4kb": 1 << 12, "64kb": 1 << 16, "1mb": 1 << 20, "64mb": 1 << 26}
RECORDS = {"beat": Heartbeat(rank=3, incarnation=1, number=77), "permit": Permit(1, 77, 3, 20, Batch(0, 5))}
VERBS = ("encode", "decode", "both")
A_ROUND = 1 << 28  # bytes
MOST = 5_000  # messages a round
APART = 64  # pieces that arrive alone lie at multiples of so many bytes

PICKLE_NOTE = (
    "out of band, so it copies no array; the lengths of its pieces, which must travel too, are left out"
)
MEMCPY_NOTE = "the one copy of the array that every side makes in place of the wire, and nothing else"


@dataclass(frozen=True, slots=True)
class Codec:
    """One way to say a value in bytes.

    Attributes:
        encode: Gives pieces for a vectored write.
        decode: Reads the value from the pieces that came, or from all in one.
        whole: Whether they come as one.
    """

    encode: Callable[[Any], Sequence[Any]]
    decode: Callable[[Sequence[Any]], Any]
    whole: bool = False


def _pickled(value: Any) -> Sequence[Any]:
    pieces: list[Any] = []
    first = pickle.dumps(value, protocol=5, buffer_callback=pieces.append)
    return (first, *pieces)


OURS = Codec(message_codec.encode, lambda pieces: message_codec.decode(pieces[0]), whole=True)
NARROW = Codec(lambda value: message_codec.encode(value, lossy=Lossy.BFLOAT16), OURS.decode, whole=True)
PICKLE = Codec(_pickled, lambda pieces: pickle.loads(pieces[0], buffers=pieces[1:]))


@benchmark("codec", "messages of 64 B to 64 MiB as bytes and back; against pickle 5, msgpack-numpy, memcpy")
async def contests(size: Size) -> AsyncGenerator[Contest]:
    """One array of float32 a message; then records of coordination; then float32 as bfloat16."""
    for name, length in BYTES.items():
        value = np.arange(length // 4, dtype=np.float32)
        n = size.operations(min(A_ROUND // length, MOST))
        for verb in VERBS:
            ours = _round(verb, OURS, value)
            yield Contest(f"{verb}_{name}_us", Unit.MICROSECONDS, n, ours, _peers(verb, value))
        ours, peers = _by_bytes(_round("both", OURS, value), length), _peers("both", value)
        peers = [Peer(p.name, p.round and _by_bytes(p.round, length), note=p.note) for p in peers]
        yield Contest(f"both_{name}", Unit.MEGABYTES, n * length, ours, peers)
    for name, record in RECORDS.items():
        for verb in VERBS:
            theirs = Peer("pickle 5", _round(verb, PICKLE, record), note=PICKLE_NOTE)
            ours, n = _round(verb, OURS, record), size.operations(MOST)
            yield Contest(f"{verb}_{name}_us", Unit.MICROSECONDS, n, ours, [theirs])
    value, n = np.linspace(-1, 1, 1 << 18, dtype=np.float32), size.operations(A_ROUND >> 20)
    for verb in VERBS:
        exact = Peer("exact", _round(verb, OURS, value), note="the same array, sent by us as it is")
        ours = _round(verb, NARROW, value)
        yield Contest(f"{verb}_1mb_bfloat16_us", Unit.MICROSECONDS, n, ours, [exact])


def _peers(verb: str, value: Any) -> list[Peer]:
    """What others make of the same; a copy alone is the floor of what goes through."""
    peers = [Peer("pickle 5", _round(verb, PICKLE, value), note=PICKLE_NOTE)]
    found = load("msgpack_numpy")
    if found is None:
        peers.append(absent("msgpack-numpy", "msgpack-numpy"))
    else:
        theirs = _round(verb, Codec(found.encode, found.decode), value)
        peers.append(Peer("msgpack-numpy", theirs, note=found.NOTE))
    if verb == "both":
        peers.append(Peer("memcpy", _copies(value), note=MEMCPY_NOTE))
    return peers


def _round(verb: str, way: Codec, value: Any) -> Round:
    """Encodes; or decodes; or both, with a copy between them into the memory of whoever receives."""
    room = _Room(way.encode(value), whole=way.whole)
    pieces = room.filled(way.encode(value))
    does: dict[str, Callable[[], Any]] = {
        "encode": lambda: way.encode(value),
        "decode": lambda: way.decode(pieces),
        "both": lambda: way.decode(room.filled(way.encode(value))),
    }
    operation = does[verb]

    async def round_(n: int) -> float:
        made: Any = None
        start = perf_counter()
        for _ in range(n):
            made = operation()
        seconds = perf_counter() - start
        read = way.decode(room.filled(made)) if verb == "encode" else made
        _check(read, value, 2**-7 if way is NARROW else 0.0)
        return seconds

    return round_


def _copies(value: Any) -> Round:
    there = np.empty_like(value)

    async def round_(n: int) -> float:
        start = perf_counter()
        for _ in range(n):
            np.copyto(there, value)
        return perf_counter() - start

    return round_


def _by_bytes(round_: Round, length: int) -> Round:
    return lambda n: round_(n // length)


class _Room:
    """Memory for the pieces of a message at whoever receives it: taken once, filled again and again."""

    def __init__(self, pieces: Sequence[Any], *, whole: bool) -> None:
        step = 1 if whole else APART
        starts, stop = [], 0
        for piece in pieces:
            starts.append(stop)
            stop += -(-memoryview(piece).nbytes // step) * step
        memory = np.zeros(stop + APART, np.uint8)
        first = -memory.ctypes.data % APART
        memory = memory[first : first + stop]
        lengths = [memoryview(piece).nbytes for piece in pieces]
        self._places = [memory.data[start : start + n] for start, n in zip(starts, lengths, strict=True)]
        self._given: Sequence[Any] = [memory] if whole else self._places

    def filled(self, pieces: Sequence[Any]) -> Sequence[Any]:
        """Copies the pieces of a message here, as a wire would, and returns what is read then."""
        for place, piece in zip(self._places, pieces, strict=True):
            place[:] = memoryview(piece).cast("B")
        return self._given


def _check(read: Any, value: Any, lost: float) -> None:
    """Raises RuntimeError unless a round read what was sent, but for the share that may be lost."""
    same = np.allclose(read, value, rtol=lost, atol=0) if isinstance(value, np.ndarray) else read == value
    if type(read) is not type(value) or not same:
        message = f"a message must be read as it was sent, got {read!r:.60}"
        raise RuntimeError(message)
