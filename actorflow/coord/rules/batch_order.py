"""The order of batches: indices in order, epoch after epoch, of sizes that are learnt on the way.

Nobody knows how many batches an epoch has until a worker finds none. Batches handed out beyond the end are
void; what was handed out and never used is handed out again where every batch has to count exactly once.
"""

from __future__ import annotations

import heapq

from actorflow.coord.rules.messages import Batch
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
