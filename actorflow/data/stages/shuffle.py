"""Mixes the order of elements with a buffer: each that comes takes the place of one drawn from it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from actorflow.data.stages.stage import CallSite, Operator
from actorflow.data.values.chunk import Chunk
from actorflow.data.values.rng import DrawnStage


class Shuffle(Operator):
    """Holds up to `size` elements; when it is full, one drawn from them leaves for each that comes.

    At the end of an epoch what is left leaves in a drawn order. Draws depend on (seed, epoch) alone.
    """

    holds = True
    makes = False

    def __init__(self, place: CallSite, size: int, seed: int) -> None:
        super().__init__(place)
        self._size = size
        self._seed = seed
        self._values: list[Any] = []
        self._numbers: list[int] = []
        self._draws = DrawnStage(seed, self.epoch, size)
        self._most = 1  # that came together: as many leave so at the end

    def push(self, chunk: Chunk) -> Iterator[Chunk]:
        """Gives one element for each that finds no room."""
        values, numbers = self._values, self._numbers
        self._most = max(self._most, len(chunk))
        # As long as there is room nothing leaves.
        room = min(self._size - len(values), len(chunk))
        values.extend(chunk.values[:room])
        numbers.extend(chunk.numbers[:room])
        count = len(chunk) - room
        out_values, out_numbers = chunk.values[room:], chunk.numbers[room:]
        # Each that comes takes the place of one drawn: both change places, so no list is moved.
        for i, j in enumerate(self._draws.take(count)):
            out_values[i], values[j] = values[j], out_values[i]
            out_numbers[i], numbers[j] = numbers[j], out_numbers[i]
        out = Chunk(out_values, out_numbers)
        if not self.lazy:
            self.bytes += chunk.bytes - out.bytes
        if count:
            yield out

    def end(self) -> Iterator[Chunk]:
        """Gives what is left, as many at a time as came: of batches, which are large, few."""
        # Taken from the end, which costs nothing.
        order = self._draws.order(len(self._values))[::-1]
        self._values[:] = [self._values[i] for i in order]
        self._numbers[:] = [self._numbers[i] for i in order]
        most = self._most
        while self._values:
            # As many at a time as came together: of batches, which are large, few.
            out = Chunk(self._values[: -most - 1 : -1], self._numbers[: -most - 1 : -1])
            del self._values[-most:], self._numbers[-most:]
            if not self.lazy:
                self.bytes -= out.bytes
            yield out

    def restart(self) -> None:
        """Begins with an empty buffer and new draws."""
        super().restart()
        self._values.clear()
        self._numbers.clear()
        self._draws = DrawnStage(self._seed, self.epoch, self._size)

    def held_elements(self) -> list[list[Any]]:
        """Returns the buffer."""
        return [self._values]
