"""Chance in pipelines: a function of the seed, the epoch and the element, and of nothing else.

So results depend neither on workers nor on their number, and a pipeline that goes on at a position
draws what it would have drawn.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.random.bit_generator import ISeedSequence  # noqa: TID251  seeded

_MASK = 2**64 - 1
_BLOCK = 1024


class _Key(ISeedSequence):
    """Hands Philox its key as it is: 4 µs, where `Philox(key=...)` takes 20 to look at it."""

    __slots__ = ("_key",)

    def __init__(self, seed: int, epoch: int) -> None:
        self._key = np.array([seed & _MASK, epoch & _MASK], np.uint64)

    def generate_state(self, n_words: int, dtype: Any = np.uint32) -> Any:
        """Returns the key."""
        return self._key


def generator(seed: int, epoch: int, ordinal: int) -> np.random.Generator:  # noqa: TID251  seeded
    """Returns the generator of one element: Philox4x64-10 keyed by (seed, epoch), counting from the ordinal.

    Args:
        seed: Of the stage; any integer, taken modulo 2**64.
        epoch: The epoch of the element.
        ordinal: The number of the element in its epoch.

    Elements draw from disjoint blocks of 2**128 numbers. Cost: about 5 µs.
    """
    counter = np.array([0, 0, ordinal & _MASK, 1], np.uint64)
    return _generator(seed, epoch, counter)


def _generator(seed: int, epoch: int, counter: Any = None) -> np.random.Generator:  # noqa: TID251  seeded
    key: Any = _Key(seed, epoch)  # numpy's stubs know its own class only
    return np.random.Generator(np.random.Philox(key, counter=counter))  # noqa: TID251  seeded


class Draws:
    """Numbers below `n`, one after the other, drawn in blocks: 20 ns a number where a call takes 1 µs.

    The sequence does not depend on how many are taken at once.
    """

    __slots__ = ("_block", "_generator", "_n", "_next")

    def __init__(self, seed: int, epoch: int, n: int) -> None:
        self._generator = _generator(seed, epoch)
        self._n = n
        self._next = 0
        self._block: list[int] = []

    def take(self, count: int) -> list[int]:
        """Returns the next `count` numbers."""
        start = self._next
        self._next = stop = start + count
        while len(self._block) < stop:
            more = self._generator.integers(0, self._n, _BLOCK).tolist()
            self._block = [*self._block[start:], *more]
            self._next = stop = count
            start = 0
        return self._block[start:stop]

    def order(self, count: int) -> list[int]:
        """Returns a random order of `count` things: what is left when an epoch ends."""
        found: list[int] = self._generator.permutation(count).tolist()
        return found
