"""The batches of a run: indices in order, epoch after epoch, of sizes that are learnt on the way.

Nobody knows how many batches an epoch has until a worker finds none. Batches handed out beyond the end are
void; what was handed out and never used is handed out again where every batch has to count exactly once.

A worker that has fewer batches than the others would end an epoch for all of them. So the end that one found
holds only as long as nobody has computed a batch behind it, and nobody found another.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping

from actorflow.coord.rules.messages import Batch
from actorflow.errors import CoordinationError, ProgramError
from actorflow.runtime.story import Story
from actorflow.runtime.validation import validates

BatchPlace = tuple[int, int]
"""Epoch and index: in order of handing out."""


@validates("next", "take_back", "learn")
class BatchOrder:
    """The sequence of batches, and what of it is left.

    INVARIANT: what is handed out again was handed out before, may exist, and is there once.

    Args:
        epochs: How many there are; None for no end.
        exactly_once: Whether a batch that was not used is handed out again.
        start: The first one.
        before: How many there were before that, in runs that this one goes on from.
    """

    def __init__(
        self,
        epochs: int | None = None,
        *,
        exactly_once: bool = False,
        start: Batch | None = None,
        before: int = 0,
    ) -> None:
        self.epochs = epochs
        self.exactly_once = exactly_once
        self.sizes: dict[int, int] = {}
        self._start: BatchPlace = (0, 0) if start is None else (start.epoch, start.index)
        self._next = self._start
        self._before = before
        self._again: list[BatchPlace] = []  # a heap
        self.story = Story()

    def validate(self) -> None:
        """Raises InternalError where an invariant does not hold."""
        again = self._again
        self.story.check(
            self,
            {
                "what is handed out again was handed out": all(self._start <= p < self._next for p in again),
                "what is handed out again may exist": all(map(self._exists, again)),
                "a batch is handed out again once": len(set(again)) == len(again),
                "the first comes first": not again or again[0] == min(again),
            },
        )

    @property
    def again(self) -> tuple[Batch, ...]:
        """What is handed out again, in no order."""
        return tuple(Batch(*place) for place in self._again)

    @property
    def left(self) -> bool:
        """Whether a batch may be left; where it lies beyond the end of its epoch, that is not known yet."""
        return self._peek() is not None

    def next(self) -> Batch | None:
        """Hands out the next batch; None when none is left."""
        place = self._peek()
        if place is None:
            return None
        if self._again:
            heapq.heappop(self._again)
        else:
            self._next = (place[0], place[1] + 1)
        self.story.append(("next", *place))
        return Batch(*place)

    def ordinal(self, batch: Batch) -> int:
        """Returns the place of a batch that was handed out in the whole sequence, from 1."""
        epoch, index = self._start
        whole = sum(self.sizes[e] for e in range(epoch, batch.epoch))
        return self._before + whole - index + batch.index + 1

    def take_back(self, batch: Batch, *, seen: bool = True) -> None:
        """Takes back a batch that made no update.

        Args:
            batch: The batch.
            seen: Whether a worker was given it; one that nobody was given always stays in the sequence.
        """
        if (self.exactly_once or not seen) and self.exists(batch):
            self.story.append(("take back", batch.epoch, batch.index))
            heapq.heappush(self._again, (batch.epoch, batch.index))

    def learn(self, epoch: int, size: int) -> None:
        """Hears how many batches an epoch has."""
        self.story.append(("learn", epoch, size))
        self.sizes[epoch] = min(size, self.sizes.get(epoch, size))
        self._again = [place for place in self._again if self._exists(place)]
        heapq.heapify(self._again)

    def exists(self, batch: Batch) -> bool:
        """Whether there may be such a batch, as far as is known."""
        return self._exists((batch.epoch, batch.index))

    def _exists(self, place: BatchPlace) -> bool:
        size = self.sizes.get(place[0])
        return size is None or place[1] < size

    def _peek(self) -> BatchPlace | None:
        if self._again:
            return self._again[0]
        while not self._exists(self._next):
            self._next = (self._next[0] + 1, 0)
        return None if self.epochs is not None and self._next[0] >= self.epochs else self._next

    def __repr__(self) -> str:
        return f"<BatchOrder from {self._next}, {len(self._again)} again, sizes {self.sizes}>"


HINT = "give every worker the same batches: they are handed out by number, so none needs a part of its own"

_RECENT = 2
"""Epochs before the present one of which something is known: nobody computes those before any more."""


@validates("note_computed", "note_end", "note_none")
class EpochLengths:
    """How many batches epochs have, by those that found their end and those that computed one.

    INVARIANT: no epoch has a batch behind its end, unless that was found to be wrong.

    Attributes:
        ends: By epoch, who found the end first, and how many batches there were.
        furthest: By epoch, who computed the batch of the highest index, and that index.
        none: By rank, the permit under which it found no batch at all: it stays out until it is known whether
            others have some.
    """

    def __init__(self) -> None:
        self.ends: dict[int, tuple[str, int]] = {}
        self.furthest: dict[int, tuple[str, int]] = {}
        self.none: dict[int, int] = {}
        self.story = Story()
        self._wrong = False

    def validate(self) -> None:
        """Raises InternalError where an invariant does not hold."""
        known = [(self.ends[e], self.furthest[e]) for e in self.ends.keys() & self.furthest.keys()]
        self.story.check(
            self,
            {
                "no batch lies behind the end of its epoch": self._wrong
                or all(index < size for (_, size), (_, index) in known),
            },
        )

    def note_computed(self, process: str, batch: Batch) -> CoordinationError | None:
        """Hears that a worker has computed a batch: so it has it; returns what is wrong with that."""
        epoch, index = batch.epoch, batch.index
        before = self.furthest.get(epoch)
        if before is None or before[1] < index:
            self.furthest = {**_recent(self.furthest, epoch), epoch: (process, index)}
        return self._find_wrong(epoch)

    def note_end(self, process: str, epoch: int, size: int) -> CoordinationError | None:
        """Hears that a worker has found that an epoch has `size` batches; returns what is wrong with that."""
        self.story.append(("end", process, epoch, size))
        before = self.ends.get(epoch)
        if before is not None and before[1] != size:
            self._wrong = True
            few, many = sorted([before, (process, size)], key=lambda end: end[1])
            return _short(few, epoch, f"{many[0]!r} has {many[1]}", self.furthest.get(epoch))
        if before is None:
            self.ends = {**_recent(self.ends, epoch), epoch: (process, size)}
        return self._find_wrong(epoch)

    def note_none(self, rank: int, number: int) -> None:
        """Hears that a rank found no batch at all under its permit of that number."""
        self.story.append(("none", rank, number))
        self.none[rank] = number

    def empty(self, out: Mapping[int, tuple[str, int, int]]) -> ProgramError | None:
        """Returns what is wrong with an epoch in which workers found no batch; None while one may name it.

        An epoch without batches is an error in any case. Who still computes may have one of it, and then the
        workers differ, which tells more.

        Args:
            out: By rank of all who compute, or look: process, number of the permit, and epoch.
        """
        found = [rank for rank, number in self.none.items() if rank in out and out[rank][1] == number]
        if not found or not set(out) <= set(found):
            return None
        process, _, epoch = out[found[0]]
        message = f"every epoch needs a batch, but batches({epoch}) gave none to {process!r}"
        return ProgramError(
            message, hint="an iterator is used up after one epoch: make a new one at each call"
        )

    def _find_wrong(self, epoch: int) -> CoordinationError | None:
        end, furthest = self.ends.get(epoch), self.furthest.get(epoch)
        if end is None or furthest is None or furthest[1] < end[1]:
            return None
        self._wrong = True
        return _short(end, epoch, None, furthest)


def _recent(known: Mapping[int, tuple[str, int]], epoch: int) -> dict[int, tuple[str, int]]:
    """Forgets epochs long over, that a long run does not grow."""
    return {e: said for e, said in known.items() if e >= epoch - _RECENT}


def _short(
    end: tuple[str, int], epoch: int, other: str | None, furthest: tuple[str, int] | None
) -> CoordinationError:
    process, size = end
    batches = "1 batch" if size == 1 else f"{size} batches"
    more = [other] if other is not None else []
    if furthest is not None and furthest[1] >= size:
        more.append(f"{furthest[0]!r} has computed batch {furthest[1]} already, counted from 0")
    what = f"{process!r} has {batches} of epoch {epoch}, but {', and '.join(more)}"
    return CoordinationError(what, hint=HINT)
