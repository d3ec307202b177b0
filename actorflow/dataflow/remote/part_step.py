"""One process's part of a step: what it keeps back until it is known how the step has ended elsewhere."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any, Protocol, cast

from actorflow.dataflow.engine.step import Step
from actorflow.dataflow.remote.installed_part import InstalledPart
from actorflow.errors import ActorflowError
from actorflow.runtime.tag import StepId


class PartStep(Step):
    """This process's part of a step.

    Attributes:
        part: What it runs.
        number: The step's, in its session.
    """

    __slots__ = ("number", "part")

    def __init__(self, number: int, step: int, part: InstalledPart, end: PartOutcome, since: float) -> None:
        future: Any = end  # it has all that a step asks of the future of a session
        super().__init__(StepId(step), part.fetches, future, None, since, part.partition.sends)
        self.number = number
        self.part = part

    def give_back(self) -> None:
        """Gives back what nobody elsewhere may have used; the rest waits for `settle`."""
        takes = self.part.takes
        taken = self.taken or {}
        self.taken = {node: entries for node, entries in taken.items() if node not in takes}
        super().give_back()
        self.taken = {node: entries for node, entries in taken.items() if node in takes} or None

    def settle(self, spent: Container[int]) -> None:
        """Gives back what was taken and is not among the takes that were used up."""
        takes = self.part.takes
        self.taken = {n: e for n, e in (self.taken or {}).items() if takes.get(n) not in spent} or None
        super().give_back()

    @property
    def spends(self) -> tuple[int, ...]:
        """The takes that were used up here."""
        return tuple(sorted(self.spent or ()))


class PartRunner(Protocol):
    """Whoever runs parts."""

    def ran(self, step: PartStep, values: tuple[Any, ...]) -> None:
        """Hears that a part has run: every fetch that lies here has come, and all has been sent."""
        ...

    def failed(self, step: PartStep, error: ActorflowError) -> None:
        """Hears that a part has failed."""
        ...


class PartOutcome:
    """What the end of a part calls, in place of a session's future.

    INVARIANT: `step` is None from the end of the part on, so that part and end are no circle: what the
    part holds dies with it.
    """

    __slots__ = ("_owner", "step")

    def __init__(self, owner: PartRunner) -> None:
        self._owner = owner
        self.step: PartStep | None = None

    def done(self) -> bool:
        """Tells whether the session knows, or need not hear."""
        return self.step is None

    def silence(self) -> None:
        """Lets the part end without a word."""
        self.step = None

    def set_result(self, values: Sequence[Any]) -> None:
        """Hears that the part has run."""
        step, self.step = self.step, None
        if step is not None:
            self._owner.ran(step, tuple(values))

    def set_exception(self, error: BaseException) -> None:
        """Hears that the part has failed."""
        step, self.step = self.step, None
        if step is not None:
            self._owner.failed(step, cast("ActorflowError", error))
