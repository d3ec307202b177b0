"""Elements that all take the same bytes, one after the other: what npy, idx and plain records share.

A plain file is read from any element on. A packed one is read forward, and its fault shows when it is
reached.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any

import numpy as np

from actorflow.data.sources.block_reader import Blocks, BlockSource
from actorflow.data.sources.byte_stream import READ_BYTES, ByteStream, open_stream, stream_error
from actorflow.data.sources.paths import Paths, files_of, name_source
from actorflow.errors import ConfigError
from actorflow.values.checks import is_whole

_CUT = "the file is cut, or not what its name says; fetch or write it again"


@dataclass(frozen=True, slots=True)
class ElementLayout:
    """How elements lie in a file.

    Attributes:
        row_bytes: What an element takes; positive.
        count: How many there are; None: as many as come.
        offset: Where the first begins.
        trailer: Bytes after the last.
    """

    row_bytes: int
    count: int | None
    offset: int
    trailer: int = 0


def whole_numbers(source: str, **given: Any) -> None:
    """Raises ConfigError for what is no integer, or below 0."""
    for name, value in given.items():
        if not is_whole(value, 0, plain=True):
            message = f"{source} takes {name} as an integer, 0 or more, got {value!r}"
            raise ConfigError(message)


def check_length(stream: ByteStream, layout: ElementLayout) -> None:
    """Raises InputError for a file of known size that is not as long as its layout says."""
    # A packed file tells its length at its end only.
    if stream.size is None or layout.count is None:
        return
    # Before anything is read: a file that does not fit its header is refused as a whole.
    expected = layout.offset + layout.count * layout.row_bytes + layout.trailer
    if stream.size == expected:
        return
    inside = (stream.size - layout.offset) // layout.row_bytes
    rule = f"{expected} bytes, for {layout.count} elements of {layout.row_bytes} behind {layout.offset}"
    hint = _CUT if stream.size < expected else "something follows the array: one array a file is read"
    at = f"element {max(0, inside)}" if stream.size < expected else None
    raise stream_error(
        stream, rule, f"{stream.size} bytes", at=at, byte=min(stream.size, expected), hint=hint
    )


def pieces(stream: ByteStream, layout: ElementLayout, first: int, ordinal: int) -> Iterator[bytes]:
    """Yields the bytes of whole elements from number `first` of the file on; then the fault, if there is one.

    Args:
        stream: The file, at its start or somewhere before element `first`.
        layout: How elements lie in it.
        first: The element of the file to begin with.
        ordinal: The number in the source of the file's first element.
    """
    stream.skip(layout.offset + first * layout.row_bytes - stream.offset)
    # As many elements as make a piece, but one at least.
    each = max(1, READ_BYTES // layout.row_bytes)
    at = first
    while layout.count is None or at < layout.count:
        wanted = each if layout.count is None else min(each, layout.count - at)
        begun = stream.offset
        data = stream.read(wanted * layout.row_bytes)
        got, left = divmod(len(data), layout.row_bytes)
        # The whole elements before a cut are given; then it is told.
        if got:
            yield data[: got * layout.row_bytes] if left else data
        at += got
        if got < wanted:
            # As many as come, and none is cut: that is the end.
            if layout.count is None and not left:
                return
            raise stream_error(
                stream,
                f"an element of {layout.row_bytes} bytes",
                f"{left} bytes and the end of the file",
                at=f"element {ordinal + at}",
                byte=begun + got * layout.row_bytes,
                hint=_CUT,
            )
    end = stream.offset
    stream.skip(layout.trailer)
    if more := stream.read(1):  # here gzip checks its sum as well
        raise stream_error(stream, "the end of the file", f"more, from {more!r} on", byte=end)


def file_blocks(
    path: str, layout: ElementLayout, make: Callable[[bytes], list[Any]], first: int, ordinal: int
) -> Blocks:
    """The blocks of one file from its element number `first` on; its first in all is number `ordinal`."""
    stream = open_stream(path)
    try:
        check_length(stream, layout)
        for data in pieces(stream, layout, first, ordinal):
            yield make(data)
    finally:
        stream.close()


def rows_of(dtype: np.dtype[Any], shape: tuple[int, ...], data: bytes) -> list[Any]:
    """Returns the rows of a piece in the byte order of this machine; each owns its memory."""
    block = np.frombuffer(data, dtype).reshape(-1, *shape)
    native = dtype.newbyteorder("=")
    # In the byte order of this machine: what comes out is computed with.
    if native != dtype:
        block = block.astype(native)
    if shape or dtype.names is not None or dtype.kind == "V":
        # Each owns its memory, so that one in a shuffle buffer does not keep its neighbours.
        return [row.copy() for row in block]
    return list(block)


def row_bytes(dtype: np.dtype[Any], shape: tuple[int, ...]) -> int:
    """Returns what a row takes, exactly, however large the sizes are."""
    return dtype.itemsize * prod(shape)


def records(paths: Paths, record_bytes: int, *, header_bytes: int = 0, footer_bytes: int = 0) -> BlockSource:
    """Records of a fixed length, as bytes, from one file after the other.

    Plain files are opened at any record; of packed ones the records before it are read and dropped.

    Args:
        paths: A path, a pattern, or several; gzip where the name ends in `.gz`.
        record_bytes: What a record takes.
        header_bytes: What each file has before the first record.
        footer_bytes: What each file has behind the last; not with gzip, whose length shows at its end only.
    """
    whole_numbers("records", record_bytes=record_bytes, header_bytes=header_bytes, footer_bytes=footer_bytes)
    if record_bytes < 1:
        message = f"records takes record_bytes from 1 on, got {record_bytes}"
        raise ConfigError(message)
    files = files_of("records", paths)
    layouts = tuple((path, _layout(path, record_bytes, header_bytes, footer_bytes)) for path in files)
    counts = [layout.count for _, layout in layouts]
    known = [count for count in counts if count is not None]
    name = name_source("records", files)
    # One of unknown length, and no record can be found by its number.
    if len(known) < len(counts):
        return BlockSource(name, partial(_forward, layouts), None, record_bytes)
    return BlockSource(name, partial(_anywhere, layouts), sum(known), record_bytes)


def _layout(path: str, record_bytes: int, header_bytes: int, footer_bytes: int) -> ElementLayout:
    stream = open_stream(path)
    try:
        if stream.size is None:
            if footer_bytes:
                message = f"records takes footer_bytes for plain files only, got {footer_bytes} for {path!r}"
                raise ConfigError(message, hint="unpack the file")
            return ElementLayout(record_bytes, None, header_bytes)
        # Refused now, before anything is read.
        inside = stream.size - header_bytes - footer_bytes
        count, left = divmod(inside, record_bytes)
        if inside < 0 or left:
            raise stream_error(
                stream,
                f"whole records of {record_bytes} bytes between {header_bytes} and {footer_bytes} others",
                f"{stream.size} bytes, so {left} are left over" if inside >= 0 else f"{stream.size} bytes",
                at=f"record {max(0, count)}",
                byte=stream.size - footer_bytes - left if inside >= 0 else stream.size,
                hint="look at record_bytes, header_bytes and footer_bytes; or the file is cut",
            )
        return ElementLayout(record_bytes, count, header_bytes, footer_bytes)
    finally:
        stream.close()


def _split(size: int, data: bytes) -> list[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)]


def _anywhere(layouts: tuple[tuple[str, ElementLayout], ...], start: int) -> Blocks:
    """The blocks of files that tell their number of records at once."""
    ordinal = 0
    for path, layout in layouts:
        count = layout.count or 0
        if start < ordinal + count:
            make = partial(_split, layout.row_bytes)
            yield from file_blocks(path, layout, make, max(0, start - ordinal), ordinal)
        ordinal += count


def _forward(layouts: tuple[tuple[str, ElementLayout], ...], start: int) -> Blocks:
    """The blocks of files some of which tell their number of records at their end only."""
    ordinal = 0
    for path, layout in layouts:
        stream = open_stream(path)
        try:
            # Packed: a header that is not there shows when it is passed over.
            if stream.skip(layout.offset) < layout.offset:
                raise stream_error(
                    stream, f"a header of {layout.offset} bytes", "the end of the file", hint=_CUT
                )
            check_length(stream, layout)
            for data in pieces(stream, layout, 0, ordinal):
                found = _split(layout.row_bytes, data)
                first = max(0, start - ordinal)
                if first < len(found):
                    yield found[first:] if first else found
                ordinal += len(found)
        finally:
            stream.close()
