"""The rule of a barrier: tuples are put together by key, and taken when they are complete.

Each component of a tuple comes by itself, under the tuple's key. A key whose components are all there
is ready. Ready tuples leave in the order in which their keys were first seen, whatever came first to
be complete: batch by batch, and within a batch as they stood in it.

* Inserting a batch is all or nothing. A component that a key has already, or a key that comes twice,
  is refused. A key that has been taken, or is ready, may begin anew.
* A take waits in a line; only its head makes progress, and takes all its tuples at one moment. So
  takers are served in order, and a large take at the head makes smaller ones behind it wait.
* `close()` lets no new key in; those begun may still be completed, and are taken. `close(cancel)` drops
  the incomplete ones too, and may come after a plain close. Then a take that can never be satisfied
  fails with OutOfRange; with `allow_small` it gets what is ready, at least one.
* Tuples given back are ready again, at their old place in the order.

How far it is from taking nothing in:

               close   cancel
    open       closed  cancelled
    closed     .       cancelled
    cancelled  .       .

Source: TensorFlow's `barrier_ops.cc`.
Deviation: there an insert that fails half way leaves what it had put in; a waiting take holds the
tuples that it has so far, out of the order of those that come later; a small take from a closed barrier
fails while keys are incomplete, and so misses what these become (here it waits for the first).

Pure: every event returns who is answered and how.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from heapq import heappop, heappush
from typing import Any

from actorflow.dataflow.state.replies import Replied
from actorflow.errors import OutOfRange, QueueClosed, StateError, pluralise
from actorflow.runtime.story import Story
from actorflow.runtime.validation import validates

MISSING = object()
"""Stands where a component has not come yet."""


_SUMMED = 256  # of so many keys at most `validate` looks at each, since it does after every event


class BarrierPhase(Enum):
    """How far a barrier is from taking nothing in."""

    OPEN = auto()
    CLOSED = auto()  # no new key comes; those begun may still be completed
    CANCELLED = auto()  # nothing comes, and what was incomplete was dropped


class BarrierEvent(Enum):
    """What brings a barrier nearer to that: a `close`, without or with `cancel`."""

    CLOSE = auto()
    CANCEL = auto()


TRANSITIONS: Mapping[tuple[BarrierPhase, BarrierEvent], BarrierPhase] = {
    (BarrierPhase.OPEN, BarrierEvent.CLOSE): BarrierPhase.CLOSED,
    (BarrierPhase.OPEN, BarrierEvent.CANCEL): BarrierPhase.CANCELLED,
    (BarrierPhase.CLOSED, BarrierEvent.CANCEL): BarrierPhase.CANCELLED,
}
"""The table above. A close that is not in it is refused."""


@dataclass(slots=True)
class BarrierTuple:
    """The components of one key; `batch` and `place` say when it was first seen."""

    batch: int
    place: int
    key: bytes
    components: list[Any]
    missing: int

    def __lt__(self, other: BarrierTuple) -> bool:
        return (self.batch, self.place) < (other.batch, other.place)


@dataclass(slots=True)
class WaitingTake:
    """A wish for `wanted` tuples; `allow_small` accepts fewer once the barrier is closed."""

    who: Hashable
    wanted: int
    allow_small: bool


@validates("insert", "take", "close", "cancel", "give_back")
@dataclass(slots=True, repr=False)
class BarrierRule:
    """The state of one barrier of tuples of `width` components.

    INVARIANT: a key is in `incomplete` while a component is missing; every component that was put in is
    there, in `ready`, was answered, or was dropped by a close that cancels, exactly once; the head of
    `takes` waits for more than is there.

    Attributes:
        capacity: How many keys there may be, ready ones included; None is no limit.
        phase: How far it is from taking nothing in.
        story: What closed it, or came back. What is put in and taken is not in it: that would be all.
    """

    name: str
    width: int
    capacity: int | None = None
    incomplete: dict[bytes, BarrierTuple] = field(default_factory=dict)
    ready: list[BarrierTuple] = field(default_factory=list)
    takes: deque[WaitingTake] = field(default_factory=deque)
    batches: int = 0
    phase: BarrierPhase = BarrierPhase.OPEN
    story: Story = field(default_factory=Story)

    @property
    def closed(self) -> bool:
        """Whether no new key may come."""
        return self.phase is not BarrierPhase.OPEN

    @property
    def cancelled(self) -> bool:
        """Whether nothing may come, and what was incomplete was dropped."""
        return self.phase is BarrierPhase.CANCELLED

    def __repr__(self) -> str:
        limit = "unbounded" if self.capacity is None else self.capacity
        return (
            f"<BarrierRule {self.name!r} {len(self.ready)} ready + {len(self.incomplete)} incomplete/{limit}"
            f", waiting {len(self.takes)} out{', closed' if self.closed else ''}>"
        )

    def insert(
        self, who: Hashable, component: int, keys: Sequence[bytes], values: Sequence[Any]
    ) -> list[Replied]:
        """Puts in one component of each key; answered at once.

        Raises:
            StateError: when a key has that component, comes twice, or would be one too many.
            QueueClosed: for a new key after a close, and for any after one that cancels.
        """
        self._check(component, keys)
        fresh = False
        for place, (key, value) in enumerate(zip(keys, values, strict=True)):
            found = self.incomplete.get(key)
            if found is None:
                fresh = True
                found = self.incomplete[key] = BarrierTuple(
                    self.batches, place, key, [MISSING] * self.width, self.width
                )
            found.components[component] = value
            found.missing -= 1
            if not found.missing:
                heappush(self.ready, self.incomplete.pop(key))
        self.batches += fresh
        return [Replied(who, True), *self._flush()]

    def take(self, who: Hashable, wanted: int, *, allow_small: bool = False) -> list[Replied]:
        """Wants the first `wanted` tuples that are ready; none are there at once."""
        if wanted == 0:
            return [Replied(who, ())]
        self.takes.append(WaitingTake(who, wanted, allow_small))
        return self._flush()

    def close(self, who: Hashable, *, cancel: bool = False) -> list[Replied]:
        """Lets no new key in; with `cancel` drops the incomplete ones.

        Raises:
            StateError: when it is closed, unless this close cancels and the one before did not.
        """
        event = BarrierEvent.CANCEL if cancel else BarrierEvent.CLOSE
        phase = TRANSITIONS.get((self.phase, event))
        if phase is None:
            message = f"barrier {self.name!r} is closed already"
            hint = "a second close may only drop what is incomplete" if not self.cancelled else None
            raise StateError(message, hint=hint)
        self.story.append((event.name.lower(), len(self.ready), len(self.incomplete), len(self.takes)))
        self.phase = phase
        if cancel:
            self.incomplete.clear()
        return [Replied(who, True), *self._flush()]

    def cancel(self, who: Hashable) -> list[Replied]:
        """Forgets the takes of `who`, who is not answered; the next waiters go on."""
        waited = len(self.takes)
        self.takes = deque(take for take in self.takes if take.who != who)
        if len(self.takes) != waited:
            self.story.append(("forget", len(self.takes)))
        return self._flush()

    def give_back(self, tuples: Sequence[BarrierTuple]) -> list[Replied]:
        """Makes tuples ready again that were taken and not used."""
        for each in tuples:
            heappush(self.ready, each)
        self.story.append(("give_back", len(tuples)))
        return self._flush()

    def validate(self) -> None:
        """Raises InternalError where an invariant does not hold."""
        if (what := self._violation()) is not None:
            raise self.story.broken(what)

    def _violation(self) -> str | None:
        if self.takes and (count := self._count(self.takes[0])) is not None:
            return f"barrier {self.name!r}: the head waits for more than is there, got {count} for it"
        if self.cancelled and self.incomplete:
            return f"barrier {self.name!r}: CANCELLED drops what is incomplete, got {len(self.incomplete)}"
        if len(self.ready) + len(self.incomplete) > _SUMMED:
            return None
        for each in (*self.ready, *self.incomplete.values()):
            missing = sum(component is MISSING for component in each.components)
            complete = self.incomplete.get(each.key) is not each
            if each.missing != missing or complete != (missing == 0) or len(each.components) != self.width:
                where = "ready" if complete else "incomplete"
                return f"barrier {self.name!r}: a key is ready when all is there, got {each} in {where}"
            if not 0 <= each.batch < self.batches:
                return f"barrier {self.name!r}: there were {self.batches} batches, got {each}"
        return None

    def _check(self, component: int, keys: Sequence[bytes]) -> None:
        """Raises what `insert` says, before anything is changed."""
        if self.cancelled and keys:
            message = f"barrier {self.name!r} is closed, and what was incomplete was dropped"
            raise QueueClosed(message, hint="insert before closing it")
        seen: set[bytes] = set()
        fresh = 0
        for key in keys:
            found = self.incomplete.get(key)
            if key in seen or (found is not None and found.components[component] is not MISSING):
                where = "twice in one batch" if key in seen else "already"
                message = f"key {key!r:.60} of barrier {self.name!r} has component {component} {where}"
                raise StateError(message)
            seen.add(key)
            fresh += found is None
            if found is None and self.closed:
                message = f"barrier {self.name!r} is closed, and key {key!r:.60} is new to it"
                raise QueueClosed(message, hint="insert all keys before closing it")
        held = len(self.incomplete) + len(self.ready)
        if self.capacity is not None and fresh and held + fresh > self.capacity:
            message = (
                f"barrier {self.name!r} holds {pluralise(self.capacity, 'key')} at most, "
                f"got {fresh} new beside {held}"
            )
            raise StateError(message, hint="take what is ready, or give it a larger capacity")

    def _flush(self) -> list[Replied]:
        """Lets the heads take until one has to wait, and returns whom that answers."""
        answers: list[Replied] = []
        while self.takes:
            head = self.takes[0]
            count = self._count(head)
            if count is None:
                break
            self.takes.popleft()
            if count:
                taken = tuple(heappop(self.ready) for _ in range(count))
                answers.append(Replied(head.who, taken, undo=taken))
                continue
            error = OutOfRange(
                f"barrier {self.name!r} is closed and has insufficient elements (requested {head.wanted}, "
                f"total size {len(self.ready) + len(self.incomplete)})"
            )
            answers.append(Replied(head.who, error=error))
        return answers

    def _count(self, head: WaitingTake) -> int | None:
        """How many tuples the head gets now: 0 when never enough, None when it waits."""
        ready = len(self.ready)
        if head.wanted <= ready:
            return head.wanted
        if not self.closed:
            return None
        if head.allow_small and ready:
            return ready
        least = 1 if head.allow_small else head.wanted
        return 0 if ready + len(self.incomplete) < least else None
