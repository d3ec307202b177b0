"""Rows of CSV files: named columns, each of its own dtype.

Python's `csv` takes the lines apart, some hundred rows at once are turned into columns, and these into
numbers.
"""

from __future__ import annotations

import csv as python_csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from actorflow.data.sources.block_reader import Blocks, BlockSource, dicts_of
from actorflow.data.sources.byte_stream import READ_BYTES, ByteStream, open_stream, stream_error
from actorflow.data.sources.columns import UNFIT, Column, columns_of, first_unfit, one_of, values_of
from actorflow.data.sources.paths import Paths, files_of, name_source
from actorflow.data.sources.text_lines import check_encoding, undecodable, whole_lines
from actorflow.errors import ConfigError, InputError
from actorflow.values.arrays import name_of

ROWS = 1024
"""Rows that are turned into columns at once; a block is at most so many, and about READ_BYTES of the file."""

_MARK = b"\xef\xbb\xbf"  # what some programs write in front of UTF-8


@dataclass(frozen=True, slots=True)
class CsvFormat:
    """How the files are written, and what is read of them."""

    header: tuple[str, ...] | None
    width: int
    columns: tuple[Column, ...]
    as_array: bool
    delimiter: str
    quotechar: str
    encoding: str


def csv(
    paths: Paths,
    *,
    dtypes: Any = "float32",
    names: Sequence[str] | None = None,
    header: bool = True,
    missing: Any = None,
    missing_texts: Sequence[str] = ("",),
    as_array: bool = False,
    delimiter: str = ",",
    quotechar: str = '"',
    encoding: str = "utf-8",
) -> BlockSource:
    r"""Rows of CSV files, from one file after the other: dicts of numpy scalars, and of bytes.

    Empty lines are no rows. Every row has as many fields as there are names. To start at a later row those
    before it are read and dropped.

    Args:
        paths: A path, a pattern, or several; gzip where the name ends in `.gz`.
        dtypes: One dtype for all columns, or one for each by its name, where None leaves the column out.
            "bytes" gives the text in `encoding`; numbers are read as Python reads them; bool is true,
            false, 1 or 0.
        names: Names of the columns; None: those of the header.
        header: Whether the first line of each file is a header; all files must have the same.
        missing: What a field without a value becomes: one value for all columns, or values by name. None:
            such a field is an error, unless its column is of bytes.
        missing_texts: What a field without a value looks like.
        as_array: Whether a row is one array of its columns, which must have one dtype of numbers.
        delimiter: What stands between fields, one character.
        quotechar: What stands around a field that holds delimiters, line ends or, doubled, itself.
        encoding: How bytes become text; a byte order mark of UTF-8 is passed over.
    """
    # ORDER: what is wrong without looking at a file first.
    encoding = check_encoding("csv", encoding)
    texts = _as_tuple("missing_texts", missing_texts)
    said = None if names is None else _as_tuple("names", names)
    marks: dict[str, Any] = {"delimiter": delimiter, "quotechar": quotechar}
    for name, value in marks.items():
        if not isinstance(value, str) or len(value) != 1 or value in "\r\n":
            message = f"csv takes one character as {name}, got {value!r}"
            raise ConfigError(message)
    if delimiter == quotechar:
        message = f"csv needs a delimiter that is no quotechar, got {delimiter!r} for both"
        raise ConfigError(message)
    files = files_of("csv", paths)
    plain = CsvFormat(None, 0, (), False, delimiter, quotechar, encoding)
    # Read now: a wrong header is told where the pipeline is written.
    first = _header(files[0], plain) if header else None
    called = first if said is None else said
    if called is None:
        message = "csv needs names=[...] where header=False"
        raise ConfigError(message)
    if first is not None and len(first) != len(called):
        message = f"csv takes the {len(first)} names that {files[0]!r} has columns, got {len(called)}"
        raise ConfigError(message, hint=f"it has {', '.join(map(repr, first))}")
    if len(set(called)) < len(called) or not called:
        message = f"csv needs columns with different names, at least one, got {', '.join(map(repr, called))}"
        raise ConfigError(message, hint="say them by names=[...]")
    columns = columns_of(called, dtypes, missing, texts, encoding)
    width = None
    if as_array:
        kinds = {column.dtype for column in columns}
        if len(kinds) > 1 or columns[0].dtype.kind == "O":
            told = ", ".join(f"{column.name!r} {name_of(column.dtype)}" for column in columns)
            message = f"csv makes one array of columns of one dtype of numbers, got {told}"
            raise ConfigError(message, hint="leave as_array out, or give them one dtype")
    # Bytes have no fixed size: then the size of a row is not known.
    if all(column.dtype.kind != "O" for column in columns):
        width = sum(column.dtype.itemsize for column in columns)
    form = CsvFormat(first, len(called), columns, bool(as_array), delimiter, quotechar, encoding)
    return BlockSource(name_source("csv", files), partial(_blocks, files, form), None, width)


def _as_tuple(name: str, value: Any) -> tuple[str, ...]:
    """Returns several texts as a tuple; ConfigError for one text, whose letters nobody means."""
    # The letters of one text are nobody's columns.
    several = isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping)
    found = tuple(value) if several else ()
    if not several or not all(isinstance(each, str) for each in found):
        message = f"csv takes {name} as a list of texts, got {value!r:.80}"
        raise ConfigError(message, hint=f"{name}=[{value!r}]" if isinstance(value, str) else None)
    return found


# --------------------------------------------------------------------------------------- rows


