"""One message as a header and raw buffers, and back: no code travels, and nothing is believed.

A message is one value: None, bool, int (of 1 KiB at most), float, str, bytes, arrays and scalars of numpy,
and tuples, lists and dicts of these, records (`transport.codec.registry`), lists of tensors (records too, see
`transport.codec.tensor_lists`) and errors (`transport.codec.failures`). It becomes a frame:

    prefix   16 bytes: magic, size of the header, size of the body
    header   a msgpack array of atoms (None, bool, int, float, str, bytes), padded to 16 bytes
    body     the memory of the arrays in the order of the header, each at a multiple of 16 bytes

The header is flat, so a reader knows from its size alone how much it may become. It names kinds of
values (`TypeCode`), each followed by its counts, dtypes and shapes. A list of rows of one structure, as a
chunk of elements is, is written by columns: one entry a column, and one buffer for all its arrays.

`encode` gives buffers for a vectored write, one for a small message, and copies no large array; `decode`
gives arrays that are views of the frame. Neither reads a socket, and there is no clock.

A law: `decode(join(encode(value)))` equals `value` in types, dtypes (byte order too), shapes and bits,
unless the sender says that float32 may be cut to bfloat16 on the way (`lossy`).
Arrays arrive without gaps, their axes in the order in memory in which they lay: kernels that add along the
memory then round as they did. What is cut to bfloat16, and arrays in lists of arrays, arrive in C order.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from operator import is_
from typing import Any

import msgpack
import numpy as np

from actorflow.errors import CannotTravel, WireError, show_value
from actorflow.transport.codec.decoder import Decoder
from actorflow.transport.codec.encoder import Encoder, too_large
from actorflow.transport.codec.registry import BY_TYPE, enter
from actorflow.transport.codec.tensor_lists import ENTRY as LISTS
from actorflow.transport.codec.types import (
    ALIGN,
    APART,
    ATOMS,
    LIMITS,
    ZEROS,
    Buffer,
    Lossy,
    MessageLimits,
    TypeCode,
)
from actorflow.values.arrays import DType

PREFIX_BYTES = 16
_PREFIX = struct.Struct("<4sIQ")
_MAGIC = b"AFm1"
_MAX_HEADER = 2**32 - 1
_ERRORS = "surrogatepass"  # of text: lone surrogates travel
_WIDE: DType = np.dtype(np.longdouble)

_TUPLE = TypeCode.TUPLE.value
_ATOM = TypeCode.ATOM.value

enter(LISTS)

_PACKERS: list[Any] = []
_KEPT = 1 << 16

_SHORT = 128
"""Bytes of a header that is read at once, in 0.2 µs and not 2.

