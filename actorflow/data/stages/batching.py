"""Puts elements together: batches of one size, padded ones, and batches of elements of like length."""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from actorflow.data.stages.stage import CallSite, Operator
from actorflow.data.values.apply import Own
from actorflow.data.values.chunk import Chunk, nbytes, number
from actorflow.data.values.collate import collate
from actorflow.data.values.deferred import Deferred, materialise
from actorflow.runtime.cancellation import FAILURES

Join = Callable[[list[Any]], Any]
"""Makes one element of several; raises `UnevenElements` for those that do not go together."""


class _Collecting(Operator):
    """What makes elements of groups of others, and numbers them."""

    holds = True

    def __init__(self, place: CallSite, join: Join) -> None:
        super().__init__(place)
        self._join = join
        self._made = 0

    def _join_elements(self, values: list[Any], first: int) -> Chunk:
        """The batch of these elements; `first` is the number of the first."""

        def make(parts: list[Any]) -> Any:
            try:
                return self._join(parts)
            except Exception as error:
                raise self.call_site.element_error(first, error) from error

        # On the way to a position most batches leave before it: they are put together only if somebody needs
        # them.
        if self.lazy:
            batch: Any = Deferred(make, values)
        else:
            batch = make(values)
        self._made += 1
        return Chunk([batch], [number(self.epoch, self._made - 1)])

    def restart(self) -> None:
        """Forgets what did not make a batch, and numbers from 0 again."""
        super().restart()
        self._made = 0
        # In place: the chunk that the elements came in belongs to others by now.
        for values in self.held_elements():
            values.clear()

    @abstractmethod
    def held_elements(self) -> list[list[Any]]:
        """Returns what has not made a batch."""


class BatchStage(_Collecting):
    """Every `size` elements become one; the last of an epoch may be of fewer, or dropped."""

    def __init__(self, place: CallSite, size: int, *, drop_remainder: bool, join: Join = collate) -> None:
        super().__init__(place, join)
        self.size = size
        self._drop = drop_remainder
        self._values: list[Any] = []
        self._first = 0

    def push(self, chunk: Chunk) -> Iterator[Chunk]:
        """Gives the batches that are complete."""
        if not self.lazy:
            self.bytes += chunk.bytes
        values, size = self._values, self.size
        # The number of a batch is that of its first element, for errors.
        if not values:
            self._first = chunk.numbers[0]
        # Where the first of the next batch stands in this chunk.
        at = -len(values)
        values.extend(chunk.values)
        while len(values) >= size:
            part = values[:size]
            del values[:size]
            first, at = self._first, at + size
            if values:
                self._first = chunk.numbers[at]
            # ORDER: before the batch leaves: whoever takes it looks at what is held.
            if not self.lazy:
                self.bytes = nbytes(values)
            yield self._join_elements(part, first)

    def end(self) -> Iterator[Chunk]:
        """Gives the rest, unless it is to be dropped."""
        if self._values and not self._drop:
            part = self._values[:]
            self._values.clear()
            self.bytes = 0
            yield self._join_elements(part, self._first)

    def fill(self, count: int, made: int) -> None:
        """Stands where it has made so many batches, and holds so many elements that nobody will look at."""
        # Their values do not matter: they are in the first batch, which is before the position.
        self._values[:] = [None] * count
        self._made = made

    def held_elements(self) -> list[list[Any]]:
        """Returns the elements of the batch that is not complete."""
        return [self._values]


class BucketStage(_Collecting):
    """Batches of elements of like length: bucket i has those below boundary i, the last all others.

    At the end of an epoch the buckets give what is left, the shortest first.
    """

    def __init__(
        self,
        place: CallSite,
        length: Callable[[Any], Any],
        boundaries: Sequence[int],
        sizes: Sequence[int],
        *,
        drop_remainder: bool,
        join: Join,
    ) -> None:
        super().__init__(place, join)
        self._length = length
        self._own = Own()
        self._boundaries = list(boundaries)
        self._sizes = list(sizes)
        self._drop = drop_remainder
        self._buckets: list[list[Any]] = [[] for _ in sizes]
        self._firsts = [0] * len(sizes)

    def push(self, chunk: Chunk) -> Iterator[Chunk]:
        """Gives the batches that are complete."""
        for given, whose in zip(chunk.values, chunk.numbers, strict=True):
            # Which bucket it goes to depends on the element itself, so it has to be made now.
            value = materialise(given) if self.lazy else given
            try:
                # The function of the user: whatever it raises, or gives that is no number, is the element's.
                which = bisect_right(self._boundaries, self._own.call(self._length, value))
            except FAILURES as error:
                raise self.call_site.element_error(whose, error) from error
            bucket = self._buckets[which]
            if not bucket:
                self._firsts[which] = whose
            bucket.append(value)
            if not self.lazy:
                self.bytes += nbytes([value])
            if len(bucket) == self._sizes[which]:
                yield self._out(which)

    def end(self) -> Iterator[Chunk]:
        """Gives the rest of every bucket, unless it is to be dropped."""
        for which, bucket in enumerate(self._buckets):
            if bucket and not self._drop:
                yield self._out(which)

    def held_elements(self) -> list[list[Any]]:
        """Returns the buckets."""
        return self._buckets

    def _out(self, which: int) -> Chunk:
        part = self._buckets[which][:]
        self._buckets[which].clear()
        if not self.lazy:
            self.bytes -= nbytes(part)
        return self._join_elements(part, self._firsts[which])
