"""The rule of a conditional accumulator: gradients that are new enough are added up, and taken at once.

* A gradient is accepted when its step is not before the accumulator's; it never waits.
* A take waits in a line until its number of gradients has been accepted; only the head makes
  progress. It gets all that are there, which may be more; then nothing is left, and the step of the
  accumulator is one more. Gradients from before are too old from then on.
* The step may be set, not back.
* What is given back is put back as it was, step included, when nothing has happened since. Else it is
  added to what is there, before it, and the step stays. So every gradient that was accepted is in one
  result, or waits for one.

Source: TensorFlow's `conditional_accumulator_base.h`.
Deviation: there a gradient that is too old is dropped in silence; here the answer tells. There what a
cancelled step took is lost.

Pure: every event returns who is answered and how. What a sum is it need not know.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any

from actorflow.dataflow.state.replies import Replied
from actorflow.errors import StateError
from actorflow.runtime.story import Story
from actorflow.runtime.validation import validates
from actorflow.values.gradient_sum import GradientSum


@dataclass(frozen=True, slots=True, eq=False)
class AccumulatedGradients:
    """All gradients that one take got, and the step before it."""

    sum: Any
    step: int


@validates("apply", "take", "set_step", "cancel", "give_back")
@dataclass(slots=True, repr=False)
class AccumulatorRule:
    """The state of one accumulator.

    INVARIANT: an accepted gradient is in `sum`, or in what one take got; the head of `takes` wants more
    than there are.

    Attributes:
        fresh: Makes a sum of nothing.
        takes: Who waits, and for how many gradients.
        story: What was taken, came back or was too old. A gradient that is added is counted in `sum`.
    """

    name: str
    fresh: Callable[[], GradientSum]
    step: int = 0
    takes: deque[tuple[Hashable, int]] = field(default_factory=deque)
    sum: Any = None
    story: Story = field(default_factory=Story)

    def __post_init__(self) -> None:
        self.sum = self.fresh()

    def __repr__(self) -> str:
        held, waiting = self.sum.count, len(self.takes)
        return f"<AccumulatorRule {self.name!r} {held} gradients at step {self.step}, waiting {waiting} out>"

    def apply(self, who: Hashable, local_step: int, *grad: Any) -> list[Replied]:
        """Adds a gradient that was computed at `local_step`, unless it is too old; tells whether."""
        if local_step < self.step:
            self.story.append(("too_old", local_step, self.step))
            return [Replied(who, False)]
        self.sum.add(*grad)
        return [Replied(who, True), *self._flush()]

    def take(self, who: Hashable, wanted: int) -> list[Replied]:
        """Wants all gradients, once there are `wanted` of them."""
        self.takes.append((who, wanted))
        return self._flush()

    def set_step(self, who: Hashable, step: int) -> list[Replied]:
        """Sets the step, from which on gradients are accepted; StateError for one that is before it."""
        if step < self.step:
            message = (
                f"the step of accumulator {self.name!r} is {self.step}, and cannot be set back to {step}"
            )
            raise StateError(message)
        self.story.append(("set_step", step))
        self.step = step
        return [Replied(who, step)]

    def cancel(self, who: Hashable) -> list[Replied]:
        """Forgets the takes of `who`, who is not answered; the next waiters go on."""
        waited = len(self.takes)
        self.takes = deque(take for take in self.takes if take[0] != who)
        if len(self.takes) != waited:
            self.story.append(("cancel", len(self.takes)))
        return self._flush()

    def give_back(self, taken: AccumulatedGradients) -> list[Replied]:
        """Puts back what was taken and not used."""
        self.story.append(("give_back", taken.step, self.step))
        if not self.sum.count and self.step == taken.step + 1:
            self.step = taken.step
        taken.sum.merge(self.sum)
        self.sum = taken.sum
        return self._flush()

    def validate(self) -> None:
        """Raises InternalError where an invariant does not hold."""
        if (what := self._violation()) is not None:
            raise self.story.broken(what)

    def _violation(self) -> str | None:
        name, count = self.name, self.sum.count
        if self.takes and count >= self.takes[0][1]:
            wanted = self.takes[0][1]
            return f"accumulator {name!r}: the head wants more than there are, got {wanted} of {count}"
        if self.step < 0 or count < 0:
            return f"accumulator {name!r}: it counts up from 0, got step {self.step} and {count} gradients"
        return None

    def _flush(self) -> list[Replied]:
        answers: list[Replied] = []
        while self.takes and self.sum.count >= self.takes[0][1]:
            who, _ = self.takes.popleft()
            self.story.append(("take", self.sum.count, self.step))
            taken = AccumulatedGradients(self.sum, self.step)
            self.sum = self.fresh()
            self.step += 1
            answers.append(Replied(who, taken, undo=taken))
        return answers
