"""A reader for the one protocol buffer that input pipelines are full of: TensorFlow's Example.

    Example  { Features features = 1; }
    Features { map<string, Feature> feature = 1; }          an entry is { key = 1; value = 2; }
    Feature  { BytesList = 1 | FloatList = 2 | Int64List = 3; }
    a list   { repeated value = 1; }                        numbers packed or one by one

Source: tensorflow/core/example/{example,feature}.proto; "Encoding", protobuf.dev. What is unknown is
skipped, of several fields with one number the last counts (of lists all, one after the other), as
protobuf has it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

_VARINT, _WIDE, _CHUNK, _NARROW = 0, 1, 2, 5
_KINDS = {1: "bytes", 2: "float32", 3: "int64"}


def example(data: bytes) -> dict[str, tuple[str, list[Any]]]:
    """Returns the features of an Example by name: the dtype of its list, and the values.

    Raises:
        ValueError: when `data` is no such message.
    """
    found: dict[str, tuple[str, list[Any]]] = {}
    for features in _chunks(data, 1, "features"):
        for entry in _chunks(features, 1, "a feature"):
            name, value = b"", b""
            # Of several with one number the last counts.
            for number, wire, given in fields(entry):
                if wire == _CHUNK and number == 1:
                    name = given
                elif wire == _CHUNK and number == 2:
                    value = given
            # A name twice: the last entry counts, as in any map of protobuf.
            found[_text(name)] = _feature(value)
    return found


def fields(data: bytes) -> Iterator[tuple[int, int, Any]]:
    """Yields number, wire type and value of each field of a message; ValueError when it is cut off."""
    at = 0
    # INVARIANT: `at` stands at the key of a field, or at the end.
    while at < len(data):
        key, at = _varint(data, at)
        number, wire = key >> 3, key & 7
        if not number:
            raise ValueError("a field of a protocol buffer has a number above 0")
        if wire == _VARINT:
            value, at = _varint(data, at)
            yield number, wire, value
            continue
        if wire == _CHUNK:
            size, at = _varint(data, at)
        elif wire in (_WIDE, _NARROW):
            size = 8 if wire == _WIDE else 4
        else:
            message = f"a protocol buffer has no field of wire type {wire}"
            raise ValueError(message)
        if at + size > len(data):
            message = f"field {number} of a protocol buffer ends after {at + size} bytes, of {len(data)}"
            raise ValueError(message)
        yield number, wire, data[at : at + size]
        at += size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """The number that begins there, and the place behind it."""
    value = shift = 0
    while True:
        # Ten groups of 7 bits are the most: 64 bits.
        if at >= len(data) or shift > 63:
            raise ValueError("a number of a protocol buffer is cut off or too long")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            # The tenth group has bits above the 64th, which protobuf drops.
            return value & 0xFFFF_FFFF_FFFF_FFFF, at
        shift += 7


def _chunks(data: bytes, wanted: int, what: str) -> Iterator[bytes]:
    for number, wire, value in fields(data):
        if number != wanted:
            continue
        if wire != _CHUNK:
            message = f"{what} of an Example must be a message"
            raise ValueError(message)
        yield value


def _text(name: bytes) -> str:
    try:
        return name.decode("utf-8")
    except UnicodeDecodeError:
        message = f"the name of a feature must be UTF-8, got {name!r:.40}"
        raise ValueError(message) from None


def _feature(data: bytes) -> tuple[str, list[Any]]:
    kind = ""
    values: list[Any] = []
    for number, wire, body in fields(data):
        if wire != _CHUNK or number not in _KINDS:
            continue
        if _KINDS[number] != kind:  # one of the three: the last counts
            kind, values = _KINDS[number], []
        # Packed or one by one, in the order in which they come; several lists are joined.
        values += [v for n, w, given in fields(body) if n == 1 for v in _values(kind, w, given)]
    return kind, values


def _values(kind: str, wire: int, given: Any) -> list[Any]:
    """The values of one field of a list."""
    if kind == "bytes" and wire == _CHUNK:
        return [given]
    if kind == "float32" and wire in (_CHUNK, _NARROW) and len(given) % 4 == 0:
        return list(struct.unpack(f"<{len(given) // 4}f", given))
    if kind == "int64" and wire == _VARINT:
        return [_as_signed(given)]
    # Packed: varints one after the other until the chunk ends.
    if kind == "int64" and wire == _CHUNK:
        found, at = [], 0
        while at < len(given):
            value, at = _varint(given, at)
            found.append(_as_signed(value))
        return found
    message = f"a list of {kind} holds something else"
    raise ValueError(message)


def _as_signed(value: int) -> int:
    return value - 2**64 if value >= 2**63 else value
