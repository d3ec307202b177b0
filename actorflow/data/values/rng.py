"""Chance in pipelines: a function of the seed, the epoch and the element, and of nothing else.

So results depend neither on workers nor on their number, and a pipeline that goes on at a position
draws what it would have drawn.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import repeat
from typing import Any

import numpy as np
from numpy.random.bit_generator import ISeedSequence  # noqa: TID251  seeded

Epochs = int | list[int]
"""The epoch of all elements, or that of each."""

_MASK = 2**64 - 1
_BLOCK = 1024
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


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

    Cost: about 5 µs; see `ElementRng` for many.
    """
    # Elements draw from disjoint blocks of 2**128 numbers: the upper half of the counter says which.
    counter = np.array([0, 0, ordinal & _MASK, 1], np.uint64)
    return _generator(seed, epoch, counter)


def _generator(seed: int, epoch: int, counter: Any = None) -> np.random.Generator:  # noqa: TID251  seeded
    key: Any = _Key(seed, epoch)  # numpy's stubs know its own class only
    return np.random.Generator(np.random.Philox(key, counter=counter))  # noqa: TID251  seeded


class ElementRng:
    """The generators of many elements, one at a time: `generator`, without making a new one for each.

    It is one generator of numpy, set to where that of the element would begin: 1.2 µs an element, not 5.
    So it is the element's only until the next is asked for.
    """

    __slots__ = ("_counter", "_epoch", "_generator", "_seed", "_state")

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._epoch = -1

    def of(self, epoch: int, ordinal: int) -> np.random.Generator:  # noqa: TID251  seeded
        """Returns the generator, which gives what `generator` of the same element gives."""
        # The key changes with the epoch only.
        if epoch != self._epoch:
            self._epoch = epoch
            self._generator = generator(self._seed, epoch, 0)
            self._state: Any = self._generator.bit_generator.state
            self._counter = self._state["state"]["counter"]
        # The same generator, set to where that of the element would begin.
        self._counter[2] = ordinal
        self._generator.bit_generator.state = self._state
        return self._generator


def bits(seed: int, epochs: Any, ordinals: Any) -> list[int]:
    """Returns 64 random bits for each element, as ints: two rounds of SplitMix64 over its place.

    Args:
        seed: As for `generator`.
        epochs: Of the elements, or the one of all.
        ordinals: Of the elements.

    Cost: 0.1 µs an element where there are many; a generator takes 2 until it has given a number.

    Source: Steele, Lea, Flood, Fast splittable pseudorandom number generators, OOPSLA 2014.
    """
    # One number for the epoch, then one for the element in it.
    begun = _mix(np.uint64(seed & _MASK) + np.atleast_1d(np.asarray(epochs, np.uint64)) * _GOLDEN)
    found: list[int] = _mix(begun + np.asarray(ordinals, np.uint64) * _GOLDEN).tolist()
    return found


def _mix(state: Any) -> Any:
    """The next number of SplitMix64 for each state in an array, which wraps round in silence."""
    state = state + _GOLDEN
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state ^ (state >> np.uint64(31))


def draw_for(seed: int, epochs: Epochs, ordinals: Sequence[int], *, as_bits: bool) -> Iterable[Any]:
    """Returns what a function with chance is given for each element, in order: bits, or a generator.

    A generator is the element's only until the next one is asked for.
    """
    if as_bits:
        return bits(seed, epochs, ordinals)
    of = ElementRng(seed).of
    # The epoch of all elements, or that of each.
    each = repeat(epochs) if isinstance(epochs, int) else epochs
    return map(of, each, ordinals)


class DrawnStage:
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
        # The sequence does not depend on how many are taken at once: blocks are always of one size.
        while len(self._block) < stop:
            more = self._generator.integers(0, self._n, _BLOCK).tolist()
            # What is used up is let go of.
            self._block = [*self._block[start:], *more]
            self._next = stop = count
            start = 0
        return self._block[start:stop]

    def order(self, count: int) -> list[int]:
        """Returns a random order of `count` things: what is left when an epoch ends."""
        found: list[int] = self._generator.permutation(count).tolist()
        return found