It could announce arrays in arrays of as many elements as it has bytes, for which msgpack takes 50 KB,
as much as it takes anyway for headers that are read with care."""

# ------------------------------------------------------------------------------------ writing


def encode(value: Any, limits: MessageLimits = LIMITS, *, lossy: Lossy | None = None) -> list[Buffer]:
    """Returns the frame of `value` as buffers to be written one after the other.

    Arrays and bytes are borrowed until the buffers are written: what changes them meanwhile changes
    the message.

    Args:
        value: What is sent.
        limits: What the message may be.
        lossy: What may be lost, of arrays that are large enough; nothing unless it is said. See
            `transport.codec.bfloat16`; the other side need not be told.

    Raises:
        CannotTravel: when it holds what no message may, is nested too deeply, or is too large; the
            text names the place.
    """
    try:
        try:
            return _frame(value, limits, Encoder(limits, lossy))
        except OverflowError:  # an integer of more than 64 bits
            return _frame(value, limits, Encoder(limits, lossy, wide=True))
    except CannotTravel as error:
        if way := _way(value, limits):
            message = f"at {way}: {error.what}"
            raise CannotTravel(message, hint=error.hint) from None
        raise


def encode_row(
    head: Sequence[Any], value: Any, limits: MessageLimits = LIMITS, *, lossy: Lossy | None = None
) -> list[Buffer]:
    """Returns the frame of the tuple `(*head, value)`, as `encode` does, with less ado about its head.

    Measured for a head of 4 and 64 bytes: 1.8 µs, and 2.7 by `encode`; `decode_row` 2.1, and 3.3 by `decode`.

    Args:
        head: Atoms: text that travels in a header, and numbers.
        value: What is sent with them.
        limits: What the message may be.
        lossy: See `encode`.

    Raises:
        CannotTravel: as `encode`; the text does not name the place.
    """
    writer = Encoder(limits, lossy)
    n = len(head)
    writer.tokens = tokens = [_ATOM] * (2 * n + 2)
    tokens[0], tokens[1] = _TUPLE, n + 1
    tokens[3::2] = head
    try:
        writer.value(value, 1)
        return _finish_frame(writer, limits)
    except (OverflowError, TypeError):  # an integer of more than 64 bits, or no atom in the head
        return _frame((*head, value), limits, Encoder(limits, lossy, wide=True))


def size(parts: Sequence[Buffer]) -> int:
    """Returns the bytes of a frame."""
    return len(parts[0]) if len(parts) == 1 else sum(map(len, parts))


def join(parts: Sequence[Buffer]) -> bytes:
    """Returns a frame as one piece."""
    return b"".join(parts)


def _frame(value: Any, limits: MessageLimits, writer: Encoder) -> list[Buffer]:
    writer.value(value, 0)
    return _finish_frame(writer, limits)


def _finish_frame(writer: Encoder, limits: MessageLimits) -> list[Buffer]:
    """The frame of what was written."""
    try:
        header = _pack(writer.tokens)
    except ValueError as error:
        message = f"no message can hold it: {error}"
        raise CannotTravel(message, hint="send less at a time") from None
    pad = ZEROS[: -len(header) % ALIGN]
    whole = PREFIX_BYTES + len(header) + len(pad) + writer.size
    if whole > limits.frame_bytes or len(header) > _MAX_HEADER:
        raise too_large(whole, limits)
    prefix = _PREFIX.pack(_MAGIC, len(header), writer.size)
    if writer.size < APART:
        return [b"".join((prefix, header, pad, *writer.parts))]
    return [b"".join((prefix, header, pad)), *writer.parts]


def _pack(tokens: list[Any]) -> bytes:
    """The bytes of a header.

    A packer is kept for the next message, since 0.7 of 1 µs is its making; whoever packs has taken it
    out of the list meanwhile, so that threads do not meet in one.
    """
    try:
        packer = _PACKERS.pop()
    except IndexError:
        packer = msgpack.Packer(unicode_errors=_ERRORS)
    header: bytes = packer.pack(tokens)
    if len(header) <= _KEPT:  # it keeps room for the largest that it has packed
        _PACKERS.append(packer)
    return header


def _way(value: Any, limits: MessageLimits) -> str:
    """The way to the first part of a value that cannot travel alone, as `[3]['image']` or `.values['w']`."""
    way = ""
    for _ in range(limits.depth):
        for step, part in _inside(value):
            try:
                Encoder(limits, wide=True).value(part, 0)
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
            yield f"[{show_value(key, 40)}]", part


# ------------------------------------------------------------------------------------ reading


def frame_size(memory: Buffer, limits: MessageLimits = LIMITS, at: int = 0) -> int:
    """Returns the bytes of the frame whose first `PREFIX_BYTES`, at least, are in `memory` from `at` on.

    Raises:
        WireError: when they begin no frame, or one larger than the limits.
    """
    header, body = _prefix(memory, limits, at)
    return PREFIX_BYTES + header + -header % ALIGN + body


def decode(frame: Buffer, limits: MessageLimits = LIMITS) -> Any:
    """Returns the value of a frame.

    Arrays are views of the frame, aligned, and writeable if it is; so whoever keeps one keeps the
    frame. A frame that does not lie at a multiple of 16 bytes is copied first. What else is made is
    at most a constant times as large as the frame.

    Raises:
        WireError: when the bytes are no frame, whatever they are.
    """
    tokens, body = _header(frame, limits)
    return _value(tokens, frame, body, limits)


def decode_row(frame: Buffer, n: int, limits: MessageLimits = LIMITS) -> tuple[list[Any], Any]:
    """Returns the first `n` values and the last one of a frame that holds a tuple of `n + 1`.

    They are those that `decode` finds, with less ado where the first ones are atoms.

    Raises:
        WireError: when the bytes are no frame, or one of something else.
    """
    tokens, body = _header(frame, limits)
    first = 2 * n + 2
    kinds = tokens[:2] + tokens[2:first:2]
    # By identity: what equals a kind may be no integer. Without one object a small integer it would be slow.
    if len(tokens) < first + 2 or not all(map(is_, kinds, [_TUPLE, n + 1] + [_ATOM] * n)):
        found = _value(tokens, frame, body, limits)
        if type(found) is tuple and len(found) == n + 1:
            return list(found[:-1]), found[-1]
        message = f"a tuple of {n + 1} must stand here, got {show_value(found)}"
        raise WireError(message)
    head = tokens[3:first:2]
    if not body and len(tokens) == first + 2 and tokens[first] == _ATOM:
        return head, tokens[first + 1]
    return head, _value(tokens, frame, body, limits, at=first, depth=1)


def _header(frame: Buffer, limits: MessageLimits) -> tuple[list[Any], int]:
    """The atoms of the header of a frame, and the bytes of its body."""
    header, body = _prefix(frame, limits)
    stop = PREFIX_BYTES + header + -header % ALIGN + body
    if stop != len(frame):
        message = f"a frame of {stop} bytes was announced, got {len(frame)}"
        raise WireError(message)
    return _tokens(bytes(frame[PREFIX_BYTES : PREFIX_BYTES + header])), body


def _value(
    tokens: list[Any], frame: Buffer, body: int, limits: MessageLimits, *, at: int = 0, depth: int = 0
) -> Any:
    """The value whose atoms begin at one of them and end with the last."""
    stop = len(frame)
    reader = Decoder(tokens, _in_place(frame) if body else frame, stop - body, stop, limits, at)
    value = reader.value(depth)
    reader.finish()
    return value


def _prefix(frame: Buffer, limits: MessageLimits, at: int = 0) -> tuple[int, int]:
    """The sizes of header and body."""
    if len(frame) - at < PREFIX_BYTES:
        message = f"a frame begins with {PREFIX_BYTES} bytes, got {len(frame) - at}"
        raise WireError(message)
    magic, header, body = _PREFIX.unpack_from(frame, at)
    if magic != _MAGIC:
        message = f"a frame begins with {_MAGIC!r}, got {magic!r}"
        raise WireError(message)
    whole: int = PREFIX_BYTES + header + -header % ALIGN + body
    if whole > limits.frame_bytes:
        message = f"a frame may have {limits.frame_bytes} bytes, got {whole}"
        raise WireError(message)
    return header, body


def _in_place(frame: Buffer) -> Buffer:
    """The frame at a multiple of ALIGN, and held by whatever is a view of it.

    numpy tells the place in 2 µs, and in 0.4 whether it suits a number as wide as ALIGN.
    """
    lasting = type(frame) is bytes or type(frame) is np.ndarray  # a bytearray could shrink under its views
    memory = frame if lasting else np.frombuffer(frame, np.uint8)
    if _WIDE.alignment == ALIGN:
        aligned = np.ndarray(1, _WIDE, memory).flags.aligned
    else:
        aligned = np.frombuffer(memory, np.uint8).ctypes.data % ALIGN == 0
    return memory if aligned else np.frombuffer(memory, np.uint8).copy()


def _tokens(header: bytes) -> list[Any]:
    """The atoms of a header."""
    if len(header) <= _SHORT:
        try:
            tokens = msgpack.unpackb(
                header, max_array_len=len(header), max_map_len=0, max_ext_len=0, unicode_errors=_ERRORS
            )
        except (ValueError, msgpack.UnpackException):
            return _check_tokens(header)
        if type(tokens) is list and ATOMS.issuperset(map(type, tokens)):
            return tokens
    return _check_tokens(header)


def _check_tokens(header: bytes) -> list[Any]:
    """The same; nothing in the header may be an array, map or extension, so it cannot grow."""
    limit = len(header)
    unpacker = msgpack.Unpacker(
        max_buffer_size=limit or 1,
        max_str_len=limit,
        max_bin_len=limit,
        max_array_len=0,
        max_map_len=0,
        max_ext_len=0,
        unicode_errors=_ERRORS,
    )
    try:
        unpacker.feed(header)
        n = unpacker.read_array_header()
        tokens = list(unpacker)
    except (ValueError, msgpack.UnpackException) as error:
        message = f"the header cannot be read: {error}"
        raise WireError(message) from None
    if len(tokens) != n or unpacker.tell() != limit or not ATOMS.issuperset(map(type, tokens)):
        message = f"the header must be {n} atoms in {limit} bytes, got {len(tokens)} in {unpacker.tell()}"
        raise WireError(message)
    return tokens
