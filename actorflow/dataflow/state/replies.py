"""The replies of the rule of a resource: who is answered, and how; and that a write is applied once.

A rule takes events and returns answers; the actor obeys. Who is answered is an opaque name here: the
reply of a node's call, or a text in tests.

Pure: no actor, no clock.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from actorflow.dataflow.state.register import Forget, Source
from actorflow.errors import ActorflowError, StateError


@dataclass(frozen=True, slots=True)
class Replied:
    """`who` is answered with a value or with an error.

    Attributes:
        undo: What to give back to the rule if nobody gets to use the value; None where nothing was taken.
    """

    who: Hashable
    value: Any = None
    error: ActorflowError | None = None
    undo: Any = None


class AppliedWrites:
    """Remembers the last write of each source, so that a retry is answered and not applied again.

    INVARIANT: the sequences of one source grow, so one that is not larger than the last is a retry.
    """

    __slots__ = ("last",)

    def __init__(self) -> None:
        self.last: dict[Source, tuple[int, Any]] = {}

    def is_retry(self, source: Source, sequence: int) -> bool:
        """Tells whether the write was applied before."""
        last = self.last.get(source)
        return last is not None and sequence <= last[0]

    def answer_again(self, who: Hashable, source: Source, sequence: int) -> list[Replied]:
        """The answer to a retry: what the write was answered with; StateError when that is too long ago."""
        last, value = self.last[source]
        if sequence == last:
            return [Replied(who, value)]
        message = f"write {sequence} of {source!r} was applied once; its answer is gone since write {last}"
        return [Replied(who, error=StateError(message))]

    def forget(self, whom: Forget) -> None:
        """Lets go of the answers of sources that will not write again, and of what these hold."""
        whom.take_from(self.last)

    def record(self, source: Source, sequence: int, who: Hashable, answers: Sequence[Replied]) -> None:
        """Notes a write and its answer; a refused one has changed nothing and may be tried again."""
        for answer in answers:
            if answer.who == who and answer.error is None:
                self.last[source] = (sequence, answer.value)
