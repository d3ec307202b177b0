"""Kernels of `ops.records`: one record an element, one array a column. For no card."""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from actorflow.arrays import Array, DType, as_dtype
from actorflow.kernels import protobuf
from actorflow.kernels.each import columns_of_each, cost
from actorflow.kernels.encoding import reader
from actorflow.kernels.registry import kernel
from actorflow.kernels.text import from_attribute


def _outputs(made: tuple[Array, ...]) -> Array | tuple[Array, ...]:
    return made[0] if len(made) == 1 else made


@kernel("parse_csv", only="numpy", cost=cost)
def parse_csv(
    x: Array, *, dtypes: tuple[str, ...], defaults: tuple[str | None, ...], delimiter: str
) -> Array | tuple[Array, ...]:
    """The cells of each record, a column an output."""
    to = [as_dtype(name) for name in dtypes]
    cells = [_cell(k, dtype, default) for k, (dtype, default) in enumerate(zip(to, defaults, strict=True))]

    def values(record: bytes) -> list[Any]:
        found = _fields(record, delimiter)
        if len(found) != len(cells):
            message = f"it has {len(found)} cells and not {len(cells)}"
            raise ValueError(message)
        return [read(text) for read, text in zip(cells, found, strict=True)]

    return _outputs(columns_of_each("parse_csv", x, values, [(dtype, ()) for dtype in to]))


def _fields(record: bytes, delimiter: str) -> list[bytes]:
    """The cells of a record by RFC 4180; one end of line may stand behind it."""
    text = record.decode("latin-1")  # a character a byte, and back below
    text = text.removesuffix("\n").removesuffix("\r")
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
        found = protobuf.example(record)
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
    if not values and (found is None or 0 not in shape):
        if default is None:
            message = f"feature {name!r} is missing"
            raise ValueError(message)
        values = default
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
