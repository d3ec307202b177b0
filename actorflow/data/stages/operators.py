"""The stages that look at one element at a time: map, filter, take, skip, enumerate, flat_map."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

from actorflow.data.stages.stage import CallSite, Operator
from actorflow.data.values.apply import Own, apply_to_each, check_is_value
from actorflow.data.values.chunk import Chunk, numbers, places
from actorflow.data.values.chunk_size import ChunkSize
from actorflow.data.values.deferred import Deferred, materialise
from actorflow.data.values.rng import draw_for
from actorflow.runtime.cancellation import FAILURES


class Map(Operator):
    """Each element becomes what a function makes of it; with a seed it gets chance of its own as well."""

    def __init__(
        self, place: CallSite, function: Callable[..., Any], seed: int | None = None, *, as_bits: bool = False
    ) -> None:
        super().__init__(place)
        self._seed = seed
        self._as_bits = as_bits
        self._function = function
        self._own = Own()

    def push(self, chunk: Chunk) -> Iterator[Chunk]:
        """Gives what the function makes of each, and before a failure what it made until then."""
        # On the way to a position most elements leave before it: made only if somebody needs them.
        if self.lazy:
            yield Chunk(
                [self._later(*pair) for pair in zip(chunk.values, chunk.numbers, strict=True)], chunk.numbers
            )
            return
        out: list[Any] = []
        try:
            chance = None if self._seed is None else self._draw(chunk.numbers)
            apply_to_each(self._function, out, chunk.values, chance, self._own)
        except FAILURES as error:
            # What was made until then is given first, and the failure is that of the next one.
            if out:
                yield Chunk(out, chunk.numbers[: len(out)])
            raise self.call_site.element_error(chunk.numbers[len(out)], error) from error
        yield Chunk(out, chunk.numbers)

    def _draw(self, numbers: list[int]) -> Iterable[Any]:
        assert self._seed is not None
        epochs, ordinals = places(numbers)
        return draw_for(self._seed, epochs, ordinals, as_bits=self._as_bits)

    def _later(self, value: Any, number: int) -> Deferred:
        def make(parts: list[Any]) -> Any:
            try:
                chance = () if self._seed is None else self._draw([number])
                result = self._own.call(self._function, parts[0], *chance)
                check_is_value(result)
            except FAILURES as error:
                raise self.call_site.element_error(number, error) from error
            return result

        return Deferred(make, [value])


class Filter(Operator):
    """Only the elements stay for which a function is true."""

    makes = False

    def __init__(self, place: CallSite, keep: Callable[[Any], Any]) -> None:
        super().__init__(place)
        self._keep = keep
        self._own = Own()

    def push(self, chunk: Chunk) -> Iterator[Chunk]:
        """Gives those that stay."""
        # Which of them stay depends on what they are: so they have to be made.
        values = [materialise(value) for value in chunk.values] if self.lazy else chunk.values
        # As far as it came: those before the failure are kept or not as they would have been.
        found: list[Any] = []
        kept: list[bool] = []
        failure: BaseException | None = None
        try:
            apply_to_each(self._keep, found, values, own=self._own)
        except FAILURES as error:
            failure = error
        # Truth is the user's as well: an array has none.
        try:
            kept.extend(map(bool, found))
        except FAILURES as error:  # at an element before the other
            failure = error
        yield _those(values, chunk.numbers, kept)
        if failure is not None:
            raise self.call_site.element_error(chunk.numbers[len(kept)], failure) from failure


def _those(values: list[Any], numbers: list[int], kept: list[bool]) -> Chunk:
    """The elements with a True; there may be fewer flags than elements."""
    if all(kept) and len(kept) == len(values):
        return Chunk(values, numbers)
    pairs = zip(values, kept, strict=False)
    return Chunk([v for v, k in pairs if k], [n for n, k in zip(numbers, kept, strict=False) if k])


class Take(Operator):
    """The first elements of every epoch."""

    makes = False

    def __init__(self, place: CallSite, count: int) -> None:
        super().__init__(place)
        self._count = count
        self._left = count
        self.full = count == 0

    def push(self, chunk: Chunk) -> Iterator[Chunk]:
        """Gives as many as are wanted still."""
        left = self._left
        if left == 0:
            return
        self._left = max(0, left - len(chunk))
        # ORDER: full before it gives: whoever takes the last element sees it at once.
        self.full = self._left == 0
        yield chunk if len(chunk) <= left else Chunk(chunk.values[:left], chunk.numbers[:left])

    def restart(self) -> None:
        """Takes as many again."""
        super().restart()
        self._left = self._count
        self.full = self._count == 0


class Skip(Operator):
    """All but the first elements of every epoch."""

    makes = False

    def __init__(self, place: CallSite, count: int) -> None:
        super().__init__(place)
        self._count = count
        self._left = count

    def push(self, chunk: Chunk) -> Iterator[Chunk]:
        """Gives what comes after those to skip."""
        left = self._left
        if left == 0:
            yield chunk
            return
        self._left = max(0, left - len(chunk))
        if len(chunk) > left:
            yield Chunk(chunk.values[left:], chunk.numbers[left:])

    def restart(self) -> None:
        """Skips as many again."""
        super().restart()
        self._left = self._count


class Enumerate(Operator):
    """(index, element), counted from `start` in every epoch."""

    def __init__(self, place: CallSite, start: int) -> None:
        super().__init__(place)
        self._start = start
        self._next = start

    def push(self, chunk: Chunk) -> Iterator[Chunk]:
        """Gives the pairs."""
        start = self._next
        self._next += len(chunk)
        if self.lazy:
            yield Chunk([_pair(i, value) for i, value in enumerate(chunk.values, start)], chunk.numbers)
        else:
            yield Chunk(list(enumerate(chunk.values, start)), chunk.numbers)

    def restart(self) -> None:
        """Counts from `start` again."""
        super().restart()
        self._next = self._start


def _pair(index: int, value: Any) -> Deferred:
    return Deferred(lambda parts: (index, parts[0]), [value])


class FlatMap(Operator):
    """Each element becomes several: what a function gives for it, one after the other."""

    def __init__(self, place: CallSite, function: Callable[[Any], Any]) -> None:
        super().__init__(place)
        self._function = function
        self._own = Own()
        self._made = 0
        self._chunk_size = ChunkSize()

    def push(self, chunk: Chunk) -> Iterator[Chunk]:
        """Gives what each becomes; no more than a chunk of it exists at once, and less where that is slow."""
        out: list[Any] = []
        pace, start = self._chunk_size, self.now()
        # One context for a chunk, and another one after whatever has changed it.
        context = self._own.fresh()
        unchanged = self._own.equal(context)
        for value, whose in zip(chunk.values, chunk.numbers, strict=True):
            given = materialise(value) if self.lazy else value
            try:
                context, unchanged = self._own.after(context, unchanged)
                run = context.run  # for all that comes of this element
                parts = run(self._function, given)
                # A generator function gives an iterable; an async one would be gone through by nobody.
                check_is_value(parts)
                parts = run(iter, parts)
                while True:
                    run(out.extend, islice(parts, pace.most - len(out)))  # what came before an error stays
                    if len(out) < pace.most:
                        break
                    # Less of what is slow: others have their turn, and whoever takes gets what there is.
                    pace.note_duration(len(out), self.now() - start)
                    yield self._chunk(out)
                    out, start = [], self.now()
            except FAILURES as error:
                if out:
                    yield self._chunk(out)
                raise self.call_site.element_error(whose, error) from error
        if out:
            yield self._chunk(out)

    def restart(self) -> None:
        """Numbers what it makes from 0 again."""
        super().restart()
        self._made = 0

    def _chunk(self, out: list[Any]) -> Chunk:
        first = self._made
        self._made += len(out)
        return Chunk(out, numbers(self.epoch, first, len(out)))
