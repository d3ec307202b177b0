from __future__ import annotations

import struct
from typing import Any

import msgpack
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actorflow.errors import CannotTravel, WireError
from actorflow.transport.codec import message_codec
from actorflow.transport.codec.types import MessageLimits
from actorflow.transport.rules import envelopes
from actorflow.transport.rules.channel import Envelope, EnvelopeKind, Lane
from tests.support.strategies import examples
from tests.transport.values import everything, same


def frame_of(value: Any) -> bytes:
    return message_codec.join(message_codec.encode(value))


@pytest.mark.parametrize("say", EnvelopeKind)
@pytest.mark.parametrize("lane", Lane)
def test_an_envelope_comes_out_as_it_went_in(say: EnvelopeKind, lane: Lane) -> None:
    envelope = Envelope("shard/0", {"rows": [1, 2]}, say, lane, 2**63 - 1, 0.5)

    parts, size = envelopes.write(envelope)

    assert size == len(message_codec.join(parts))
    assert envelopes.read(message_codec.join(parts), lane) == envelope


def test_a_limit_may_be_a_whole_number() -> None:
    parts, _ = envelopes.write(Envelope("a", None, ask=1, limit_s=3))
    found = envelopes.read(message_codec.join(parts), Lane.DATA)

    assert (found.limit_s, type(found.limit_s)) == (3.0, float)


def test_what_cannot_travel_is_told_by_its_place_in_the_body() -> None:
    with pytest.raises(CannotTravel, match=r"^at \['w'\]: an array of dtype <U1 cannot travel"):
        envelopes.write(Envelope("a", {"w": np.array(["x"])}))
    with pytest.raises(CannotTravel, match="a message may have 100 bytes"):
        envelopes.write(Envelope("a", bytes(200)), MessageLimits(frame_bytes=100))
    with pytest.raises(CannotTravel, match="values may be nested 2 deep"):
        envelopes.write(Envelope("a", [[[1]]]), MessageLimits(depth=2))


@pytest.mark.parametrize(
    "value",
    [
        None,
        ["t", 0, 0, 0.0, None],
        ("t", 0, 0, 0.0),
        (b"t", 0, 0, 0.0, None),
        (2**8000, 0, 0, 0.0, None),
        ("t", 2**8000, 0, 0.0, None),
        ("t", 0, 2**8000, 0.0, None),
        ("t", 0, 0, 2**8000, None),
        ("t", len(EnvelopeKind), 0, 0.0, None),
        ("t", -1, 0, 0.0, None),
        ("t", True, 0, 0.0, None),
        ("t", 0, -1, 0.0, None),
        ("t", 0, 2**63, 0.0, None),
        ("t", 0, 0, 0, None),
        ("t", 0, 0, -1.0, None),
        ("t", 0, 0, float("nan"), None),
    ],
    ids=repr,
)
def test_a_message_that_is_no_envelope_is_refused(value: Any) -> None:
    with pytest.raises(WireError, match="an envelope|a question|a tuple of 5 must"):
        envelopes.read(frame_of(value), Lane.DATA)


drawn = st.builds(
    Envelope,
    st.text(max_size=20),
    everything,
    st.sampled_from(EnvelopeKind),
    st.sampled_from(Lane),
    st.integers(0, 2**63 - 1),
    st.floats(0, allow_nan=False) | st.integers(0, 3),
)


@given(envelope=drawn)
@settings(max_examples=examples(50))
def test_the_short_ways_through_the_codec_do_as_the_long_ones(envelope: Envelope) -> None:
    row = (envelope.target, int(envelope.say), envelope.ask, float(envelope.limit_s), envelope.body)
    parts, size = envelopes.write(envelope)

    frame = message_codec.join(parts)
    assert frame == frame_of(row)
    assert size == len(frame)
    head, body = message_codec.decode_row(frame, 4)
    assert same((*head, body), row)
    assert same(message_codec.decode(frame), row)


@given(frame=st.tuples(drawn, st.integers(0, 200), st.integers(0, 255)))
@settings(max_examples=examples(60))
def test_what_the_long_way_refuses_the_short_one_refuses(frame: tuple[Envelope, int, int]) -> None:
    envelope, at, byte = frame
    changed = bytearray(message_codec.join(envelopes.write(envelope)[0]))
    changed[at % len(changed)] = byte
    try:
        expected = message_codec.decode(bytes(changed))
    except WireError:
        expected = None
    if type(expected) is not tuple or len(expected) != 5:
        with pytest.raises(WireError):
            message_codec.decode_row(bytes(changed), 4)
    else:
        head, body = message_codec.decode_row(bytes(changed), 4)
        assert same((*head, body), expected)


def test_only_a_kind_that_is_an_integer_begins_an_atom() -> None:
    tokens = [7, 5, 0, "t", False, 0, 0, 0, 0, 0.0, 0, 1]
    packed = msgpack.packb(tokens)
    frame = struct.pack("<4sIQ", b"AFm1", len(packed), 0) + packed + bytes(-len(packed) % 16)
    with pytest.raises(WireError, match="a kind"):
        message_codec.decode_row(frame, 4)
