"""The rule of a FIFO queue of tuples: who may go on, in which order, and what closing means.

Waiting is a list of attempts, one for enqueues and one for dequeues; only the head of each may make
progress, so waiters are served strictly in order, and a large `dequeue_many` at the head makes
smaller ones behind it wait.

* An enqueue of many rows puts them in one by one as room appears; a dequeue of many takes them one
  by one as they come. Both show partial progress to others.
* `close()` waits its turn behind the enqueues that are pending; they still finish. `close(cancel)`
  acts at once and fails them. Afterwards an enqueue fails with QueueClosed; dequeues drain the
  rest, and one that cannot be satisfied fails with OutOfRange and **puts back** what it had taken,
  in the old order.
* A cancelled attempt leaves at once; a cancelled dequeue puts back what it had taken.

Source: TensorFlow's `queue_base.cc` and `fifo_queue.cc`.
Deviation: there a cancelled dequeue_many loses what it had taken; here nothing is lost. Elements
put back may exceed the capacity until they are taken again.

Pure: every event returns who is answered and how. No actor, no clock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any

from actorflow.errors import ActorflowError, OutOfRange, QueueClosed, StateError

Element = tuple[Any, ...]


@dataclass(slots=True)
class Enqueue:
    """Rows that wait for room; closing is an attempt with no rows."""

    who: Hashable
    rows: deque[Element]
    closes: bool = False


@dataclass(slots=True)
class Dequeue:
    """A wish for `wanted` elements, and those taken so far; `up_to` accepts fewer after close."""

    who: Hashable
    wanted: int
    up_to: bool
    taken: list[Element] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Answer:
    """`who` is answered with the elements taken, or with an error."""

    who: Hashable
    elements: tuple[Element, ...] = ()
    error: ActorflowError | None = None


class Fifo:
    """The state of one queue.

    INVARIANT: every element that went in is in `elements`, in the `taken` of a waiting dequeue, or
    was answered, exactly once; an attempt is answered once.
    """

    __slots__ = ("capacity", "closed", "dequeues", "elements", "enqueues", "name")

    def __init__(self, name: str, capacity: int | None) -> None:
        self.name = name
        self.capacity = capacity
        self.elements: deque[Element] = deque()
        self.enqueues: deque[Enqueue] = deque()
        self.dequeues: deque[Dequeue] = deque()
        self.closed = False

    def __repr__(self) -> str:
        limit = "unbounded" if self.capacity is None else self.capacity
        return (
            f"<Fifo {self.name!r} {len(self.elements)}/{limit}, waiting {len(self.enqueues)} in, "
            f"{len(self.dequeues)} out{', closed' if self.closed else ''}>"
        )

    def enqueue(self, who: Hashable, rows: list[Element]) -> list[Answer]:
        """Wants the rows put in, in order; none at all is done at once, even when closed."""
        if not rows:
            return [Answer(who)]
        self.enqueues.append(Enqueue(who, deque(rows)))
        return self._flush()

    def dequeue(self, who: Hashable, wanted: int = 1, *, up_to: bool = False) -> list[Answer]:
        """Wants `wanted` elements; zero are there at once."""
        if wanted == 0:
            return [Answer(who)]
        self.dequeues.append(Dequeue(who, wanted, up_to))
        return self._flush()

    def close(self, who: Hashable, *, cancel_pending: bool = False) -> list[Answer]:
        """Wants the queue closed: behind the pending enqueues, or at once, failing them."""
        if self.closed or (not cancel_pending and any(a.closes for a in self.enqueues)):
            return [Answer(who, error=StateError(f"queue {self.name!r} is closed already"))]
        if not cancel_pending:
            self.enqueues.append(Enqueue(who, deque(), closes=True))
            return self._flush()
        self.closed = True
        answers = [
            Answer(a.who)
            if a.closes
            else Answer(
                a.who, error=QueueClosed(f"the enqueue was cancelled: queue {self.name!r} was closed")
            )
            for a in self.enqueues
        ]
        self.enqueues.clear()
        return [*answers, Answer(who), *self._flush()]

    def cancel(self, who: Hashable) -> list[Answer]:
        """Forgets the attempts of `who`, who is not answered; the next waiters go on."""
        self.enqueues = deque(a for a in self.enqueues if a.who != who)
        for attempt in self.dequeues:
            if attempt.who == who:
                self._put_back(attempt)
        self.dequeues = deque(a for a in self.dequeues if a.who != who)
        return self._flush()

    def _flush(self) -> list[Answer]:
        """Lets the heads go on until neither can, and returns whom that answers."""
        answers: list[Answer] = []
        while self._enqueue_head(answers) or self._dequeue_head(answers):
            pass
        return answers

    def _enqueue_head(self, answers: list[Answer]) -> bool:
        if not self.enqueues:
            return False
        head = self.enqueues[0]
        if head.closes:
            self.closed = True
        elif self.closed:
            error = QueueClosed(f"queue {self.name!r} is closed", hint="enqueue before closing it")
            answers.append(Answer(head.who, error=error))
            self.enqueues.popleft()
            return True
        else:
            progress = False
            while head.rows and (self.capacity is None or len(self.elements) < self.capacity):
                self.elements.append(head.rows.popleft())
                progress = True
            if head.rows:
                return progress
        answers.append(Answer(head.who))
        self.enqueues.popleft()
        return True

    def _dequeue_head(self, answers: list[Answer]) -> bool:
        if not self.dequeues:
            return False
        head = self.dequeues[0]
        progress = False
        while self.elements and len(head.taken) < head.wanted:
            head.taken.append(self.elements.popleft())
            progress = True
        if len(head.taken) < head.wanted:
            if not self.closed or self.enqueues:
                return progress
            if not (head.up_to and head.taken):
                self._put_back(head)
                error = OutOfRange(
                    f"queue {self.name!r} is closed and has insufficient elements "
                    f"(requested {head.wanted}, current size {len(self.elements)})"
                )
                answers.append(Answer(head.who, error=error))
                self.dequeues.popleft()
                return True
        answers.append(Answer(head.who, tuple(head.taken)))
        self.dequeues.popleft()
        return True

    def _put_back(self, attempt: Dequeue) -> None:
        self.elements.extendleft(reversed(attempt.taken))
        attempt.taken.clear()
