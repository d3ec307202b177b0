from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actorflow.errors import WireError
from actorflow.transport import codec
from actorflow.transport.chunks import CHUNK_BYTES, Assembly, Chunk, cut
from actorflow.transport.kinds import Limits
from tests.strategies import examples

LIMITS = Limits(frame_bytes=200)


def parts_of(sizes: list[int]) -> list[bytes]:
    return [bytes([i % 251]) * size for i, size in enumerate(sizes)]


@given(sizes=st.lists(st.integers(0, 40), min_size=1, max_size=12), chunk=st.integers(1, 30))
@settings(max_examples=examples(200))
def test_a_frame_comes_out_as_it_went_in(sizes: list[int], chunk: int) -> None:
    parts = parts_of([16, *sizes])
    frame = b"".join(parts)

    chunks = cut(parts, len(frame), chunk)
    lane = Assembly(chunk_bytes=chunk)
    found = [lane.take(piece) for piece in chunks]

    assert [piece.whole for piece in chunks] == [len(frame)] + [0] * (len(chunks) - 1)
    assert found[:-1] == [None] * (len(chunks) - 1)
    assert found[-1] is not None
    assert bytes(found[-1]) == frame
    assert lane.missing == 0


def test_large_buffers_are_not_copied_and_small_ones_are_joined() -> None:
    large = np.arange(3 * CHUNK_BYTES // 4 + 10, dtype=np.uint32).view(np.uint8)
    parts = [b"h" * 100, b"p" * 12, large, b"t" * 30, b"u" * 40]

    chunks = cut(parts, codec.size(parts))

    assert [len(piece.payload) for piece in chunks] == [112, *[CHUNK_BYTES] * 3, 40, 70]
    for piece in chunks[1:5]:
        assert np.shares_memory(np.frombuffer(piece.payload, np.uint8), large)


@given(
    a=st.integers(16, 200),
    b=st.integers(16, 200),
    turns=st.lists(st.booleans(), min_size=60, max_size=60),
)
@settings(max_examples=examples(100))
def test_pieces_of_the_other_lane_may_come_between(a: int, b: int, turns: list[bool]) -> None:
    frames = bytes(range(200))[:a], bytes(range(50, 250))[:b]
    ways = [cut([frame], len(frame), 7) for frame in frames]
    lanes = [Assembly(chunk_bytes=7), Assembly(chunk_bytes=7)]
    found: list[bytes | None] = [None, None]
    for turn in turns + [True] * 30 + [False] * 30:
        if ways[turn]:
            frame = lanes[turn].take(ways[turn].pop(0))
            if frame is not None:
                found[turn] = bytes(frame)

    assert tuple(found) == frames


@given(
    pieces=st.lists(
        st.tuples(
            st.one_of(st.just(0), st.integers(0, 220), st.integers(0, 2**64 - 1)),
            st.integers(0, 40).map(bytes),
        ),
        max_size=20,
    )
)
@settings(max_examples=examples(300))
def test_hostile_pieces_are_refused_and_change_nothing(pieces: list[tuple[int, bytes]]) -> None:
    """Against the rule told again: a first piece when nothing is missing, else at most what is."""
    lane = Assembly(LIMITS, chunk_bytes=30)
    missing = 0
    for whole, payload in pieces:
        fits = bool(whole) != bool(missing) and 0 < len(payload) <= min(30, whole or missing)
        if fits and (not whole or 16 <= whole <= 200):
            frame = lane.take(Chunk(whole, payload))
            missing = (whole or missing) - len(payload)
            assert (frame is not None) == (missing == 0)
        else:
            with pytest.raises(WireError):
                lane.take(Chunk(whole, payload))
        assert lane.missing == missing


def test_memory_is_found_only_after_the_size_has_passed_the_limits() -> None:
    lane = Assembly(Limits(frame_bytes=1 << 20))
    tracemalloc.start()
    try:
        with pytest.raises(WireError, match="a frame has 16 to 1048576 bytes, got 4294967296 announced"):
            lane.take(Chunk(1 << 32, b"first"))
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()
