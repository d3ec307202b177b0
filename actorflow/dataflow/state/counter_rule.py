"""The rule of a counter: each who asks gets the next number, until the limit.

Pure: every event returns who is answered and how.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

from actorflow.dataflow.state.replies import Replied
from actorflow.errors import OutOfRange
from actorflow.runtime.story import Story
from actorflow.runtime.validation import validates

LARGEST = 2**63 - 1


@validates("next", "reset")
@dataclass(slots=True)
class CounterRule:
    """The state of one counter.

    INVARIANT: `start <= value <= limit`; no two answers to `next` are equal between two resets.

    Attributes:
        value: What is given next.
        story: When it ran out or was reset. What it gave is `value`.
    """

    name: str
    start: int = 0
    limit: int = LARGEST
    value: int = 0
    story: Story = field(default_factory=Story)

    def __post_init__(self) -> None:
        self.value = self.start

    def next(self, who: Hashable) -> list[Replied]:
        """Gives the value and adds one; OutOfRange at the limit."""
        if self.value >= self.limit:
            self.story.append(("limit", self.value))
            message = f"counter {self.name!r} has reached its limit of {self.limit}"
            raise OutOfRange(message, hint="reset it to count again")
        self.value += 1
        return [Replied(who, self.value - 1)]

    def read(self, who: Hashable) -> list[Replied]:
        """Gives the value, which is the next that will be given."""
        return [Replied(who, self.value)]

    def reset(self, who: Hashable) -> list[Replied]:
        """Goes back to the start, and gives that."""
        self.story.append(("reset", self.value))
        self.value = self.start
        return [Replied(who, self.start)]

    def validate(self) -> None:
        """Raises InternalError where an invariant does not hold."""
        if not self.start <= self.value <= max(self.start, self.limit):
            what = f"counter {self.name!r} counts from {self.start} to {self.limit}, got {self.value}"
            raise self.story.broken(what)
