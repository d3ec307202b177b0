"""Arrays in the idx format, in which MNIST and Fashion-MNIST come.

A file is 0, 0, the type, the number of axes, the sizes as big-endian uint32, then the values in C order,
big-endian. Source: Y. LeCun, "The MNIST database of handwritten digits", file formats.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from actorflow.data.sources.block_reader import Blocks, BlockSource
from actorflow.data.sources.byte_stream import ByteStream, fault, open_stream, stream_error
from actorflow.data.sources.fixed_size import ElementLayout, check_length, file_blocks, row_bytes, rows_of
from actorflow.data.sources.paths import Paths, files_of, name_source
from actorflow.data.sources.side_by_side import SideBySideSource, read_side_by_side

_TYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
_File = tuple[str, np.dtype[Any], tuple[int, ...], ElementLayout]
_HINT = "is it packed? then its name must end in .gz; or it is no idx file"


def idx(paths: Paths | Mapping[str, Paths]) -> BlockSource | SideBySideSource:
    """Rows of arrays in idx files, from one file after the other; their types and row shapes must be equal.

    Plain files are opened at any row; of packed ones the rows before it are read and dropped.

    Args:
        paths: A path, a pattern, or several; gzip where the name ends in `.gz`. Or a dict of such: then
            elements are dicts of the rows that have the same number.
    """
    if isinstance(paths, Mapping):
        return read_side_by_side("idx", paths, _one)
    return _one(paths)


def _one(paths: Paths) -> BlockSource:
    files = files_of("idx", paths)
    found: list[_File] = []
    for path in files:
        # Headers are read now: what is wrong is told where the pipeline is written, and the size is known.
        stream = open_stream(path)
        try:
            dtype, shape, layout = _header(stream)
            check_length(stream, layout)
        finally:
            stream.close()
        if found and (dtype, shape) != found[0][1:3]:
            rule = f"rows as in {files[0]!r}, {found[0][1].name} {found[0][2]}"
            raise fault(repr(path), rule, f"{dtype.name} {shape}", hint="read them as two sources")
        found.append((path, dtype, shape, layout))
    size = sum(layout.count or 0 for *_, layout in found)
    return BlockSource(name_source("idx", files), partial(_blocks, tuple(found)), size, found[0][3].row_bytes)


def _header(stream: ByteStream) -> tuple[np.dtype[Any], tuple[int, ...], ElementLayout]:
    """Reads a header: dtype, shape of a row, and where the rows are."""
    magic = stream.read(4)
    if len(magic) < 4 or magic[:2] != b"\0\0" or magic[2] not in _TYPES:
        types = ", ".join(f"{code:#04x}" for code in _TYPES)
        raise stream_error(
            stream, f"the magic of idx, 0 0 and one of {types}", repr(magic), byte=0, hint=_HINT
        )
    axes = magic[3]
    if axes == 0:
        raise stream_error(stream, "an array with at least one axis", "one without", byte=3)
    raw = stream.read(4 * axes)
    if len(raw) < 4 * axes:
        raise stream_error(
            stream,
            f"the sizes of {axes} axes",
            f"{len(raw)} bytes and the end of the file",
            byte=4,
            hint=_HINT,
        )
    count, *inner = np.frombuffer(raw, ">u4").tolist()
    dtype = np.dtype(_TYPES[magic[2]])
    shape = tuple(inner)
    size = row_bytes(dtype, shape)
    if size == 0:
        raise stream_error(stream, "rows that hold something", f"sizes {(count, *shape)}", byte=4)
    if len(shape) >= 32:
        raise stream_error(stream, "at most 32 axes", f"{axes}", byte=3)
    return dtype, shape, ElementLayout(size, count, stream.offset)


def _blocks(files: tuple[_File, ...], start: int) -> Blocks:
    ordinal = 0
    for path, dtype, shape, layout in files:
        count = layout.count or 0
        if start < ordinal + max(count, 1):  # one without rows has an end to look at
            make = partial(rows_of, dtype, shape)
            yield from file_blocks(path, layout, make, max(0, start - ordinal), ordinal)
        ordinal += count
