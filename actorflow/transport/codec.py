"""One message as a header and raw buffers, and back: no code travels, and nothing is believed.

A message is one value: None, bool, int, float, str, bytes, arrays and scalars of numpy, and tuples,
lists and dicts of these, records (`transport.registry`) and errors (`transport.failures`). It becomes a
frame:

    prefix   16 bytes: magic, size of the header, size of the body
    header   a msgpack array of atoms (None, bool, int, float, str, bytes), padded to 16 bytes
    body     the memory of the arrays in the order of the header, each at a multiple of 16 bytes

The header is flat, so a reader knows from its size alone how much it may become. It names kinds of
values (`Kind`), each followed by its counts, dtypes and shapes. A list of rows of one structure, as a
chunk of elements is, is written by columns: one entry a column, and one buffer for all its arrays.

`encode` gives buffers for a vectored write and copies no large array; `decode` gives arrays that are
views of the frame. Neither reads a socket, and there is no clock.

A law: `decode(join(encode(value)))` equals `value` in types, dtypes (byte order too), shapes and bits.
The order in memory is no part of a value: arrays arrive in C order.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Any

import msgpack
import numpy as np

from actorflow.errors import CannotTravel, WireError
from actorflow.transport.kinds import ALIGN, ATOMS, LIMITS, ZEROS, Buffer, Limits
from actorflow.transport.reading import Reader
from actorflow.transport.registry import BY_TYPE
from actorflow.transport.writing import Writer

PREFIX_BYTES = 16
_PREFIX = struct.Struct("<4sIQ")
_MAGIC = b"AFm1"
_MAX_HEADER = 2**32 - 1

# ------------------------------------------------------------------------------------ writing


def encode(value: Any, limits: Limits = LIMITS) -> list[Buffer]:
    """Returns the frame of `value` as buffers to be written one after the other.

    Arrays and bytes are borrowed until the buffers are written: what changes them meanwhile changes
    the message.

    Raises:
        CannotTravel: when it holds what no message may, is nested too deeply, or is too large; the
            text names the place.
    """
    try:
        try:
            return _frame(value, limits, Writer(limits))
        except OverflowError:  # an integer of more than 64 bits
            return _frame(value, limits, Writer(limits, wide=True))
    except CannotTravel as error:
        if way := _way(value, limits):
            message = f"at {way}: {error.what}"
            raise CannotTravel(message, hint=error.hint) from None
        raise


def size(parts: Sequence[Buffer]) -> int:
    """Returns the bytes of a frame."""
    return sum(len(part) for part in parts)


def join(parts: Sequence[Buffer]) -> bytes:
    """Returns a frame as one piece."""
    return b"".join(parts)


def _frame(value: Any, limits: Limits, writer: Writer) -> list[Buffer]:
    writer.value(value, 0)
    try:
        header = msgpack.packb(writer.tokens, unicode_errors="surrogatepass")
    except ValueError as error:
        message = f"no message can hold it: {error}"
        raise CannotTravel(message, hint="send less at a time") from None
    pad = ZEROS[: -len(header) % ALIGN]
    whole = PREFIX_BYTES + len(header) + len(pad) + writer.size
    if whole > limits.frame_bytes or len(header) > _MAX_HEADER:
        message = f"a message may have {limits.frame_bytes} bytes, got {whole}"
        raise CannotTravel(message, hint="send less at a time")
    return [b"".join((_PREFIX.pack(_MAGIC, len(header), writer.size), header, pad)), *writer.parts]


def _way(value: Any, limits: Limits) -> str:
    """The way to the first part of a value that cannot travel alone, as `[3]['image']` or `.values['w']`."""
    way = ""
    for _ in range(limits.depth):
        for step, part in _inside(value):
            try:
                Writer(limits).value(part, 0)
            except CannotTravel:
                way, value = way + step, part
                break
        else:
            return way
    return ""  # nested too deeply: a way would not end


def _inside(value: Any) -> Iterator[tuple[str, Any]]:
    """The parts of a value, each with the step to it."""
    kind = type(value)
    if kind in BY_TYPE:
        entry = BY_TYPE[kind]
        for name, part in zip(entry.names, entry.values(value), strict=True):
            yield f".{name}", part
    elif kind in (list, tuple, dict):
        for key, part in value.items() if kind is dict else enumerate(value):
            yield f"[{key!r:.40}]", part


# ------------------------------------------------------------------------------------ reading


def frame_size(prefix: Buffer, limits: Limits = LIMITS) -> int:
    """Returns the bytes of the frame that begins with these `PREFIX_BYTES`.

    Raises:
        WireError: when they begin no frame, or one larger than the limits.
    """
    if len(prefix) < PREFIX_BYTES:
        message = f"a frame begins with {PREFIX_BYTES} bytes, got {len(prefix)}"
        raise WireError(message)
    magic, header, body = _PREFIX.unpack_from(prefix)
    if magic != _MAGIC:
        message = f"a frame begins with {_MAGIC!r}, got {magic!r}"
        raise WireError(message)
    whole: int = PREFIX_BYTES + header + -header % ALIGN + body
    if whole > limits.frame_bytes:
        message = f"a frame may have {limits.frame_bytes} bytes, got {whole}"
        raise WireError(message)
    return whole


def decode(frame: Buffer, limits: Limits = LIMITS) -> Any:
    """Returns the value of a frame.

    Arrays are views of the frame, aligned, and writeable if it is; so whoever keeps one keeps the
    frame. A frame that does not lie at a multiple of 16 bytes is copied first. What else is made is
    at most a constant times as large as the frame.

    Raises:
        WireError: when the bytes are no frame, whatever they are.
    """
    memory = np.frombuffer(frame, np.uint8) if len(frame) else np.empty(0, np.uint8)
    if memory.ctypes.data % ALIGN:
        memory = memory.copy()
    prefix = memory[:PREFIX_BYTES].tobytes()
    whole = frame_size(prefix, limits)
    if whole != memory.size:
        message = f"a frame of {whole} bytes was announced, got {memory.size}"
        raise WireError(message)
    header, body = _PREFIX.unpack(prefix)[1:]
    tokens = _tokens(memory[PREFIX_BYTES : PREFIX_BYTES + header])
    reader = Reader(tokens, memory[whole - body :], limits)
    value = reader.value(0)
    reader.finish()
    return value


def _tokens(header: Buffer) -> list[Any]:
    """The atoms of a header; nothing in it may be an array, map or extension, so it cannot grow."""
    limit = len(header)
    unpacker = msgpack.Unpacker(
        max_buffer_size=limit or 1,
        max_str_len=limit,
        max_bin_len=limit,
        max_array_len=0,
        max_map_len=0,
        max_ext_len=0,
        unicode_errors="surrogatepass",
    )
    try:
        unpacker.feed(header)
        n = unpacker.read_array_header()
        tokens = list(unpacker)
    except (ValueError, msgpack.UnpackException) as error:
        message = f"the header cannot be read: {error}"
        raise WireError(message) from None
    if len(tokens) != n or unpacker.tell() != limit or not set(map(type, tokens)) <= ATOMS:
        message = f"the header must be {n} atoms in {limit} bytes, got {len(tokens)} in {unpacker.tell()}"
        raise WireError(message)
    return tokens
