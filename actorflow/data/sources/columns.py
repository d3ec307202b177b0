"""Columns of text: of which dtype each is, and how its fields become values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from actorflow.errors import ConfigError, InternalError
from actorflow.values.arrays import as_dtype, convert_numbers, name_of

_TRUTH = {"true": True, "false": False, "1": True, "0": False}
UNFIT = (ValueError, OverflowError)
"""What a field raises that is no value of its column."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column of the file.

    Attributes:
        name: As elements call it.
        place: Its number in a row.
        dtype: Of its values; of kind O: bytes.
        parse: (text) -> its value; ValueError for what is none.
    """

    name: str
    place: int
    dtype: np.dtype[Any]
    parse: Callable[[str], Any]


def columns_of(
    names: tuple[str, ...], dtypes: Any, missing: Any, texts: tuple[str, ...], encoding: str
) -> tuple[Column, ...]:
    """Returns the columns to be read, from what the user says of them; see `csv`."""
    by_name = dict(dtypes) if isinstance(dtypes, Mapping) else dict.fromkeys(names, dtypes)
    absent = dict(missing) if isinstance(missing, Mapping) else dict.fromkeys(names, missing)
    for given, what in ((by_name, "dtypes"), (absent, "missing")):
        if unknown := [name for name in given if name not in names]:
            message = f"csv has no column {', '.join(map(repr, unknown))}, named in {what}"
            raise ConfigError(message, hint=f"it has {', '.join(map(repr, names))}")
    # A column that was forgotten must not be read as something.
    if forgotten := [name for name in names if name not in by_name]:
        message = f"csv needs the dtype of every column, got none for {', '.join(map(repr, forgotten))}"
        raise ConfigError(message, hint="None leaves a column out: dtypes={..., 'id': None}")
    # None leaves a column out.
    kept = [(place, name) for place, name in enumerate(names) if by_name[name] is not None]
    if not kept:
        message = "csv needs at least one column to read, got None for all of them"
        raise ConfigError(message)
    made = []
    for place, name in kept:
        try:
            dtype = as_dtype(by_name[name])
        except (TypeError, ValueError):
            message = f"csv takes a dtype for column {name!r}, got {by_name[name]!r}"
            raise ConfigError(message) from None
        parse = _parser(dtype, encoding)
        value = absent.get(name)
        if value is not None:
            # Only where the user says so: else an empty field is an error, or empty bytes.
            parse = partial(_or_missing, parse, frozenset(texts), _fitting(name, value, dtype))
        made.append(Column(name, place, dtype, parse))
    return tuple(made)


def _fitting(name: str, value: Any, dtype: np.dtype[Any]) -> Any:
    """The value of missing fields as its column holds it; ConfigError unless it can."""
    if dtype.kind == "O":
        if isinstance(value, bytes):
            return value
    else:
        try:
            found = convert_numbers(value, dtype)
            if not found.shape:
                return found[()]
        except (TypeError, ValueError, OverflowError):
            pass  # told below
    message = f"csv takes a {name_of(dtype)} for what is missing in column {name!r}, got {value!r}"
    raise ConfigError(message)


def _or_missing(parse: Callable[[str], Any], texts: frozenset[str], value: Any, text: str) -> Any:
    return value if text in texts else parse(text)


def _parser(dtype: np.dtype[Any], encoding: str) -> Callable[[str], Any]:
    match dtype.kind:
        case "O":
            return partial(str.encode, encoding=encoding)
        case "b":
            return _truth
        case "i" | "u":
            return int
        case "c":
            return complex
    return float


def _truth(text: str) -> bool:
    found = _TRUTH.get(text.strip().lower())
    if found is None:
        raise ValueError
    return found


def values_of(column: Column, texts: Sequence[str]) -> Any:
    """Returns the fields of a column as an array, or a list of bytes; raises one of `UNFIT`."""
    values = list(map(column.parse, texts))
    if column.dtype.kind == "O":
        return values
    with np.errstate(over="ignore"):  # a float too large is infinite, as in a cast
        return np.array(values, column.dtype)


def first_unfit(rows: list[list[str]], columns: tuple[Column, ...]) -> tuple[int, Column]:
    """Returns the first row that has a field that is no value, and its column."""
    # Row by row, now that it is known that one is wrong.
    for number, row in enumerate(rows):
        for column in columns:
            try:
                values_of(column, [row[column.place]])
            except UNFIT:
                return number, column
    message = "a block of rows cannot be read though each of its rows can"
    raise InternalError(message)


def one_of(dtype: np.dtype[Any]) -> str:
    """Returns how an error speaks of a value: `an int32`."""
    name = name_of(dtype)
    return f"an {name}" if name[0] in "aeiou" and not name.startswith("uint") else f"a {name}"
