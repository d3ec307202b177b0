"""Takes a value apart into the atoms of a header and the memory of a body.

See `transport.codec.message_codec`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import is_dataclass
from enum import Enum
from typing import Any

import numpy as np

from actorflow.errors import ActorflowError, CannotTravel, show_value
from actorflow.transport.codec.bfloat16 import FLOAT32, NARROW_BYTES, narrow
from actorflow.transport.codec.failures import chain
from actorflow.transport.codec.registry import BY_TYPE, HOW, misfit
from actorflow.transport.codec.types import (
    ALIGN,
    APART,
    ATOMS,
    CODES,
    DTYPES,
    MAX_INTEGER_BYTES,
    MAX_RANK,
    NATIVE,
    ROW_LEVELS,
    ZEROS,
    Buffer,
    Lossy,
    MessageLimits,
    TypeCode,
)
from actorflow.values.arrays import BYTES, NAMES, Array

_LONG = 512  # bytes from which bytes leave the header: they are then copied once less


class Encoder:
    """Takes one value apart.

    Attributes:
        tokens: The header.
        parts: The body.
        size: Bytes of the body.
    """

    __slots__ = ("_limits", "_lossy", "_plain", "_wide", "parts", "size", "tokens")

    def __init__(self, limits: MessageLimits, lossy: Lossy | None = None, *, wide: bool = False) -> None:
        self.tokens: list[Any] = []
        self.parts: list[Buffer] = []
        self.size = 0
        self._limits = limits
        self._lossy = lossy
        self._wide = wide  # whether integers may be larger than msgpack holds
        self._plain = _PLAIN_WIDE if wide else _PLAIN

    def value(self, value: Any, depth: int) -> None:
        """Writes one value of any kind."""
        kind = type(value)
        if kind in self._plain:
            self.tokens += (_ATOM, value)
        elif kind in ATOMS:
            self._atom(value)
        elif kind is np.ndarray or kind is np.memmap:
            self._array(value)
        elif kind in _NESTED or kind in BY_TYPE or isinstance(value, ActorflowError):
            if depth == self._limits.depth:
                message = f"values may be nested {depth} deep, got more"
                raise CannotTravel(message, hint="does a list or dict hold itself?")
            self._nested(kind, value, depth + 1)
        elif isinstance(value, np.generic) and value.dtype in CODES:
            self.tokens += (TypeCode.SCALAR, CODES[value.dtype], value.tobytes())
        else:
            raise _refusal(value)

    def _nested(self, kind: type, value: Any, depth: int) -> None:
        if kind is list:
            self._list(value, depth)
        elif kind is tuple:
            self._values(TypeCode.TUPLE, value, depth)
        elif kind is dict:
            self._dict(value, depth)
        elif (entry := BY_TYPE.get(kind)) is not None:
            fields = entry.values(value)
            if wrong := misfit(entry, fields):
                raise CannotTravel(wrong)
            if self._plain.issuperset(map(type, fields)):
                self.tokens += (_PLAIN_RECORD, entry.name, len(fields), *fields)
                return
            self.tokens += (TypeCode.RECORD, entry.name, len(fields))
            for field in fields:
                self.value(field, depth)
        else:
            self.tokens.append(TypeCode.ERROR)
            self.value(chain(value), depth)

    def _atom(self, value: Any) -> None:
        if self._wide and type(value) is int and not -(2**63) <= value < 2**64:
            length = value.bit_length() // 8 + 1
            if length > MAX_INTEGER_BYTES:
                message = f"an integer that travels has {MAX_INTEGER_BYTES} bytes at most, got {length}"
                raise CannotTravel(message, hint="send its bytes")
            self.tokens += (TypeCode.INTEGER, value.to_bytes(length, "little", signed=True))
        elif type(value) is bytes and len(value) >= _LONG:
            self.tokens += (TypeCode.BYTES, len(value))
            self._raw((value,), len(value))
        else:
            self.tokens += (TypeCode.ATOM, value)

    def _array(self, array: Array) -> None:
        code = CODES.get(array.dtype)
        self._room(array.nbytes // 2 if self._lossy else array.nbytes)
        if self._lossy and _narrows(array):
            self.tokens += (TypeCode.NARROW, array.ndim, *array.shape)
            self._raw((narrow(array).view(_BYTE),), array.nbytes // 2)
        elif code is not None:
            if array.flags.c_contiguous or (axes := _as_they_lie(array)) is None:
                self.tokens += (_ARRAY, code, array.ndim, *array.shape)
            else:
                array = array.transpose(axes)
                back = sorted(range(array.ndim), key=axes.__getitem__)
                self.tokens += (TypeCode.TURNED, code, array.ndim, *array.shape, *back)
            self._raw((_memory(array),), array.nbytes)
        else:
            self._bytes_array(array)

    def _bytes_array(self, array: Array) -> None:
        elements = array.reshape(-1).tolist() if array.dtype == BYTES else [None]
        if not set(map(type, elements)) <= {bytes}:
            raise _refusal(array)
        self.tokens += (TypeCode.BYTES_ARRAY, array.ndim, *array.shape, *elements)

    def _list(self, rows: list[Any], depth: int, levels: int = 0) -> None:
        if len(rows) < 2 or not self._rows(rows, depth, levels):
            self._values(TypeCode.LIST, rows, depth)

    def _values(self, kind: TypeCode, values: Sequence[Any], depth: int) -> None:
        self.tokens += (kind, len(values))
        for value in values:
            self.value(value, depth)

    def _dict(self, value: dict[Any, Any], depth: int) -> None:
        self.tokens += (TypeCode.DICT, len(value))
        for key, inner in value.items():
            self._key(key)
            self.value(inner, depth)

    def _key(self, key: Any) -> None:
        if type(key) not in ATOMS or key != key:  # NaN is not the key it was
            message = f"keys of dicts that travel are text, bytes or numbers, got {show_value(key)}"
            raise CannotTravel(message)
        self._atom(key) if type(key) is int else self.tokens.extend((TypeCode.ATOM, key))

    # -------------------------------------------------------------------------- by columns

    def _rows(self, rows: list[Any], depth: int, levels: int) -> bool:
        """Writes two rows or more by columns, where they have one structure; else tells that they do not.

        They are a column of a column and so on, `levels` times; see `ROW_LEVELS`.
        """
        kinds = set(map(type, rows))
        if len(kinds) > 1:
            return kinds <= ATOMS and not self._wide and bytes not in kinds and self._atom_rows(rows)
        (kind,) = kinds
        if kind is np.ndarray:
            return self._array_rows(rows)
        if kind is tuple or kind is dict:
            if depth == self._limits.depth or levels == ROW_LEVELS:
                return False  # too deep is said where it is
            by_columns = self._tuple_rows if kind is tuple else self._dict_rows
            return by_columns(rows, depth + 1, levels + 1)
        if kind is bytes:
            return self._bytes_rows(rows)
        if kind in ATOMS:
            return not (self._wide and kind is int) and self._atom_rows(rows)
        return issubclass(kind, np.generic) and self._scalar_rows(rows)

    def _atom_rows(self, rows: list[Any]) -> bool:
        self.tokens += (TypeCode.ATOM_ROWS, len(rows), *rows)
        return True

    def _bytes_rows(self, rows: list[bytes]) -> bool:
        lengths = list(map(len, rows))
        size = sum(lengths)
        self._room(size)
        self.tokens += (TypeCode.BYTES_ROWS, len(rows), *lengths)
        self._raw(rows if size >= len(rows) * APART else (b"".join(rows),), size)
        return True

    def _array_rows(self, rows: list[Array]) -> bool:
        first = rows[0]
        dtype, shape, n = first.dtype, first.shape, len(rows)
        code = CODES.get(dtype)
        # A row without memory could claim any number of its kind, so these are written one by one.
        if code is None or not first.nbytes or not all(r.shape == shape and r.dtype == dtype for r in rows):
            return False
        if (self._lossy and _narrows(first)) or len(shape) == MAX_RANK:  # all rows are one array
            return False
        self._room(n * first.nbytes)
        self.tokens += (TypeCode.ARRAY_ROWS, n, code, len(shape), *shape)
        if first.nbytes < APART and shape and code < NATIVE:  # numpy joins in its own byte order alone
            self._raw((_memory(np.concatenate(rows)),), n * first.nbytes)
        else:
            self._raw([_memory(row) for row in rows], n * first.nbytes)
        return True

    def _scalar_rows(self, rows: list[Any]) -> bool:
        code = CODES.get(rows[0].dtype)
        if code is None:
            return False
        self.tokens += (TypeCode.SCALAR_ROWS, len(rows), code)
        column = np.array(rows, DTYPES[code])
        self._raw((_memory(column),), column.nbytes)
        return True

    def _tuple_rows(self, rows: list[Any], depth: int, levels: int) -> bool:
        width = len(rows[0])
        if not width or set(map(len, rows)) != {width}:
            return False
        self.tokens += (TypeCode.TUPLE_ROWS, len(rows), width)
        for column in zip(*rows, strict=True):
            self._list(list(column), depth, levels)
        return True

    def _dict_rows(self, rows: list[Any], depth: int, levels: int) -> bool:
        keys = tuple(rows[0])
        if not keys or any(tuple(row) != keys for row in rows):
            return False
        if not all(type(key) is str for key in keys):  # 1, 1.0 and True are equal, and not the same
            return False
        self.tokens += (TypeCode.DICT_ROWS, len(rows), len(keys))
        for key in keys:
            self._key(key)
            self._list([row[key] for row in rows], depth, levels)
        return True

    def _room(self, length: int) -> None:
        """Refuses, before it is copied, memory that no message has room for: an array may be a broadcast."""
        if self.size + length > self._limits.frame_bytes:
            raise too_large(self.size + length, self._limits)

    def _raw(self, parts: Sequence[Buffer], length: int) -> None:
        """Adds memory that belongs together, at the next multiple of 16 bytes."""
        if length:
            if pad := -self.size % ALIGN:
                self.parts.append(ZEROS[:pad])
            self.parts += parts
            self.size += pad + length


_ATOM = TypeCode.ATOM.value  # to look it up in the enum each time would cost 0.1 µs
_ARRAY = TypeCode.ARRAY.value
_PLAIN_RECORD = TypeCode.PLAIN_RECORD.value
_PLAIN_WIDE = frozenset({type(None), bool, float, str})  # what is always an atom of its own
_PLAIN = _PLAIN_WIDE | {int}
_BYTE = np.dtype(np.uint8)
_NESTED = frozenset({tuple, list, dict})


def _narrows(array: Array) -> bool:
    return bool(array.dtype == FLOAT32 and array.nbytes >= NARROW_BYTES)


def _as_they_lie(array: Array) -> list[int] | None:
    """The axes of an array with the largest steps first; None when that is their order, or none is clear."""
    long = [axis for axis, d in enumerate(array.shape) if d > 1]
    steps = {axis: abs(array.strides[axis]) for axis in long}
    order = sorted(long, key=lambda axis: -steps[axis])
    if order == long or not all(steps.values()):  # steps of 0: the same elements again and again
        return None
    return order + [axis for axis in range(array.ndim) if axis not in steps]


def _memory(array: Array) -> Buffer:
    """The bytes of an array in C order, copied only where they lie otherwise, or are few."""
    if array.nbytes < APART:
        return array.tobytes()  # of 64 bytes in 0.07 µs, of 4 KiB in 0.14; a view takes 0.3
    return array.ravel().view(_BYTE)  # memoryview knows no bfloat16


def too_large(size: int, limits: MessageLimits) -> CannotTravel:
    """The error for a message of at least so many bytes."""
    message = f"a message may have {limits.frame_bytes} bytes, got {size}"
    return CannotTravel(message, hint="send less at a time")


def _refusal(value: Any) -> CannotTravel:
    """The error for a value of a kind that no message holds."""
    kind = type(value)
    if isinstance(value, np.ndarray | np.generic):
        what = (
            f"an array of dtype {value.dtype}" if value.ndim or kind is np.ndarray else f"a {kind.__name__}"
        )
        if type(value) not in (np.ndarray, np.memmap) and isinstance(value, np.ndarray):
            return CannotTravel(f"a {kind.__name__} cannot travel", hint="make a plain array of it")
        if value.dtype == BYTES:
            return CannotTravel(
                "an array of objects cannot travel", hint="bytes are the only objects in arrays"
            )
        text = "text is sent as str or bytes; " if value.dtype.kind in "SU" else ""
        return CannotTravel(f"{what} cannot travel", hint=f"{text}the dtypes are {', '.join(NAMES)}, bytes")
    if is_dataclass(kind) or isinstance(value, Enum):
        return CannotTravel(f"{kind.__module__}.{kind.__qualname__} is not registered to travel", hint=HOW)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    base = next(
        (b.__name__ for b in (dict, tuple, list, int, float, str, bytes) if issubclass(kind, b)), None
    )
    hint = (
        f"make a plain {base} of it"
        if base
        else "arrays, numbers, text and bytes travel, and tuples, lists and dicts of them"
    )
    return CannotTravel(f"a value of type {name} cannot travel", hint=hint)
