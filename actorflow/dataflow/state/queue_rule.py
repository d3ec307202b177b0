"""The rule of every queue: who may go on, in which order, how much fits, and what closing means.

Waiting is a list of attempts, one for enqueues and one for dequeues; only the head of each may make
progress, so waiters are served strictly in order, and a large `dequeue_many` at the head makes
smaller ones behind it wait. What lies inside, and what is taken next, is a `queue_store.Store`.

* An enqueue of many rows puts them in one by one as room appears; a dequeue of many takes them one
  by one as they come. Both show partial progress to others.
* There is room while what is inside is less than the capacity and, with the element, at most
  `max_bytes`; see `at_least_one` for empty ones. An
  element that alone is larger is refused at once, with all rows beside it.
* `close()` waits its turn behind the enqueues that are pending; they still finish. `close(cancel)`
  acts at once and fails them. Afterwards an enqueue fails with QueueClosed; dequeues drain the
  rest, and one that cannot be satisfied fails with OutOfRange and **puts back** what it had taken.
  `fail(error)` is `close(cancel)` after which dequeues that find nothing get that error.
* A cancelled attempt leaves at once; a cancelled dequeue puts back what it had taken. So does an
  attempt whose owner has ended, before it makes any more progress.
* What was taken can be put back for good (`put_back`), even after closing: it is again where it was.

How far it is from being closed, and what follows:

             close    turn    withdraw  cancel  fail
    open     closing  .       .         closed  failed
    closing  closing  closed  open      closed  failed
    closed   .        .       .         .       failed
    failed   .        .       .         .       failed

Source: TensorFlow's `queue_base.cc`, `fifo_queue.cc`, `random_shuffle_queue_op.cc`, `priority_queue.cc`.
Deviations: there a cancelled dequeue_many loses what it had taken, and a step that fails loses what it
had dequeued; here nothing is lost. Elements put back may exceed the limits until they are taken again.
Bytes are not limited there. A store's reserve is dropped not only by closing but also while an enqueue
waits for room: with a limit in bytes a queue may be full with fewer elements than the reserve, and
nobody would ever go on.

Pure: every event returns who is answered and how. No actor, no clock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto

from actorflow.dataflow.state.queue_store import Element, Entry, Store
from actorflow.errors import ActorflowError, OutOfRange, QueueClosed, StateError, describe
from actorflow.runtime.story import Story
from actorflow.runtime.validation import validates
from actorflow.values.arrays import content_bytes

_SUMMED = 256  # of so many elements at most `validate` forms a sum, since it does after every event


class QueuePhase(Enum):
    """How far a queue is from being closed."""

    OPEN = auto()
    CLOSING = auto()  # a close waits behind the enqueues that are pending
    CLOSED = auto()  # no more comes; dequeues drain the rest, then get OutOfRange
    FAILED = auto()  # the same, and then they get the error of whoever filled it


class QueueEvent(Enum):
    """What brings a queue nearer to being closed."""

    CLOSE = auto()  # somebody wants it closed
    TURN = auto()  # the enqueues before that are in
    WITHDRAW = auto()  # whoever wanted it closed waits no more
    CANCEL = auto()  # it is closed at once, and who waits to enqueue fails
    FAIL = auto()  # whoever fills it has failed


TRANSITIONS: Mapping[tuple[QueuePhase, QueueEvent], QueuePhase] = {
    (QueuePhase.OPEN, QueueEvent.CLOSE): QueuePhase.CLOSING,
    (QueuePhase.OPEN, QueueEvent.CANCEL): QueuePhase.CLOSED,
    (QueuePhase.OPEN, QueueEvent.FAIL): QueuePhase.FAILED,
    (QueuePhase.CLOSING, QueueEvent.CLOSE): QueuePhase.CLOSING,  # after one whose owner has ended
    (QueuePhase.CLOSING, QueueEvent.TURN): QueuePhase.CLOSED,
    (QueuePhase.CLOSING, QueueEvent.WITHDRAW): QueuePhase.OPEN,
    (QueuePhase.CLOSING, QueueEvent.CANCEL): QueuePhase.CLOSED,
    (QueuePhase.CLOSING, QueueEvent.FAIL): QueuePhase.FAILED,
    (QueuePhase.CLOSED, QueueEvent.FAIL): QueuePhase.FAILED,
    (QueuePhase.FAILED, QueueEvent.FAIL): QueuePhase.FAILED,  # the first error counts
}
"""The table above. What is not in it does not happen."""

_CLOSED = (QueuePhase.CLOSED, QueuePhase.FAILED)


@dataclass(slots=True)
class WaitingEnqueue:
    """Rows that wait for room; closing is an attempt with no rows.

    Attributes:
        sizes: The bytes of each row; None where they are not counted.
        begun: Whether some of the rows have gone in.
    """

    who: Hashable
    rows: deque[Element]
    sizes: deque[int] | None = None
    closes: bool = False
    begun: bool = False


@dataclass(slots=True)
class WaitingDequeue:
    """A wish for `wanted` elements, and those taken so far; `up_to` accepts fewer after close."""

    who: Hashable
    wanted: int
    up_to: bool
    taken: list[Entry] = field(default_factory=list)


@dataclass(slots=True)
class QueueAnswer:
    """`who` is answered with the entries taken, or with an error."""

    who: Hashable
    entries: Sequence[Entry] = ()
    error: ActorflowError | None = None

    @property
    def elements(self) -> list[Element]:
        """The elements taken."""
        return [element for _, _, element in self.entries]


@validates("enqueue", "dequeue", "close", "fail", "cancel", "put_back", "clear")
class QueueRule:
    """The state of one queue.

    Args:
        name: What errors call it.
        store: What lies inside.
        capacity: How many elements fit; None is no limit.
        max_bytes: How many bytes fit; None is no limit.
        size: Gives the bytes of an element; `arrays.content_bytes`, and one at least, where there is a
            limit of them. With neither they are not counted.
        ended: Tells of an owner that nobody waits any more: his attempts are dropped.

    INVARIANT: every element that went in is in the store, in the `taken` of the first dequeue, or
    was answered and not put back, exactly once; an attempt is answered once.
    INVARIANT: between two events nobody waits who could go on.

    Attributes:
        phase: How far it is from being closed.
        closed: Whether it is CLOSED or FAILED.
        story: What closed it, or came back. What goes in and out and who waits is not in it: that would push
            all else out, and an entry of 0.05 µs for each of the two would be 8 % of a put and a take.
    """

    __slots__ = (
        "bytes", "capacity", "closed", "dequeues", "enqueues", "failure", "max_bytes", "name", "peak",
        "peak_bytes", "phase", "store", "story", "_arrived", "_ended", "_size",
    )  # fmt: skip

    def __init__(
        self,
        name: str,
        store: Store,
        capacity: int | None,
        max_bytes: int | None = None,
        *,
        size: Callable[[Element], int] | None = None,
        ended: Callable[[Hashable], bool] | None = None,
    ) -> None:
        self.name = name
        self.store = store
        self.capacity = capacity
        self.max_bytes = max_bytes
        self.bytes = 0
        self.peak = 0
        self.peak_bytes = 0
        self.enqueues: deque[WaitingEnqueue] = deque()
        self.dequeues: deque[WaitingDequeue] = deque()
        self.phase = QueuePhase.OPEN
        self.closed = False
        self.story = Story()
        self.failure: ActorflowError | None = None
        self._arrived = 0
        if size is None and max_bytes is not None:
            size = at_least_one(content_bytes)
        self._size = size
        self._ended = ended

    def __len__(self) -> int:
        return len(self.store)

    def __repr__(self) -> str:
        limit = "unbounded" if self.capacity is None else self.capacity
        of_bytes = "" if self.max_bytes is None else f", {self.bytes}/{self.max_bytes} bytes"
        return (
            f"<{type(self).__name__} {self.name!r} {len(self.store)}/{limit}{of_bytes}, peak {self.peak}, "
            f"waiting {len(self.enqueues)} in, {len(self.dequeues)} out{', closed' if self.closed else ''}>"
        )

    @property
    def elements(self) -> tuple[Element, ...]:
        """What is inside, in the order of the store."""
        return tuple(element for _, _, element in self.store)

    # -- events ------------------------------------------------------------------------------------

    def enqueue(self, who: Hashable, rows: Sequence[Element]) -> list[QueueAnswer]:
        """Wants the rows put in, in order; none at all is done at once, even when closed."""
        if not rows:
            return [QueueAnswer(who)]
        if len(rows) == 1 and self._size is None and not self.enqueues and not self.closed:
            inside = len(self.store)  # one row for which there is room, written out: -2 µs of 22 for a step
            if self.capacity is None or inside < self.capacity:
                self.store.put((self._arrived, 0, rows[0]))
                self._arrived += 1
                if inside >= self.peak:
                    self.peak = inside + 1
                return self._flush([QueueAnswer(who)]) if self.dequeues else [QueueAnswer(who)]
        sizes = None if self._size is None else deque(map(self._size, rows))
        if sizes and self.max_bytes is not None and max(sizes) > self.max_bytes:
            return [QueueAnswer(who, error=self._too_large(sizes))]
        waiting = deque(rows)
        if not self.enqueues and not self.closed:  # nobody is ahead: what fits needs no attempt
            begun = self._admit(waiting, sizes)
            if not waiting:
                return self._flush([QueueAnswer(who)]) if self.dequeues else [QueueAnswer(who)]
            self.enqueues.append(WaitingEnqueue(who, waiting, sizes, begun=begun))
        else:
            self.enqueues.append(WaitingEnqueue(who, waiting, sizes))
        return self._flush([])

    def dequeue(self, who: Hashable, wanted: int = 1, *, up_to: bool = False) -> list[QueueAnswer]:
        """Wants `wanted` elements; zero are there at once."""
        if wanted == 0:
            return [QueueAnswer(who)]
        ahead = self.dequeues or (self.enqueues and self.store.reserve)
        if not ahead and self._available >= wanted:  # as above
            answers = [QueueAnswer(who, self._take(wanted))]
            return self._flush(answers) if self.enqueues else answers
        self.dequeues.append(WaitingDequeue(who, wanted, up_to))
        return self._flush([])

    def close(self, who: Hashable, *, cancel_pending: bool = False) -> list[QueueAnswer]:
        """Wants the queue closed: behind the pending enqueues, or at once, failing them."""
        ended = self._ended or _never
        pending = any(a.closes and not ended(a.who) for a in self.enqueues)
        if self.closed or (pending and not cancel_pending):
            return self._flush([QueueAnswer(who, error=StateError(f"queue {self.name!r} is closed already"))])
        if not cancel_pending:
            self.enqueues.append(WaitingEnqueue(who, deque(), closes=True))
            self._move(QueueEvent.CLOSE)
            return self._flush([])
        return [*self._close_now(QueueEvent.CANCEL), QueueAnswer(who), *self._flush([])]

    def fail(self, error: BaseException) -> list[QueueAnswer]:
        """Closes the queue at once: no more will come, because of `error`.

        Dequeues drain what is inside, then get the error, each a copy of its own; the first one counts.
        Enqueues get QueueClosed, whose cause it is.
        """
        if self.failure is None:
            if isinstance(error, ActorflowError):
                self.failure = error
            else:
                self.failure = StateError(
                    f"no more elements come into queue {self.name!r}: {describe(error)}"
                )
                self.failure.__cause__ = error
        return [*self._close_now(QueueEvent.FAIL), *self._flush([])]

    def cancel(self, who: Hashable) -> list[QueueAnswer]:
        """Forgets the attempts of `who`, who is not answered; the next waiters go on."""
        ended = self._ended or _never
        waited = len(self.enqueues), len(self.dequeues)
        self.enqueues = deque(a for a in self.enqueues if a.who != who and not ended(a.who))
        if self.dequeues and (head := self.dequeues[0]).who == who:
            self._return(head.taken)
            head.taken.clear()
        self.dequeues = deque(a for a in self.dequeues if a.who != who and (a.taken or not ended(a.who)))
        if (left := (len(self.enqueues), len(self.dequeues))) != waited:
            self.story.append(("cancel", *left))
        self._withdraw()
        return self._flush([])

    def put_back(self, entries: Sequence[Entry]) -> list[QueueAnswer]:
        """Puts what was answered where it was: whoever got it has not used it. Waiters go on.

        What the first waiter has taken so far is put back as well, so that it gets them in their order.
        """
        if self.dequeues and (head := self.dequeues[0]).taken:
            entries = [*head.taken, *entries]
            head.taken.clear()
        self._return(entries)
        self.story.append(("put_back", len(entries)))
        return self._flush([])

    def clear(self) -> list[QueueAnswer]:
        """Drops what is inside; those who wait for room go on."""
        self.story.append(("clear", len(self.store)))
        self.store.clear()
        self.bytes = 0
        return self._flush([])

    # -- progress ----------------------------------------------------------------------------------

    def _flush(self, answers: list[QueueAnswer]) -> list[QueueAnswer]:
        """Lets the heads go on until neither can, and returns whom that answers, after those given."""
        while (self.enqueues and self._enqueue_head(answers)) or (
            self.dequeues and self._dequeue_head(answers)
        ):
            pass
        return answers

    def _enqueue_head(self, answers: list[QueueAnswer]) -> bool:
        head = self.enqueues[0]
        who = head.who
        if self._ended is not None and self._ended(who):
            self.enqueues.popleft()
            self._withdraw()
            return True
        if head.closes:
            self._move(QueueEvent.TURN)
        elif self.closed:
            answers.append(QueueAnswer(who, error=self._closed_error(f"queue {self.name!r} is closed")))
            self.enqueues.popleft()
            return True
        elif not self._admit(head.rows, head.sizes):
            return False
        elif head.rows:
            head.begun = True
            return True
        answers.append(QueueAnswer(who))
        self.enqueues.popleft()
        return True

    def _admit(self, rows: deque[Element], sizes: deque[int] | None) -> bool:
        """Puts in rows while there is room; tells whether there was any."""
        store, capacity = self.store, self.capacity
        room = len(rows)
        if capacity is not None and room > capacity - len(store):
            room = capacity - len(store)
        if sizes is not None:
            room = self._admit_by_bytes(room, sizes, rows)
        else:
            put = store.put
            for number in range(self._arrived, self._arrived + room):
                put((number, 0, rows.popleft()))
        if room <= 0:
            return False
        self._arrived += room
        self._note_peaks()
        return True

    def _admit_by_bytes(self, room: int, sizes: deque[int], rows: deque[Element]) -> int:
        """As many of the first `room` rows as the limit of bytes lets in, and returns how many."""
        put, most = self.store.put, self.max_bytes
        for done in range(room):
            held = self.bytes + sizes[0]
            if most is not None and held > most:
                return done
            self.bytes = held
            put((self._arrived + done, sizes.popleft(), rows.popleft()))
        return room

    def _dequeue_head(self, answers: list[QueueAnswer]) -> bool:
        head = self.dequeues[0]
        if self._ended is not None and self._ended(head.who):
            self._return(head.taken)
            self.dequeues.popleft()
            return True
        taken, wanted = head.taken, head.wanted
        found = min(wanted - len(taken), self._available)
        taken += self._take(found)
        if len(taken) < wanted:
            if not self.closed or self.enqueues:
                return found > 0
            if not (head.up_to and taken):
                self._return(taken)
                answers.append(QueueAnswer(head.who, error=self._out_of_range_error(wanted)))
                self.dequeues.popleft()
                return True
        answers.append(QueueAnswer(head.who, taken))
        self.dequeues.popleft()
        return True

    @property
    def _available(self) -> int:
        """How many may be taken now; none when that is negative."""
        reserve = self.store.reserve
        return len(self.store) - (0 if not reserve or self.closed or self.enqueues else reserve)

    def _take(self, count: int) -> list[Entry]:
        take = self.store.take
        entries = [take() for _ in range(count)]
        if self.bytes:
            self.bytes -= sum(size for _, size, _ in entries)
        return entries

    def _return(self, entries: Sequence[Entry]) -> None:
        if entries:
            self.store.put_back(entries)
            self.bytes += sum(size for _, size, _ in entries)
            self._note_peaks()

    def _note_peaks(self) -> None:
        if len(self.store) > self.peak:
            self.peak = len(self.store)
        if self.bytes > self.peak_bytes:
            self.peak_bytes = self.bytes

    # -- closing, and errors -----------------------------------------------------------------------

    def _move(self, event: QueueEvent) -> None:
        """Goes to the phase that follows, and tells what was inside and who waited by then."""
        self.story.append((event.name.lower(), len(self.store), len(self.enqueues), len(self.dequeues)))
        phase = TRANSITIONS.get((self.phase, event))
        if phase is None:
            what = f"nothing follows {event.name} of queue {self.name!r} in {self.phase.name}"
            raise self.story.broken(what)
        self.phase, self.closed = phase, phase in _CLOSED

    def _withdraw(self) -> None:
        """Sees to it that a queue stays open which nobody wants closed any more."""
        if self.phase is QueuePhase.CLOSING and not any(a.closes for a in self.enqueues):
            self._move(QueueEvent.WITHDRAW)

    def _close_now(self, event: QueueEvent) -> list[QueueAnswer]:
        """Closes, and says what that means to the enqueues that wait: who wanted to close it has."""
        self._move(event)
        ended = self._ended or _never
        waiting, self.enqueues = [a for a in self.enqueues if not ended(a.who)], deque()
        what = f"the enqueue was cancelled: queue {self.name!r} was closed"
        return [
            QueueAnswer(a.who) if a.closes else QueueAnswer(a.who, error=self._closed_error(what))
            for a in waiting
        ]

    def _closed_error(self, what: str) -> QueueClosed:
        error = QueueClosed(what, hint="enqueue before closing it" if self.failure is None else None)
        error.__cause__ = self.failure
        return error

    def _out_of_range_error(self, wanted: int) -> ActorflowError:
        if self.failure is not None:
            return self.failure.copy()
        return OutOfRange(
            f"queue {self.name!r} is closed and has insufficient elements "
            f"(requested {wanted}, current size {len(self.store)})"
        )

    def _too_large(self, sizes: Sequence[int]) -> StateError:
        row = next(i for i, size in enumerate(sizes) if size > (self.max_bytes or 0))
        which = f"row {row} of {len(sizes)}" if len(sizes) > 1 else "an element"
        return StateError(
            f"{which} for queue {self.name!r} has {sizes[row]} bytes, more than its limit {self.max_bytes}",
            hint="raise max_bytes, or put in smaller elements",
        )

    # -- looking in --------------------------------------------------------------------------------

    def validate(self) -> None:
        """Raises InternalError where an invariant does not hold."""
        if what := self._violation_of_phase() or self._violation_of_line() or self._violation_of_store():
            what = f"queue {self.name!r}: {what}"
            raise self.story.broken(what)

    def _violation_of_phase(self) -> str | None:
        phase, closes = self.phase, sum(a.closes for a in self.enqueues)
        if self.closed != (phase in _CLOSED):
            return f"a queue is closed when it is CLOSED or FAILED, got {self.closed} in {phase.name}"
        if (phase is QueuePhase.CLOSING) != (closes > 0):
            return f"a queue is CLOSING while a close waits, got {closes} that wait in {phase.name}"
        if (phase is QueuePhase.FAILED) != (self.failure is not None):
            return f"a queue that has an error is FAILED, got {self.failure!r} in {phase.name}"
        return None

    def _violation_of_line(self) -> str | None:
        """Who waits, and could go on; what was taken is the head's alone."""
        if self.enqueues:
            head = self.enqueues[0]
            if head.closes or self.closed or not head.rows:
                return f"nobody waits to enqueue nothing, or into a closed queue, got {head}"
            if self._has_room(head):
                return f"nobody waits for room that is there, got {len(self.enqueues)} that do"
        if self.dequeues:
            if self._available > 0 or (self.closed and not self.enqueues):
                inside = len(self.store)
                return (
                    f"nobody waits for what is there or will not come, got {len(self.dequeues)} and {inside}"
                )
            if wrong := [a for a in self.dequeues if len(a.taken) >= a.wanted]:
                return f"nobody waits who has all, got {wrong[0]}"
            if any(a.taken for a in list(self.dequeues)[1:]):
                return "only the first in line has taken something, got another that has"
        return None

    def _has_room(self, head: WaitingEnqueue) -> bool:
        if self.capacity is not None and len(self.store) >= self.capacity:
            return False
        if head.sizes is None:
            return True
        return self.max_bytes is None or self.bytes + head.sizes[0] <= self.max_bytes

    def _violation_of_store(self) -> str | None:
        inside = len(self.store)
        if inside > self.peak or self.bytes > self.peak_bytes:
            peak = f"{self.peak} and {self.peak_bytes}"
            return f"no more is inside than at most, got {inside} elements of {self.bytes} bytes over {peak}"
        if inside > _SUMMED:
            return None
        entries = [*self.store, *(entry for a in self.dequeues for entry in a.taken)]
        numbers = {number for number, _, _ in entries}
        if len(numbers) < len(entries) or not all(0 <= number < self._arrived for number in numbers):
            return f"each element has a number of its own below {self._arrived}, got {sorted(numbers)}"
        size = sum(size for _, size, _ in self.store)
        if self.bytes != size:
            return f"the bytes inside are {size}, got {self.bytes}"
        return None


def at_least_one(size: Callable[[Element], int]) -> Callable[[Element], int]:
    """Returns a size that counts a byte for an empty element: those cannot be put in without end."""
    return lambda element: size(element) or 1


def _never(who: Hashable) -> bool:
    return False
