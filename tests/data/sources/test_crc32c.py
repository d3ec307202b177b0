"""CRC-32C against its definition, bit by bit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actorflow.data.sources.crc32c import crc32c, crc32c_each, crc32c_rows
from tests.support.strategies import examples


def by_bits(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


@pytest.mark.parametrize(
    ("data", "crc"),
    [
        (b"", 0),
        (b"123456789", 0xE3069283),
        (bytes(32), 0x8A9136AA),
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
        (bytes(range(31, -1, -1)), 0x113FDB5C),
    ],
)
def test_the_vectors_of_rfc_3720(data, crc):
    assert crc32c(data) == crc


@settings(max_examples=examples(80), deadline=None)
@given(
    messages=st.lists(st.tuples(st.integers(0, 9), st.binary(max_size=70)), max_size=12),
    long=st.integers(0, 9000),
)
def test_many_messages_at_once_are_each_by_itself(messages, long):
    """The gaps between them do not count, and neither does the length of the others."""
    messages = [*messages, (3, bytes(i * i % 253 for i in range(long)))]
    data, starts = b"", []
    for gap, message in messages:
        data += b"?" * gap
        starts.append(len(data))
        data += message
    begin = np.array(starts)

    found = crc32c_each(
        np.frombuffer(data, np.uint8), begin, begin + [len(message) for _, message in messages]
    )

    assert found.tolist() == [by_bits(message) for _, message in messages]


@settings(max_examples=examples(40), deadline=None)
@given(width=st.integers(4, 32), data=st.binary(max_size=200))
def test_rows_are_messages_of_one_length(width, data):
    rows = np.frombuffer(data[: len(data) // width * width], np.uint8).reshape(-1, width)

    assert crc32c_rows(rows).tolist() == [by_bits(row.tobytes()) for row in rows]


def test_no_messages_have_no_sums():
    none = np.zeros(0, np.int64)

    assert crc32c_each(np.zeros(5, np.uint8), none, none).tolist() == []


def test_a_long_message_takes_every_level_of_tables():
    data = np.arange(2**18, dtype=np.uint32).astype(np.uint8).tobytes() * 2

    assert crc32c(data) == by_bits(data)
