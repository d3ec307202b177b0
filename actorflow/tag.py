"""Which instance of an edge a token belongs to: step, frame path and iteration.

A tag names; it holds no values. The runtime keeps the matching state of one tag in one flat
object (`actors.matching.Live`), which carries its tag for reports and keys.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NewType

StepId = NewType("StepId", int)


@dataclass(frozen=True, slots=True)
class Tag:
    """Step, the frames entered so far as (name, iteration of the outer frame), and the iteration.

    The root frame has the path `()` and only iteration 0.
    """

    step: StepId
    frame: tuple[tuple[str, int], ...] = ()
    iteration: int = 0

    def enter(self, frame: str) -> Tag:
        """Returns iteration 0 of the child frame `frame`."""
        return Tag(self.step, (*self.frame, (frame, self.iteration)), 0)

    def exit(self) -> Tag:
        """Returns the tag of the parent frame at the iteration that entered this one."""
        return Tag(self.step, self.frame[:-1], self.frame[-1][1])

    def next(self) -> Tag:
        """Returns the next iteration of the same frame."""
        return Tag(self.step, self.frame, self.iteration + 1)

    def __str__(self) -> str:
        """For example `step 12, loop/inner, iteration 3`."""
        if not self.frame:
            return f"step {self.step}"
        return f"step {self.step}, {'/'.join(name for name, _ in self.frame)}, iteration {self.iteration}"
