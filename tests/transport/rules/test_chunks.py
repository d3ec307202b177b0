from __future__ import annotations

import struct
import tracemalloc
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actorflow.errors import WireError
from actorflow.transport.codec import message_codec
from actorflow.transport.codec.types import APART, MessageLimits
from actorflow.transport.rules.chunks import CHUNK_BYTES, Assembly, Frames, Stream
from tests.support.strategies import examples

LIMITS = MessageLimits(frame_bytes=200)


def frame_of(body: int, fill: int = 7, header: int = 0) -> bytes:
    """What has the outside of a frame."""
    return struct.pack("<4sIQ", b"AFm1", header, body) + bytes(header + -header % 16) + bytes([fill]) * body


def split(frame: bytes, sizes: Sequence[int]) -> list[bytes]:
    """A frame as buffers, the first of which holds its prefix."""
    parts, at = [frame[:16]], 16
    for size in sizes:
        parts.append(frame[at : at + size])
        at += size
    return [*parts, frame[at:]]


def pieces_of(stream: Stream) -> list[Any]:
    found = []
    while stream:
        found.append(stream.cut())
    return found


def assembled(pieces: Sequence[Any], chunk: int = CHUNK_BYTES, *, borrowed: bool = False) -> list[bytes]:
    """The frames of pieces, which are gone once each is taken if they are borrowed."""
    lane, found = Assembly(chunk_bytes=chunk), []
    for piece in pieces:
        memory = bytearray(piece) if borrowed else piece
        found += lane.take(memory, borrowed=borrowed)
        if borrowed:
            memory[:] = b"\xff" * len(memory)
    assert lane.missing == 0
    return [bytes(frame) for frame in found]


@given(
    frames=st.lists(
        st.tuples(st.integers(0, 150), st.lists(st.integers(0, 40), max_size=4), st.booleans()),
        min_size=1,
        max_size=12,
    ),
    chunk=st.integers(16, 90),
    borrowed=st.booleans(),
)
@settings(max_examples=examples(200))
def test_frames_come_out_as_they_went_in_however_they_are_joined(
    frames: list[tuple[int, list[int], bool]], chunk: int, borrowed: bool
) -> None:
    """Some are cut before the next one is there, and others wait for it."""
    stream, pieces, sent = Stream(chunk), [], []
    for n, (body, sizes, waits) in enumerate(frames, 1):
        sent.append(frame_of(body, n))
        stream.put(split(sent[-1], sizes), n)
        if not waits:
            pieces += pieces_of(stream)
    pieces += pieces_of(stream)

    assert assembled([piece.payload for piece in pieces], chunk, borrowed=borrowed) == sent
    assert [serial for piece in pieces for serial in piece.closes] == list(range(1, len(sent) + 1))
    lane = Assembly(chunk_bytes=chunk)
    for piece in pieces:  # a frame is there with the piece that closes it, and not before
        assert len(list(lane.take(piece.payload))) == len(piece.closes)


@given(frames=st.lists(st.integers(0, 150), min_size=1, max_size=12), cuts=st.sets(st.integers(1, 2000)))
@settings(max_examples=examples(200))
def test_any_cut_that_leaves_prefixes_whole_is_understood(frames: list[int], cuts: set[int]) -> None:
    sent = [frame_of(body, n) for n, body in enumerate(frames)]
    pieces, at = [b""], 0
    for frame in sent:
        pieces[-1] += bytes(-len(pieces[-1]) % 16)
        if at in cuts:
            pieces.append(b"")
        for i, byte in enumerate(frame):
            if i >= 16 and at + i in cuts:
                pieces.append(b"")
            pieces[-1] += bytes([byte])
        at += len(frame)

    assert assembled([piece for piece in pieces if piece]) == sent


