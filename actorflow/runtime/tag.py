"""The tag of a token, which names the instance of its edge: step, frame path and iteration.

A tag names; it holds no values. The runtime keeps the matching state of one tag in one flat
object (`dataflow.engine.iteration_state.IterationState`), which carries its tag for reports and keys.
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

    def __str__(self) -> str:
        """For example `step 12, loop/inner, iteration 3`."""
        if not self.frame:
            return f"step {self.step}"
        return f"step {self.step}, {'/'.join(name for name, _ in self.frame)}, iteration {self.iteration}"
