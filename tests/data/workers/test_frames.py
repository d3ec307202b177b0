"""Frames cut into any pieces arrive whole and in order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actorflow.data.workers.frames import Inbox, Outbox
from actorflow.errors import WireError
from actorflow.transport.codec.message_codec import decode, encode, join
from actorflow.transport.codec.types import MessageLimits
from tests.transport.values import same, values


def poured(stream: bytes, cuts: list[int], inbox: Inbox) -> list[Any]:
    """The messages that come when a stream arrives in pieces, of the sizes drawn or less."""
    found, at = [], 0
    while at < len(stream):
        room = inbox.room()
        n = min(len(room), len(stream) - at, cuts[at % len(cuts)] if cuts else len(room))
        room[:n] = stream[at : at + n]
        at += n
        if (frame := inbox.fill(n)) is not None:
            found.append(decode(frame))
    return found


@given(st.lists(values, max_size=3), st.lists(st.integers(1, 40), max_size=5))
def test_frames_arrive_whole_and_in_order_however_they_are_cut(sent: list[Any], cuts: list[int]) -> None:
    inbox = Inbox()
    stream = b"".join(join(encode(value)) for value in sent)

    found = poured(stream, cuts, inbox)

    assert same(found, sent)
    assert inbox.received == len(stream)


@given(st.lists(values, max_size=3), st.lists(st.integers(1, 100), min_size=1, max_size=5))
def test_a_stream_leaves_in_order_however_much_each_write_takes(sent: list[Any], takes: list[int]) -> None:
    outbox = Outbox()
    frames = [encode(value) for value in sent]
    for parts in frames:
        outbox.add(parts)
    stream, turn = b"", 0
    while outbox:
        piece = join(outbox.batch())[: takes[turn % len(takes)]]
        outbox.drop_sent(len(piece))
        stream += piece
        turn += 1

    assert stream == b"".join(map(join, frames))


def test_one_write_takes_a_bounded_number_of_buffers() -> None:
    outbox = Outbox()
    outbox.add([bytes([k % 251]) for k in range(2000)])
    sizes = []
    while outbox:
        sizes.append(len(outbox.batch()))
        outbox.drop_sent(sizes[-1])

    assert sizes == [512, 512, 512, 464]


def test_memory_is_asked_for_only_within_the_limits() -> None:
    inbox = Inbox(MessageLimits(frame_bytes=64))
    frame = join(encode(np.zeros(100, "u1")))

    with pytest.raises(WireError, match="a frame may have 64 bytes"):
        poured(frame, [], inbox)


def test_what_is_cleared_is_not_sent() -> None:
    outbox = Outbox()
    outbox.add([b"1", b"", b"2"])
    assert outbox.batch() == [b"1", b"2"]

    outbox.clear()

    assert not outbox
