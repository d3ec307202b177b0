from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actorflow.errors import ConfigError, WireError
from actorflow.transport.rules.channel import Lane
from actorflow.transport.rules.credit import Window
from actorflow.transport.rules.datagrams import (
    HEAD_BYTES,
    NOBODY,
    VERSION,
    Datagram,
    DatagramKind,
    Hello,
    Received,
    SessionEnd,
    pack,
    pack_hello,
    unpack,
    unpack_hello,
)
from tests.support.strategies import examples

u64 = st.integers(0, 2**64 - 1)
count = st.integers(1, 2**64 - 1)
ends = st.builds(SessionEnd, count, count)
received = st.builds(Received, *[u64] * 6)
chunks = st.builds(
    Datagram, st.just(DatagramKind.CHUNK), ends, ends, received, st.sampled_from(Lane), count,
    st.binary(min_size=1, max_size=40),
)  # fmt: skip
forms = st.sampled_from([DatagramKind.BEAT, DatagramKind.RESET, DatagramKind.GOODBYE, DatagramKind.PROBE])
others = st.tuples(forms, ends, ends, received).map(lambda fields: Datagram(*fields))


@given(datagram=chunks | others)
@settings(max_examples=examples(100))
def test_a_datagram_comes_out_as_it_went_in(datagram: Datagram) -> None:
    assert unpack(pack(datagram)) == datagram
    assert len(pack(datagram)[0]) == HEAD_BYTES


@given(
    parts=st.lists(st.binary(max_size=120), max_size=4)
    | st.binary(min_size=HEAD_BYTES, max_size=HEAD_BYTES).map(lambda b: [b])
)
@settings(max_examples=examples(100))
def test_any_bytes_are_a_datagram_or_refused(parts: list[bytes]) -> None:
    try:
        found = unpack(parts)
    except WireError:
        return
    assert b"".join(pack(found)) == b"".join(parts)


@given(datagram=chunks | others, at=st.integers(0, HEAD_BYTES - 1), byte=st.integers(0, 255))
@settings(max_examples=examples(300))
def test_a_datagram_with_a_byte_changed_is_another_or_refused(datagram: Datagram, at: int, byte: int) -> None:
    head, *payload = pack(datagram)
    changed = bytearray(head)
    changed[at] = byte
    try:
        found = unpack([changed, *payload])
    except WireError:
        return
    assert (found == datagram) == (bytes(changed)[:6] + bytes(changed)[8:] == head[:6] + head[8:])


A, B = SessionEnd(1, 1), SessionEnd(2, 3)


@pytest.mark.parametrize(
    ("datagram", "what"),
    [
        (Datagram(DatagramKind.BEAT, SessionEnd(0, 1), B), "count from 1, got source 0.1"),
        (Datagram(DatagramKind.BEAT, A, NOBODY), "a BEAT belongs to a session"),
        (Datagram(DatagramKind.CHUNK, A, B, number=0, payload=b"x"), "chunks are numbered from 1"),
        (Datagram(DatagramKind.BEAT, A, B, number=1), "nothing else is, got BEAT with lane 0, number 1"),
        (Datagram(DatagramKind.BEAT, A, B, lane=Lane.DATA), "lane 1, number 0"),
        (Datagram(DatagramKind.CHUNK, A, B, number=1), "got CHUNK of 0 bytes"),
        (Datagram(DatagramKind.RESET, A, B, payload=b"why"), "got RESET of 3 bytes"),
    ],
)
def test_what_cannot_be_is_refused(datagram: Datagram, what: str) -> None:
    with pytest.raises(WireError, match=what):
        unpack(pack(datagram))


@pytest.mark.parametrize(
    ("parts", "what"),
    [
        ([], "got 0 parts of"),
        ([b"short"], "got 1 parts of 5"),
        ([bytes(HEAD_BYTES), b"", b""], "got 3 parts of 104, 0, 0"),
        ([bytes(HEAD_BYTES)], r"begins with b'AFd1', got b'\\x00"),
        (
            [b"AFd1\x09" + bytes(HEAD_BYTES - 5)],
            "there are 6 forms of datagrams and 2 lanes, and 0 behind the number, got 9, 0 and 0",
        ),
        (
            [pack(Datagram(DatagramKind.BEAT, A, B))[0][:-1] + b"\x01"],
            r"behind the number, got 2, 0 and 72057594037927936",
        ),
    ],
)
def test_what_is_no_datagram_is_refused(parts: list[Any], what: str) -> None:
    with pytest.raises(WireError, match=what):
        unpack(parts)


@given(window=st.builds(Window, count, count), program=st.text(max_size=40))
@settings(max_examples=examples(50))
def test_a_hello_comes_out_as_it_went_in(window: Window, program: str) -> None:
    program = program.encode(errors="ignore").decode()
    assert unpack_hello(pack_hello(Hello(window, program))) == Hello(window, program, VERSION)


@pytest.mark.parametrize(
    ("payload", "what"),
    [
        (b"", "a hello has 20 to 220 bytes, got 0"),
        (bytes(20), "a window holds something, got 0 messages and 0 bytes"),
        (bytes(20)[:-1] + b"\1" * 9 + b"\xff", "a window holds something|is text"),
        (pack_hello(Hello(Window(), "")) + b"\xff", r"the name of a program is text, got b'\\xff'"),
        (pack_hello(Hello(Window(), "")) + bytes(201), "got 221"),
    ],
)
def test_what_is_no_hello_is_refused(payload: bytes, what: str) -> None:
    with pytest.raises(WireError, match=what):
        unpack_hello(payload)


def test_the_name_of_a_program_is_short() -> None:
    with pytest.raises(ConfigError, match="at most 200 bytes, got 201"):
        pack_hello(Hello(Window(), "x" * 201))