def test_large_buffers_are_not_copied_and_small_ones_are_joined() -> None:
    large = np.arange(3 * CHUNK_BYTES // 4 + 10, dtype=np.uint32).view(np.uint8)
    small = frame_of(3)
    stream = Stream()
    stream.put([small], 1)
    stream.put([frame_of(0, header=30), b"p" * 12, large, b"t" * 30, b"u" * 40], 2)
    stream.put([small], 3)

    pieces = pieces_of(stream)

    assert [len(piece.payload) for piece in pieces] == [32 + 48 + 12, *[CHUNK_BYTES] * 3, 40 + 70 + 2 + 19]
    assert [list(piece.closes) for piece in pieces] == [[1], [], [], [], [2, 3]]
    for piece in pieces[1:4]:
        assert np.shares_memory(np.frombuffer(piece.payload, np.uint8), large)


def test_no_more_than_a_part_of_what_waits_is_joined() -> None:
    stream = Stream()
    for n in range(1, 1001):
        stream.put([frame_of(240, n % 251)], n)

    sizes = [len(piece.payload) for piece in pieces_of(stream)]
    assert sizes == [65536] * 3 + [256 * 232]


def test_a_frame_alone_in_its_piece_is_the_piece_and_small_ones_are_copies() -> None:
    alone, small = frame_of(5000), frame_of(10)
    (found,) = Assembly().take(alone)
    assert found is alone

    both = small + bytes(6) + alone
    first, second = Assembly().take(both)
    assert (type(first), first) == (bytes, small)
    assert bytes(second) == alone
    assert np.shares_memory(second, np.frombuffer(both, np.uint8))
    assert len(small) < APART < len(alone)


@given(
    a=st.integers(0, 184),
    b=st.integers(0, 184),
    turns=st.lists(st.booleans(), min_size=60, max_size=60),
)
@settings(max_examples=examples(100))
def test_pieces_of_the_other_lane_may_come_between(a: int, b: int, turns: list[bool]) -> None:
    frames = frame_of(a, 1), frame_of(b, 2)
    ways: list[list[Any]] = []
    for frame in frames:
        stream = Stream(17)
        stream.put([frame], 1)
        ways.append(pieces_of(stream))
    lanes = [Assembly(chunk_bytes=17), Assembly(chunk_bytes=17)]
    found: list[bytes | None] = [None, None]
    for turn in turns + [True] * 30 + [False] * 30:
        if ways[turn]:
            for frame in lanes[turn].take(ways[turn].pop(0).payload):
                found[turn] = bytes(frame)

    assert tuple(found) == frames


@given(
    pieces=st.lists(
        st.binary(max_size=40)
        | st.tuples(st.integers(0, 220) | st.integers(0, 2**63), st.integers(0, 40)).map(
            lambda of: struct.pack("<4sIQ", b"AFm1", 0, of[0]) + bytes(of[1])
        ),
        max_size=20,
    )
)
@settings(max_examples=examples(300))
def test_hostile_pieces_are_refused_and_change_nothing(pieces: list[bytes]) -> None:
    """Against the rule told again, a byte at a time."""
    lane = Assembly(LIMITS, chunk_bytes=50)
    missing = 0
    for piece in pieces:
        refused, frames, at = not 0 < len(piece) <= 50, 0, 0
        while not refused and at < len(piece):
            if missing:
                missing -= 1
                at += 1
                frames += not missing
                continue
            at += -at % 16
            if at >= len(piece):
                break
            head = piece[at : at + 16]
            size = int.from_bytes(head[8:], "little") + 16
            size += int.from_bytes(head[4:8], "little") + -int.from_bytes(head[4:8], "little") % 16
            refused = len(head) < 16 or head[:4] != b"AFm1" or size > 200
            if not refused:
                missing = size - 16
                at += 16
                frames += not missing
        found = 0
        try:
            for _ in lane.take(piece):
                found += 1
        except WireError:
            assert refused
        else:
            assert not refused
        assert (found, lane.missing) == (frames, missing)


def test_memory_is_found_only_after_the_size_has_passed_the_limits_and_the_credit() -> None:
    admitted: list[int] = []

    def admit(size: int) -> None:
        admitted.append(size)
        message = "no credit"
        raise WireError(message)

    lane = Assembly(MessageLimits(frame_bytes=1 << 30), admit)
    tracemalloc.start()
    try:
        with pytest.raises(WireError, match="a frame may have 1073741824 bytes, got 4294967312"):
            list(lane.take(frame_of(0)[:8] + (1 << 32).to_bytes(8, "little")))
        with pytest.raises(WireError, match="no credit"):
            list(lane.take(frame_of(0)[:8] + (1 << 29).to_bytes(8, "little")))
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()
    assert admitted == [16 + (1 << 29)]
    assert lane.missing == 0


def test_arrays_of_joined_messages_are_aligned_and_keep_only_their_own_frame() -> None:
    stream = Stream()
    for n in range(1, 4):
        stream.put(message_codec.encode(np.full(n, n, np.float64)), n)
    (piece,) = pieces_of(stream)
    values = [message_codec.decode(frame) for frame in Assembly().take(memoryview(piece.payload))]

    assert [value.tolist() for value in values] == [[1.0], [2.0, 2.0], [3.0, 3.0, 3.0]]
    assert all(value.flags.aligned for value in values)


@pytest.mark.parametrize(
    "hold",
    [
        lambda frame: frame,
        lambda frame: np.frombuffer(frame, np.float32, 4, 16),
        lambda frame: memoryview(frame)[3:],
        lambda frame: frame[5:].view("u1")[1:],
    ],
)
def test_memory_of_a_large_frame_is_used_again_once_nobody_looks_at_it(hold: Any) -> None:
    frames, size = Frames(), 8 << 20
    frame = frames.find(size)
    place = frame.ctypes.data
    held = hold(frame)
    del frame
    other = frames.find(size)
    assert other.ctypes.data != place

    del held
    assert frames.find(size).ctypes.data == place


def test_little_memory_of_large_frames_is_kept() -> None:
    frames, size = Frames(), 4 << 20
    held = [frames.find(size) for _ in range(9)]
    kept = sum(any(np.shares_memory(frame, cell[0]) for cell in frames._cells) for frame in held)

    assert kept == len(frames) == 4
    assert frames.find(512 << 20) is not frames.find(512 << 20)
    assert len(frames) == 4
