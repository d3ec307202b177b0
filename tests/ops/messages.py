"""TensorFlow's Example messages, written by hand from the description of the encoding."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any


def varint(value: int) -> bytes:
    value &= 2**64 - 1
    out = bytearray()
    while True:
        value, low = value >> 7, value & 0x7F
        out.append(low | (0x80 if value else 0))
        if not value:
            return bytes(out)


def chunk(number: int, body: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(body)) + body


def feature(values: Sequence[Any], *, packed: bool = True) -> bytes:
    """A Feature of the kind of its values: bytes, floats or integers."""
    if isinstance(values[0], bytes):
        return chunk(1, b"".join(chunk(1, v) for v in values))
    if isinstance(values[0], float):
        numbers = [struct.pack("<f", v) for v in values]
        body = chunk(1, b"".join(numbers)) if packed else b"".join(b"\x0d" + n for n in numbers)
        return chunk(2, body)
    numbers = [varint(v) for v in values]
    body = chunk(1, b"".join(numbers)) if packed else b"".join(b"\x08" + n for n in numbers)
    return chunk(3, body)


def example(features: Mapping[str, Sequence[Any]], *, packed: bool = True) -> bytes:
    entries = (
        chunk(1, chunk(1, name.encode()) + chunk(2, feature(values, packed=packed)))
        for name, values in features.items()
    )
    return chunk(1, b"".join(entries))
