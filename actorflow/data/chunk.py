"""Elements on their way: a few at a time, each with its number.

The number of an element says where it comes from: its epoch, and its ordinal there. Both are in one
int, so that a chunk is two lists and a shuffle moves two things. A stage that makes new elements
(batch, flat_map) numbers what it makes from 0 in every epoch of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

CHUNK = 64
"""Elements that a stage takes at once: with 16 a cheap stage takes 1.3 times as long, with 256 as long."""

_BITS = 40
_ORDINAL = (1 << _BITS) - 1


@dataclass(frozen=True, slots=True)
class Chunk:
    """Elements and their numbers, equally many; nobody changes the lists once they are in a chunk."""

    values: list[Any]
    numbers: list[int]

    def __len__(self) -> int:
        return len(self.values)


def number(epoch: int, ordinal: int) -> int:
    """Returns the number of an element."""
    return (epoch << _BITS) | ordinal


def epoch_of(number: int) -> int:
    """Returns the epoch of the element with this number."""
    return number >> _BITS


def ordinal_of(number: int) -> int:
    """Returns the ordinal of the element with this number in its epoch."""
    return number & _ORDINAL


def numbers(epoch: int, start: int, count: int) -> list[int]:
    """Returns the numbers of `count` elements of an epoch, from ordinal `start` on."""
    first = number(epoch, start)
    return list(range(first, first + count))


def nbytes(values: list[Any]) -> int:
    """Returns the bytes of elements: their arrays, text and numbers, not what Python adds to them.

    Cost: 30 ns for an array, 100 ns for a dict of two.
    """
    total = 0
    array = np.ndarray
    for value in values:
        kind = type(value)
        if kind is array:
            total += value.nbytes
        elif kind is dict:
            for part in value.values():
                total += part.nbytes if type(part) is array else _size(part)
        else:
            total += _size(value)
    return total


def _size(value: Any) -> int:
    if isinstance(value, bytes | str | bytearray):
        return len(value)
    if isinstance(value, int | float):
        return 8
    if isinstance(value, dict):
        return nbytes(list(value.values()))
    if isinstance(value, tuple | list):
        return nbytes(list(value))
    return int(getattr(value, "nbytes", 0))
