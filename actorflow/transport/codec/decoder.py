"""Puts a value together from the atoms of a header and the memory of a body.

See `transport.codec.message_codec`.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from actorflow.errors import ActorflowError, WireError
from actorflow.transport.codec.bfloat16 import FLOAT32, HALF, widen
from actorflow.transport.codec.failures import rebuild_error
from actorflow.transport.codec.registry import entry_of, make_record
from actorflow.transport.codec.types import (
    ALIGN,
    ATOMS,
    BOOL,
    DTYPES,
    MAX_ARRAY,
    MAX_INTEGER_BYTES,
    MAX_RANK,
    NATIVE,
    ROW_LEVELS,
    Buffer,
    MessageLimits,
    TypeCode,
)
from actorflow.values.arrays import BYTES, Array, name_of


class Decoder:
    """Puts one value together; every count is checked against what is left before it is believed."""

    __slots__ = ("_at", "_frame", "_levels", "_limits", "_n", "_offset", "_stop", "_tokens")

    def __init__(
        self, tokens: list[Any], frame: Buffer, body: int, stop: int, limits: MessageLimits, at: int = 0
    ) -> None:
        self._tokens = tokens
        self._n = len(tokens)
        self._at = at
        self._frame = frame
        self._offset = body  # into the frame, at a multiple of ALIGN
        self._stop = stop
        self._levels = 0  # rows of tuples or dicts whose column is read, one in one
        self._limits = limits

    def value(self, depth: int) -> Any:
        """Reads the next value."""
        at, tokens = self._at, self._tokens
        if at + 1 < self._n and type(kind := tokens[at]) is int and kind == 0:
            self._at = at + 2  # an atom, as most values are: in 0.24 µs and not 0.42
            return tokens[at + 1]
        kind = self._integer("a kind", _LAST)
        if _NESTS <= kind < _FLAT and depth >= self._limits.depth:
            message = f"values may be nested {self._limits.depth} deep, got more"
            raise WireError(message)
        return _READERS[kind](self, depth + 1)

    def finish(self) -> None:
        """Raises unless header and body are used up."""
        if self._at != self._n or self._offset != self._stop:
            left = (self._n - self._at, self._stop - self._offset)
            message = f"a frame must end with its value, got {left[0]} atoms and {left[1]} bytes more"
            raise WireError(message)

    # ---------------------------------------------------------------------- pieces of both

    def _token(self, what: str, kinds: frozenset[type]) -> Any:
        if self._at == self._n:
            message = f"the header ends where {what} must stand"
            raise WireError(message)
        token = self._tokens[self._at]
        if type(token) not in kinds:
            message = f"the header must have {what} here, got {token!r:.60}"
            raise WireError(message)
        self._at += 1
        return token

    def _integer(self, what: str, most: int) -> int:
        at = self._at
        if at < self._n and type(found := self._tokens[at]) is int and 0 <= found <= most:
            self._at = at + 1
            return found
        message = f"{what} must be in 0..{most}, got {self._token(what, _INT)}"
        raise WireError(message)

    def _count(self, what: str) -> int:
        """A number of things that take an atom each, at least."""
        return self._integer(what, self._n - self._at - 1)

    def _some(self, what: str) -> list[Any]:
        """So many atoms as the next one says."""
        n = self._count(what)
        self._at += n
        return self._tokens[self._at - n : self._at]

    def _shape(self, itemsize: int, most: int = MAX_RANK) -> tuple[int, ...]:
        rank = self._integer("a rank", most)
        shape = tuple(self._tokens[self._at : self._at + rank])
        if len(shape) < rank:
            message = f"the header ends where {rank} dimensions must stand"
            raise WireError(message)
        for d in shape:
            if type(d) is not int or not 0 <= d <= MAX_ARRAY:
                message = f"a dimension must be in 0..{MAX_ARRAY}, got {d!r:.60}"
                raise WireError(message)
        self._at += rank
        if (prod(shape) or prod(d or 1 for d in shape)) * itemsize > MAX_ARRAY:
            message = f"no array has shape {shape}"
            raise WireError(message)
        return shape

    def _bytes_left(self) -> int:
        """The bytes of the body that are not read."""
        return self._stop - self._offset

    def _memory(self, length: int) -> int:
        """Where in the frame the next `length` bytes of the body begin."""
        start = self._offset + (-self._offset % ALIGN if length else 0)
        if length > self._stop - start:
            message = f"the body has {max(0, self._stop - start)} bytes left where {length} are announced"
            raise WireError(message)
        self._offset = start + length
        return start

    def _piece(self, length: int) -> memoryview:
        """The next `length` bytes of the body."""
        start = self._memory(length)
        return memoryview(self._frame)[start : start + length]

    def _numbers(self, code: int, shape: tuple[int, ...]) -> Array:
        dtype = DTYPES[code]
        length = prod(shape) * dtype.itemsize
        start = self._memory(length)
        if not length:
            return np.empty(shape, dtype)
        made = np.ndarray(shape, dtype, self._frame, start)
        if code == BOOL and (most := made.view(np.uint8).max()) > 1:
            message = f"a bool is 0 or 1, got {most}"
            raise WireError(message)
        return made

    # ---------------------------------------------------------------------- one value each

    def _atom(self, _depth: int) -> Any:
        return self._token("a value", ATOMS)

    def _wide(self, _depth: int) -> int:
        found = self._token("an integer", _BYTES)
        if len(found) > MAX_INTEGER_BYTES:
            message = f"an integer has {MAX_INTEGER_BYTES} bytes at most, got {len(found)}"
            raise WireError(message)
        return int.from_bytes(found, "little", signed=True)

    def _bytes(self, _depth: int) -> bytes:
        return bytes(self._piece(self._integer("a length", self._bytes_left())))

    def _array(self, _depth: int) -> Array:
        code = self._integer("a dtype", len(DTYPES) - 1)
        return self._numbers(code, self._shape(DTYPES[code].itemsize))

    def _turned(self, _depth: int) -> Array:
        code = self._integer("a dtype", len(DTYPES) - 1)
        shape = self._shape(DTYPES[code].itemsize)
        axes = [self._integer("an axis", len(shape) - 1) for _ in shape]
        if len(set(axes)) < len(axes):
            message = f"an array has each of its axes once, got {axes}"
            raise WireError(message)
        return self._numbers(code, shape).transpose(axes)

    def _narrow(self, _depth: int) -> Array:
        shape = self._shape(FLOAT32.itemsize)
        n = prod(shape)
        start = self._memory(n * HALF.itemsize)
        upper = np.ndarray(n, HALF, self._frame, start) if n else np.empty(0, HALF)
        return widen(upper).reshape(shape)

    def _scalar(self, _depth: int) -> Any:
        dtype = DTYPES[code := self._integer("a dtype", NATIVE - 1)]
        memory = self._token("a scalar", _BYTES)
        if len(memory) != dtype.itemsize or (code == BOOL and memory > b"\1"):
            message = f"a scalar of {name_of(dtype)} has {dtype.itemsize} bytes, got {memory!r:.60}"
            raise WireError(message)
        return np.frombuffer(memory, dtype)[0]

    def _bytes_array(self, _depth: int) -> Array:
        shape = self._shape(BYTES.itemsize)
        n = prod(shape)
        if n > self._n - self._at:
            message = f"an array of shape {shape} has {n} elements, got {self._n - self._at} atoms"
            raise WireError(message)
        made = np.empty(n, BYTES)
        for i in range(n):
            made[i] = self._token("bytes", _BYTES)
        return made.reshape(shape)

    def _list(self, depth: int) -> list[Any]:
        return [self.value(depth) for _ in range(self._count("a length"))]

    def _tuple(self, depth: int) -> tuple[Any, ...]:
        return tuple(self._list(depth))

    def _dict(self, depth: int) -> dict[Any, Any]:
        n = self._count("a length")
        made = {self._key(depth): self.value(depth) for _ in range(n)}
        return self._complete(made, n)

    def _key(self, depth: int) -> Any:
        kind = self._integer("the kind of a key", TypeCode.INTEGER)
        key = self._wide(depth) if kind else self._token("a key", ATOMS)
        if key != key:  # NaN: a second one would stand beside it
            raise WireError("a key of a dict must equal itself, got NaN")
        return key

    def _record(self, depth: int) -> Any:
        entry = entry_of(self._token("the name of a record", _TEXT))
        return make_record(entry, [self.value(depth) for _ in range(self._count("a number of fields"))])

    def _plain_record(self, _depth: int) -> Any:
        return make_record(
            entry_of(self._token("the name of a record", _TEXT)), self._some("a number of fields")
        )

    def _error(self, depth: int) -> ActorflowError:
        return rebuild_error(self.value(depth))

    def _complete(self, made: dict[Any, Any], n: int) -> dict[Any, Any]:
        if len(made) != n:
            message = f"a dict must have {n} keys, got {len(made)} that differ"
            raise WireError(message)
        return made

    # ---------------------------------------------------------------------------- rows

    def _atom_rows(self, _depth: int) -> list[Any]:
        return self._some("a number of rows")

    def _bytes_rows(self, _depth: int) -> list[bytes]:
        lengths = self._some("a number of rows")
        if not set(map(type, lengths)) <= _INT or (lengths and min(lengths) < 0):
            raise WireError("lengths of rows must be integers of at least 0")
        memory = self._piece(sum(lengths))
        made, at = [], 0
        for length in lengths:
            made.append(bytes(memory[at : at + length]))
            at += length
        return made

    def _array_rows(self, _depth: int) -> list[Array]:
        n = self._integer("a number of rows", self._bytes_left())
        code = self._integer("a dtype", len(DTYPES) - 1)
        shape = self._shape(DTYPES[code].itemsize, MAX_RANK - 1)
        if not prod(shape):
            message = f"rows must have elements, got shape {shape}"
            raise WireError(message)
        whole = self._numbers(code, (n, *shape))
        return list(whole) if shape else [whole[i, ...] for i in range(n)]

    def _scalar_rows(self, _depth: int) -> list[Any]:
        n = self._integer("a number of rows", self._bytes_left())
        return list(self._numbers(self._integer("a dtype", NATIVE - 1), (n,)))

    def _tuple_rows(self, depth: int) -> list[tuple[Any, ...]]:
        n = self._integer("a number of rows", self._most())
        width = self._width()
        return list(zip(*(self._column(n, depth) for _ in range(width)), strict=True))

    def _dict_rows(self, depth: int) -> list[dict[str, Any]]:
        n = self._integer("a number of rows", self._most())
        width = self._width()
        columns = {self._key(depth): self._column(n, depth) for _ in range(width)}
        keys = tuple(self._complete(columns, width))
        return [dict(zip(keys, row, strict=True)) for row in zip(*columns.values(), strict=True)]

    def _most(self) -> int:
        """How many rows what is left could hold: an atom or a byte each."""
        return self._n + self._bytes_left()

    def _width(self) -> int:
        width = self._count("a width")
        if not width:
            raise WireError("rows must have a column, got none")
        return width

    def _column(self, n: int, depth: int) -> list[Any]:
        outer = self._levels
        self._levels = outer + 1 if self._tokens[self._at : self._at + 1] in _NESTED else 0
        if self._levels == ROW_LEVELS:
            message = f"rows by columns may be nested {ROW_LEVELS} deep, got more"
            raise WireError(message)
        column = self.value(depth)
        self._levels = outer
        if type(column) is not list or len(column) != n:
            got = f"{len(column)} values" if type(column) is list else type(column).__name__
            message = f"a column of {n} rows must be a list of as many, got {got}"
            raise WireError(message)
        return column


_INT = frozenset({int})
_BYTES = frozenset({bytes})
_TEXT = frozenset({str})
_LAST = len(TypeCode) - 1
_NESTS, _FLAT = TypeCode.LIST.value, TypeCode.NARROW.value
_NESTED = ([TypeCode.TUPLE_ROWS], [TypeCode.DICT_ROWS])
_READERS: tuple[Callable[[Decoder, int], Any], ...] = tuple(
    getattr(Decoder, f"_{'wide' if kind is TypeCode.INTEGER else kind.name.lower()}") for kind in TypeCode
)
