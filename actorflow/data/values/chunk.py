"""Elements on their way: a few at a time, each with its number.

The number of an element says where it comes from: its epoch, and its ordinal there. Both are in one
int, so that a chunk is two lists and a shuffle moves two things. A stage that makes new elements
(batch, flat_map) numbers what it makes from 0 in every epoch of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Any

import numpy as np

from actorflow.values.arrays import NDArray, content_bytes

CHUNK = 64
"""Elements that a stage takes at once: with 16 a cheap stage takes 1.3 times as long, with 256 as long."""

_NBYTES = attrgetter("nbytes")
_HAS_OBJECTS = attrgetter("dtype.hasobject")
_BITS = 40
_ORDINAL = (1 << _BITS) - 1


class Chunk:
    """Elements and their numbers, equally many; nobody changes the lists once they are in a chunk."""

    __slots__ = ("_bytes", "numbers", "values")

    def __init__(self, values: list[Any], numbers: list[int]) -> None:
        self.values = values
        self.numbers = numbers
        self._bytes = -1

    def __len__(self) -> int:
        return len(self.values)

    @property
    def bytes(self) -> int:
        """Bytes of the elements, counted once."""
        if self._bytes < 0:
            self._bytes = nbytes(self.values)
        return self._bytes


def number(epoch: int, ordinal: int) -> int:
    """Returns the number of an element."""
    return (epoch << _BITS) | ordinal


def epoch_of(number: int) -> int:
    """Returns the epoch of the element with this number."""
    return number >> _BITS


def ordinal_of(number: int) -> int:
    """Returns the ordinal of the element with this number in its epoch."""
    return number & _ORDINAL


def places(numbers: list[int]) -> tuple[list[int], list[int]]:
    """Returns the epochs of elements, and their ordinals there."""
    epoch = numbers[0] >> _BITS
    # The last one first, which tells for nearly all chunks without looking at the others.
    if numbers[-1] >> _BITS == epoch and max(numbers) >> _BITS == min(numbers) >> _BITS:
        first = epoch << _BITS  # nearly always: chunks that mix epochs come from a shuffle behind a repeat
        return [epoch] * len(numbers), [number - first for number in numbers]
    return list(map(epoch_of, numbers)), list(map(ordinal_of, numbers))


def numbers(epoch: int, start: int, count: int) -> list[int]:
    """Returns the numbers of `count` elements of an epoch, from ordinal `start` on."""
    first = number(epoch, start)
    return list(range(first, first + count))


def nbytes(values: Sequence[Any]) -> int:
    """Returns the bytes of elements: their arrays, text and numbers, not what Python adds to them.

    An array of bytes objects counts what they hold. Elements of one structure are counted by columns.
    Cost: 110 ns for an array, half of it to see that it holds no objects; a tuple or dict of two costs
    1 µs where one element is looked at after the other.
    """
    try:
        # 1. Arrays and numbers of numpy: two passes of C over them.
        if not any(map(_HAS_OBJECTS, values)):
            return sum(map(_NBYTES, values))
    except (AttributeError, TypeError):  # not all are arrays or numbers of numpy
        pass
    kinds = set(map(type, values))
    try:
        # 2. Of one structure: by columns, each of which is as in 1.
        if kinds == {tuple}:
            return sum(map(nbytes, zip(*values, strict=True)))
        if kinds == {dict} and set(map(len, values)) == {len(values[0])}:
            return sum(nbytes([value[key] for value in values]) for key in values[0])
    except (ValueError, KeyError):  # of different structures
        pass
    # 3. One after the other.
    return sum(map(size_of, values))


def size_of(value: Any) -> int:
    """Returns the bytes of one element, see `nbytes`."""
    kind = type(value)
    if kind is NDArray:
        return content_bytes(value) if value.dtype.hasobject else int(value.nbytes)
    if kind is dict or isinstance(value, dict):
        return sum(map(size_of, value.values()))
    size = getattr(value, "nbytes", None)
    if isinstance(size, int | np.integer):
        return max(0, int(size))
    if isinstance(value, tuple | list):
        return sum(map(size_of, value))
    if isinstance(value, bytes | str | bytearray):
        return len(value)
    return 8 if isinstance(value, int | float) else 0
