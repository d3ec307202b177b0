"""Kernels of `ops.text.records`: one record an element, one array a column. For no card."""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from actorflow.kernels.definition.registry import kernel
from actorflow.kernels.text import records_protobuf
from actorflow.kernels.text.encoding import numbers, reader
from actorflow.kernels.text.strings import from_attribute
from actorflow.kernels.text.strings_each import columns_of_each, cost
from actorflow.values.arrays import Array, DType, as_dtype


def _outputs(made: tuple[Array, ...]) -> Array | tuple[Array, ...]:
    return made[0] if len(made) == 1 else made


@kernel("parse_csv", only="numpy", cost=cost)
def parse_csv(
    x: Array, *, dtypes: tuple[str, ...], defaults: tuple[str | None, ...], delimiter: str
) -> Array | tuple[Array, ...]:
    """The cells of each record, a column an output."""
    to = [as_dtype(name) for name in dtypes]
    # The fast way first: it is taken back when any record is wrong, and the slow one says which.
    whole = _columns(x.reshape(-1).tolist(), to, defaults, delimiter)
    if whole is not None:
        return _outputs(tuple(column.reshape(x.shape) for column in whole))
    cells = [_cell(k, dtype, default) for k, (dtype, default) in enumerate(zip(to, defaults, strict=True))]

    def values(record: bytes) -> list[Any]:
        found = _fields(record, delimiter)
        if len(found) != len(cells):
            message = f"it has {len(found)} cells and not {len(cells)}"
            raise ValueError(message)
        return [read(text) for read, text in zip(cells, found, strict=True)]

    return _outputs(columns_of_each("parse_csv", x, values, [(dtype, ()) for dtype in to]))


_RECORDS = 4096  # that are taken apart at a time: Python's collector never sees many lists alive


def _columns(
    records: list[bytes], to: Sequence[DType], defaults: Sequence[str | None], delimiter: str
) -> list[Array] | None:
    """All columns at once; None unless every record can be read, for that says which cannot.

    200,000 records of one float take 0.8 s so, 3.6 s record by record (on a busy machine; of csv and
    float alone 0.36).
    """
    cells: list[list[str]] = [[] for _ in to]
    for start in range(0, len(records), _RECORDS):
        rows = _rows(records[start : start + _RECORDS], delimiter)
        # Every record must have every cell.
        if rows is None or set(map(len, rows)) != {len(to)}:
            return None
        for column, more in zip(cells, zip(*rows, strict=True), strict=True):
            column.extend(more)
    made = [_column(*column) for column in zip(cells, to, defaults, strict=True)]
    return None if any(column is None for column in made) else made


def _rows(records: list[bytes], delimiter: str) -> list[list[str]] | None:
    """The cells of each record, None unless each is one."""
    # A character a byte: latin-1 maps all 256, and back again.
    lines = [record.decode("latin-1") for record in records]
    joined = "".join(lines)
    # The common case has no ends of lines, which one search of all tells.
    if "\n" in joined or "\r" in joined:
        lines = list(map(_without_end, lines))
        if any(line.endswith(("\n", "\r")) for line in lines):
            return None  # the reader would pass over more than one end
    try:
        rows = list(csv.reader(lines, delimiter=delimiter, doublequote=True, strict=True))
    except csv.Error:
        return None
    if len(rows) != len(lines):  # a quote that is not closed takes the next record in
        return None
    # The csv reader gives no cells for an empty line, which is one empty cell.
    return rows if all(rows) else [row or [""] for row in rows]


def _column(texts: list[str], to: DType, default: str | None) -> Array | None:
    """The cells of one column; None when one is empty and has no default, or is no number of that dtype."""
    if "" in texts:
        if default is None:
            return None
        texts = [text or default for text in texts]
    if to.kind != "O":
        return numbers(texts, to)
    made = np.empty(len(texts), to)
    made[:] = [text.encode("latin-1") for text in texts]
    return made


def _without_end(line: str) -> str:
    """A line without its end, LF or CR LF, of which there may be one."""
    return line.removesuffix("\n").removesuffix("\r")


def _fields(record: bytes, delimiter: str) -> list[bytes]:
    """The cells of a record by RFC 4180; one end of line may stand behind it."""
    text = _without_end(record.decode("latin-1"))  # a character a byte, and back below
    if text.endswith(("\n", "\r")):
        message = "more than one end of line stands behind it"
        raise ValueError(message)
    try:
        rows = list(csv.reader([text], delimiter=delimiter, doublequote=True, strict=True))
    except csv.Error as error:
        message = f"it is no record of comma-separated values: {error}"
        raise ValueError(message) from None
    return [cell.encode("latin-1") for cell in (rows[0] if rows else [""])] or [b""]


def _cell(k: int, dtype: DType, default: str | None) -> Callable[[bytes], Any]:
    """What reads column `k`."""
    number = None if dtype.kind == "O" else reader(dtype)

    def read(text: bytes) -> Any:
        if not text:
            if default is None:
                message = f"column {k} is empty and has no default"
                raise ValueError(message)
            text = from_attribute(default)
        if number is None:
            return text
        try:
            return number(text)
        except (ValueError, OverflowError) as error:
            message = f"column {k} is no {dtype.name}: {error}"
            raise ValueError(message) from None

    return read


@kernel("parse_example", only="numpy", cost=cost)
def parse_example(
    x: Array,
    *,
    names: tuple[str, ...],
    dtypes: tuple[str, ...],
    shapes: tuple[tuple[int, ...], ...],
    defaults: tuple[tuple[Any, ...] | None, ...],
) -> Array | tuple[Array, ...]:
    """The features of each Example, one an output."""
    to = [as_dtype(name) for name in dtypes]
    wanted = list(zip(names, to, shapes, map(_read_default, to, defaults), strict=True))

    def values(record: bytes) -> list[Any]:
        # The record is read once for all features.
        found = records_protobuf.example(record)
        return [_feature(found.get(name), name, d, shape, default) for name, d, shape, default in wanted]

    return _outputs(columns_of_each("parse_example", x, values, list(zip(to, shapes, strict=True))))


def _read_default(dtype: DType, default: tuple[Any, ...] | None) -> list[Any] | None:
    if default is None:
        return None
    return [from_attribute(v) for v in default] if dtype.kind == "O" else list(default)


def _feature(
    found: tuple[str, Sequence[Any]] | None,
    name: str,
    dtype: DType,
    shape: tuple[int, ...],
    default: list[Any] | None,
) -> Any:
    """The values of one feature as an array of its shape, or as the one value that it is."""
    kind, values = found if found is not None else ("", [])
    # No values count as missing, unless the shape asks for none and the feature is there.
    if not values and (found is None or 0 not in shape):
        if default is None:
            message = f"feature {name!r} is missing"
            raise ValueError(message)
        values = default
    # An empty kind says nothing about its type: a Feature may be empty.
    elif kind and as_dtype(kind) != dtype:
        message = f"feature {name!r} is of {kind}"
        raise ValueError(message)
    if len(values) != prod(shape):
        message = f"feature {name!r} has {len(values)} values and not {prod(shape)}"
        raise ValueError(message)
    if not shape:
        return values[0]
    made = np.empty(len(values), dtype)
    made[:] = values
    return made.reshape(shape)
