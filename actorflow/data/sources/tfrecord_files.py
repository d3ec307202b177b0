"""TFRecord files: any bytes, one record after the other, each with checksums.

A record is its length (uint64, little-endian), the masked CRC-32C of these 8 bytes, the data, and the
masked CRC-32C of the data; the mask turns right by 15 and adds 0xa282ead8. Source: TensorFlow,
"TFRecord and tf.train.Example", and tensorflow/core/lib/io/record_writer.cc.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from struct import Struct

import numpy as np

from actorflow.data.sources.block_reader import Blocks, BlockSource
from actorflow.data.sources.byte_stream import READ_BYTES, ByteStream, open_stream, stream_error
from actorflow.data.sources.crc32c import Sums, crc32c, crc32c_each, crc32c_rows
from actorflow.data.sources.paths import Paths, files_of, name_source
from actorflow.errors import InputError

_LENGTH = Struct("<Q")
_HINT = "the file is damaged or cut, or no TFRecord file; packed ones must end in .gz"


def tfrecord(paths: Paths, *, check: bool = True) -> BlockSource:
    """Records of TFRecord files, as bytes, from one file after the other; `af.io.parse_example` reads them.

    Both checksums of a record are checked before it is given. To start at a later record those before it
    are read, and only their lengths checked.

    Args:
        paths: A path, a pattern, or several; gzip where the name ends in `.gz`.
        check: False leaves out the checksum of the data, which takes most of the time; that of the length
            is always checked, since what follows depends on it.
    """
    files = files_of("tfrecord", paths)
    return BlockSource(name_source("tfrecord", files), partial(_blocks, files, bool(check)))


def mask(crc: int) -> int:
    """Returns a checksum as it stands in the file."""
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def frame_record(data: bytes) -> bytes:
    """Returns the record of some bytes, as it stands in a file."""
    length = _LENGTH.pack(len(data))
    return b"".join(
        [length, mask(crc32c(length)).to_bytes(4, "little"), data, mask(crc32c(data)).to_bytes(4, "little")]
    )


def _blocks(files: tuple[str, ...], check: bool, start: int) -> Blocks:
    ordinal = 0
    for path in files:
        stream = open_stream(path)
        try:
            for begin, data, starts, ends in _spans(stream, ordinal):
                first = max(0, start - ordinal)
                # To start at a later record those before it are read, and only their lengths checked.
                if first < len(starts):
                    yield from _check_records(
                        stream, begin, data, starts[first:], ends[first:], ordinal + first, check
                    )
                ordinal += len(starts)
        finally:
            stream.close()


def _check_records(
    stream: ByteStream, begin: int, data: bytes, starts: list[int], ends: list[int], ordinal: int, check: bool
) -> Iterator[list[bytes]]:
    """The records up to the first whose data is not what its checksum says, then the error."""
    good, wanted, found = _agreeing(data, starts, ends) if check else (len(starts), 0, 0)
    if good:
        # ORDER: those before a damaged record are given first.
        yield [data[a:b] for a, b in zip(starts[:good], ends[:good], strict=True)]
    if good < len(starts):
        raise _mismatch(stream, "data", ordinal + good, begin + starts[good], wanted, found)


def _spans(stream: ByteStream, ordinal: int) -> Iterator[tuple[int, bytes, list[int], list[int]]]:
    """Yields pieces of whole records: offset in the file, bytes, and where the data of each begins and ends.

    The checksums of their lengths are right, so nothing is read, or kept, for a length that is not.
    """
    held, begin = b"", 0  # what has been read and not yielded, and its offset
    wanted = READ_BYTES
    while True:
        piece = stream.read(wanted)
        held += piece
        # As if all lengths were right: their checksums are then checked all at once.
        starts, ends = _walk(held)
        good, says, is_ = _agreeing_heads(held, [at - 12 for at in starts])
        if good:
            yield begin, held, starts[:good], ends[:good]
        ordinal += good
        if good < len(starts):
            # Nothing is read, or kept, for a length that is not what its checksum says.
            raise _mismatch(stream, "length", ordinal, begin + starts[good] - 12, says, is_)
        used = ends[-1] + 4 if ends else 0
        held, begin = held[used:], begin + used
        missing = _missing(stream, held, ordinal, begin)
        if not missing and not piece:
            return
        rest = stream.rest
        # More than can come: told now, without reading so much.
        if missing and (not piece or (rest is not None and missing > rest)):
            rule = "a record with its head of 12 bytes"
            if len(held) >= 12:
                rule = f"a record of {_LENGTH.unpack_from(held)[0]} bytes"
            found = f"the end of the file {len(held) + (rest or 0)} bytes after its start"
            raise stream_error(stream, rule, found, at=f"element {ordinal}", byte=begin, hint=_HINT)
        # A record larger than a piece is read as a whole.
        wanted = max(missing, READ_BYTES)


def _walk(data: bytes) -> tuple[list[int], list[int]]:
    """Where the data of each whole record begins and ends, if all lengths are right."""
    starts, ends = [], []
    at, last = 12, len(data) - 4
    length_at = _LENGTH.unpack_from
    while at <= last:
        end = at + length_at(data, at - 12)[0]
        if end > last:
            break
        starts.append(at)
        ends.append(end)
        # The checksum of the data, and the next head.
        at = end + 16
    return starts, ends


def _missing(stream: ByteStream, held: bytes, ordinal: int, begin: int) -> int:
    """How many bytes the record lacks that has been begun; 0 if none has been."""
    if len(held) < 12:
        return 12 - len(held) if held else 0
    good, says, found = _agreeing_heads(held, [0])
    if not good:
        raise _mismatch(stream, "length", ordinal, begin, says, found)
    return int(_LENGTH.unpack_from(held)[0]) + 16 - len(held)


def _agreeing_heads(data: bytes, starts: list[int]) -> tuple[int, int, int]:
    """How many heads, of 12 bytes each, have the right checksum, up to one that has not; as `_agreeing`."""
    if not starts:
        return 0, 0, 0
    heads = np.frombuffer(data, np.uint8)[np.array(starts)[:, None] + np.arange(12)]
    return _compare_heads(crc32c_rows(heads[:, :8]), np.ascontiguousarray(heads[:, 8:]).view("<u4")[:, 0])


def _agreeing(data: bytes, starts: list[int], ends: list[int]) -> tuple[int, int, int]:
    """How many messages have the checksum behind them, up to one that has not: what that says, and is."""
    view, end = np.frombuffer(data, np.uint8), np.array(ends)
    stored = np.ascontiguousarray(view[end[:, None] + np.arange(4)]).view("<u4")[:, 0]
    return _compare_heads(crc32c_each(view, np.array(starts), end), stored)


def _compare_heads(sums: Sums, says: Sums) -> tuple[int, int, int]:
    found = (sums >> np.uint32(15) | sums << np.uint32(17)) + np.uint32(0xA282EAD8)
    wrong = np.flatnonzero(found != says)
    if not len(wrong):
        return len(sums), 0, 0
    first = int(wrong[0])
    return first, int(says[first]), int(found[first])


def _mismatch(stream: ByteStream, of: str, ordinal: int, byte: int, says: int, found: int) -> InputError:
    rule = f"the checksum {says:#010x} of its {of}"
    return stream_error(stream, rule, f"{found:#010x}", at=f"element {ordinal}", byte=byte, hint=_HINT)
