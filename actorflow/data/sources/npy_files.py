"""Arrays that numpy saved, one a file.

Nothing is ever unpickled. Source: numpy.lib.format, versions 1.0 to 3.0.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from actorflow.data.sources.block_reader import Blocks, BlockSource
from actorflow.data.sources.byte_stream import READ_BYTES, ByteStream, fault, open_stream, stream_error
from actorflow.data.sources.fixed_size import ElementLayout, check_length, file_blocks, row_bytes, rows_of
from actorflow.data.sources.paths import Paths, files_of, name_source
from actorflow.data.sources.side_by_side import SideBySideSource, read_side_by_side
from actorflow.errors import InputError

HEADER_BYTES = 10_000
"""The longest header that is read, as in numpy: parsing it costs more than its length."""

_MAGIC = b"\x93NUMPY"
RESAVE = "save it again with np.save"
_KEYS = {"descr", "fortran_order", "shape"}


@dataclass(frozen=True, slots=True)
class NpyHeader:
    """What the header of an npy file says.

    Attributes:
        dtype: As it lies in the file.
        shape: With the number of elements first.
        fortran: Whether the first axis runs fastest.
        layout: Where the elements are.
    """

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    fortran: bool
    layout: ElementLayout


def npy(paths: Paths | Mapping[str, Paths]) -> BlockSource | SideBySideSource:
    """Rows of saved arrays, from one file after the other; their dtypes and row shapes must be equal.

    A row of an array with more than one axis is an array of its own; one of an array with one axis is a
    numpy scalar. Plain files are opened at any row; of packed ones the rows before it are read and
    dropped. An array in Fortran order is mapped into memory: it must not be cut while it is read.

    Args:
        paths: A path, a pattern, or several; gzip where the name ends in `.gz`. Or a dict of such: then
            elements are dicts of the rows that have the same number.
    """
    if isinstance(paths, Mapping):
        return read_side_by_side("npy", paths, _one)
    return _one(paths)


def _one(paths: Paths) -> BlockSource:
    files = files_of("npy", paths)
    headers: list[NpyHeader] = []
    for path in files:
        stream = open_stream(path)
        try:
            saved = header_of(stream)
            # What stands in the header is checked before anything is made of it.
            check_length(stream, saved.layout)
            # The rows of such an array are spread over the file: it has to be mapped, which a packed one
            # cannot be.
            if saved.fortran and stream.size is None:
                raise fortran(stream)
        finally:
            stream.close()
        if headers and (saved.dtype, saved.shape[1:]) != (headers[0].dtype, headers[0].shape[1:]):
            rule = f"rows as in {files[0]!r}, {headers[0].dtype} {headers[0].shape[1:]}"
            raise fault(repr(path), rule, f"{saved.dtype} {saved.shape[1:]}", hint="read them as two sources")
        headers.append(saved)
    return BlockSource(
        name_source("npy", files),
        partial(_blocks, tuple(zip(files, headers, strict=True))),
        sum(saved.shape[0] for saved in headers),
        headers[0].layout.row_bytes,
    )


# ------------------------------------------------------------------------------------- header


def header_of(stream: ByteStream) -> NpyHeader:
    """Reads the header of an npy file; the stream stands at its start, and behind it at the first row."""
    begin = stream.read(8)
    if begin[:6] != _MAGIC:
        raise stream_error(stream, f"the magic {_MAGIC!r} of npy", repr(begin[:6]), byte=0, hint=RESAVE)
    version = tuple(begin[6:])
    if version not in {(1, 0), (2, 0), (3, 0)}:
        raise stream_error(
            stream, "version 1.0, 2.0 or 3.0 of npy", ".".join(map(str, version)) or "its end", byte=6
        )
    # The length takes two bytes in version 1.0, four later.
    size = 2 if version == (1, 0) else 4
    raw = stream.read(size)
    length = int.from_bytes(raw, "little")
    # Parsing a header costs more than its length: no longer one than numpy reads.
    if len(raw) < size or length > HEADER_BYTES:
        found = f"{length}" if len(raw) == size else "the end of the file"
        raise stream_error(
            stream, f"the length of a header, at most {HEADER_BYTES}", found, byte=8, hint=RESAVE
        )
    text = stream.read(length)
    if len(text) < length:
        raise stream_error(
            stream, f"a header of {length} bytes", f"{len(text)} and the end of the file", hint=RESAVE
        )
    dtype, shape, fortran = _parse_header(stream, text, "utf-8" if version == (3, 0) else "latin-1")
    return _check(stream, dtype, shape, fortran)


def _parse_header(
    stream: ByteStream, text: bytes, encoding: str
) -> tuple[np.dtype[Any], tuple[int, ...], bool]:
    at = stream.offset - len(text)
    try:
        with warnings.catch_warnings():  # of Python, about what it finds odd in the literal
            warnings.simplefilter("ignore")
            # A literal, never code.
            said = ast.literal_eval(text.decode(encoding))
            if not isinstance(said, dict) or set(said) != _KEYS:
                message = f"{said!r:.200}"
                raise ValueError(message)  # noqa: TRY301  told with the others below
            dtype = np.lib.format.descr_to_dtype(said["descr"])
    # Whatever a damaged header makes `literal_eval` or numpy raise.
    except Exception as cause:
        rule = f"a header with {', '.join(sorted(_KEYS))}"
        raise stream_error(
            stream, rule, f"{text[:200]!r} ({type(cause).__name__})", byte=at, hint=RESAVE
        ) from cause
    shape, fortran = said["shape"], said["fortran_order"]
    sizes = shape if isinstance(shape, tuple) else (None,)
    if not isinstance(fortran, bool) or not all(type(n) is int and n >= 0 for n in sizes):
        raise stream_error(
            stream, "a shape of sizes, and an order", f"{shape!r} and {fortran!r}", byte=at, hint=RESAVE
        )
    return dtype, shape, fortran


def _check(stream: ByteStream, dtype: np.dtype[Any], shape: tuple[int, ...], fortran: bool) -> NpyHeader:
    """Refuses arrays that have no rows to read."""
    # Objects are pickles, which can run anything.
    if dtype.hasobject:
        hint = "they are pickles, which can run anything: save numbers, or bytes with dtype='S'"
        raise stream_error(stream, "numbers, text or bytes", f"objects, {dtype}", hint=hint)
    if not shape:
        raise stream_error(
            stream, "an array with at least one axis", f"one value, {dtype}", hint="its rows are the elements"
        )
    size = row_bytes(dtype, shape[1:])
    if size == 0:
        raise stream_error(
            stream, "rows that hold something", f"{dtype} {shape}", hint="a row of it has no bytes"
        )
    # With one axis the order makes no difference.
    return NpyHeader(dtype, shape, fortran and len(shape) > 1, ElementLayout(size, shape[0], stream.offset))


def fortran(stream: ByteStream) -> InputError:
    """Returns the error of an array whose rows are not one after the other."""
    hint = "save np.ascontiguousarray(x), or an npy file that is not packed"
    return stream_error(stream, "rows one after the other", "an array in Fortran order", hint=hint)


# --------------------------------------------------------------------------------------- rows


def _blocks(files: tuple[tuple[str, NpyHeader], ...], start: int) -> Blocks:
    ordinal = 0
    for path, saved in files:
        first = max(0, start - ordinal)
        if saved.fortran and first < saved.shape[0]:
            yield from _memory_map(path, saved, first)
        elif first < max(saved.shape[0], 1):  # one without rows has an end to look at
            make = partial(rows_of, saved.dtype, saved.shape[1:])
            yield from file_blocks(path, saved.layout, make, first, ordinal)
        ordinal += saved.shape[0]


def _memory_map(path: str, saved: NpyHeader, first: int) -> Blocks:
    """The rows of an array in Fortran order."""
    stream = open_stream(path)
    try:
        check_length(stream, saved.layout)
    finally:
        stream.close()
    offset = saved.layout.offset
    # Mapped, since a row is spread over all of the file.
    mapped = np.asarray(np.memmap(path, saved.dtype, "r", offset, saved.shape, order="F"))
    each = max(1, READ_BYTES // saved.layout.row_bytes)
    for at in range(first, saved.shape[0], each):
        # Made of the map by copying: rows must not depend on the file any more.
        yield rows_of(saved.dtype, saved.shape[1:], np.ascontiguousarray(mapped[at : at + each]).tobytes())