class _Lines:
    """The lines of a file as text, with the number and the offset of what has been taken."""

    __slots__ = ("_encoding", "_stream", "number", "offset")

    def __init__(self, stream: ByteStream, encoding: str) -> None:
        self._stream = stream
        self._encoding = encoding
        self.number = 0
        self.offset = 0

    def __iter__(self) -> Iterator[str]:
        for _, data in whole_lines(self._stream):
            for line in data.splitlines(keepends=True):
                # A byte order mark is no part of the first name.
                raw = line.removeprefix(_MARK) if self.number == 0 and self._encoding == "utf-8" else line
                try:
                    text = raw.decode(self._encoding)
                except UnicodeError as cause:
                    # ORDER: counted when it has been decoded, so the place is that of this line.
                    number = self.number + 1
                    raise undecodable(
                        self._stream, number, self.offset, raw, self._encoding, cause
                    ) from cause
                self.number += 1
                self.offset += len(line)
                yield text


class _Rows:
    """The rows of a file that are not empty, each with the line and the offset where it begins."""

    __slots__ = ("_form", "_lines", "_reader", "_stream")

    def __init__(self, stream: ByteStream, form: CsvFormat) -> None:
        self._stream = stream
        self._form = form
        self._lines = _Lines(stream, form.encoding)
        self._reader = python_csv.reader(
            self._lines, delimiter=form.delimiter, quotechar=form.quotechar, strict=True
        )

    def next(self) -> tuple[list[str], tuple[int, int]] | None:
        """Returns a row and its place, None at the end."""
        lines = self._lines
        while True:
            # A quoted field may hold line ends: a row begins where the one before ended.
            place = lines.number + 1, lines.offset
            try:
                row = next(self._reader)
            except StopIteration:
                return None
            except python_csv.Error as cause:
                hint = "look at its quotes, at delimiter= and quotechar="
                if "limit" in str(cause):
                    hint += "; csv.field_size_limit(n) raises the limit"
                raise self.error_at(place, "a row of CSV", f"{cause}", hint) from cause
            # An empty line is no row.
            if row:
                return row, place

    def error_at(self, place: tuple[int, int], rule: str, found: str, hint: str | None = None) -> InputError:
        """Returns the error of the row that begins at a place."""
        return stream_error(self._stream, rule, found, at=f"line {place[0]}", byte=place[1], hint=hint)


def _header(path: str, form: CsvFormat) -> tuple[str, ...]:
    stream = open_stream(path)
    try:
        found = _Rows(stream, form).next()
        if found is None:
            raise stream_error(stream, "a header", "an empty file", hint="say names=[...] and header=False")
        return tuple(found[0])
    finally:
        stream.close()


def _blocks(files: tuple[str, ...], form: CsvFormat, start: int) -> Blocks:
    ordinal = 0
    for path in files:
        stream = open_stream(path)
        try:
            source = _Rows(stream, form)
            if form.header is not None:
                _check_header(source, files[0], form)
            more = True
            while more:
                rows, places, error = _take_rows(source, form.width)
                first = max(0, start - ordinal)
                if first < len(rows):
                    yield from _elements(source, rows[first:], places[first:], ordinal + first, form)
                if error is not None:
                    # ORDER: what stands before the fault is given first.
                    raise error
                ordinal += len(rows)
                more = bool(rows)
        finally:
            stream.close()


def _check_header(source: _Rows, first: str, form: CsvFormat) -> None:
    found = source.next()
    told = tuple(found[0]) if found else ()
    if told != form.header:
        rule = f"the header of {first!r}, {form.header}"
        raise source.error_at((1, 0), rule, f"{told}", "all files need one header")


def _take_rows(source: _Rows, width: int) -> tuple[list[list[str]], list[tuple[int, int]], InputError | None]:
    """Takes the next rows; with an error those before it."""
    rows: list[list[str]] = []
    places: list[tuple[int, int]] = []
    try:
        # By number and by bytes: rows may be long.
        while len(rows) < ROWS and (not rows or places[-1][1] - places[0][1] < READ_BYTES):
            found = source.next()
            if found is None:
                break
            row, place = found
            if len(row) != width:
                rule = f"{width} fields"
                hint = "quote fields that hold the delimiter; names= says what there is"
                raise source.error_at(place, rule, f"{len(row)}: {row!r:.200}", hint)
            rows.append(row)
            places.append(place)
    except InputError as error:
        return rows, places, error
    return rows, places, None


def _elements(
    source: _Rows, rows: list[list[str]], places: list[tuple[int, int]], ordinal: int, form: CsvFormat
) -> Iterator[list[Any]]:
    """The elements of rows up to the first that cannot be one, then its error."""
    texts = list(zip(*rows, strict=True))
    columns = []
    # Whole columns at once; a fault is then looked for row by row.
    try:
        columns = [values_of(column, texts[column.place]) for column in form.columns]
    except UNFIT:
        bad, column = first_unfit(rows, form.columns)
        if bad:
            yield from _elements(source, rows[:bad], places[:bad], ordinal, form)
        rule = f"{one_of(column.dtype)} in column {column.name!r}"
        hint = "missing= says what an empty field becomes" if not rows[bad][column.place].strip() else None
        found = f"{rows[bad][column.place]!r:.100} (element {ordinal + bad})"
        raise source.error_at(places[bad], rule, found, hint) from None
    if form.as_array:
        # Each row owns its memory: a view would keep the whole block.
        yield [row.copy() for row in np.stack(columns, axis=1)]
        return
    yield dicts_of([column.name for column in form.columns], columns)
