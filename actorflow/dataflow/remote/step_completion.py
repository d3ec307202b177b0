"""The rule of how a step ends that runs in several processes: who has yet to say what about it.

A step ends well when all its parts are done, and only then. The first failure ends it otherwise: every
part that may still do something, or holds something, is told to abort, and says when nothing happens
there any more and which takes it has used up. When all have said so, or are lost, those who hold what was
taken out of queues learn what of it to give back, and say that it is back.

INVARIANT: a step is over exactly once, well or not; after that nothing changes it but `settle`, once, and
`settle_process`.

Pure: events go in, and whom to tell comes out.
"""

from __future__ import annotations

from collections.abc import Iterable

from actorflow.errors import ActorflowError


class StepCompletion:
    """The parts of one step.

    Attributes:
        parts: All processes that take part.
        running: Processes whose part is not done.
        open: Processes that keep something until they hear how the step ended.
        aborting: Processes that were told to abort and have not answered.
        returning: Processes that were told to give back what nobody has used, and have not answered.
        spent: Takes that were used up, as far as it is known.
        error: What ended the step; None as long as it may end well.
        over: Whether nothing of it happens anywhere.
    """

    __slots__ = ("aborting", "error", "open", "over", "parts", "returning", "running", "spent")

    def __init__(self, processes: Iterable[str]) -> None:
        self.parts = frozenset(processes)
        self.running = set(self.parts)
        self.open: set[str] = set()
        self.aborting: set[str] = set()
        self.returning: set[str] = set()
        self.spent: set[int] = set()
        self.error: ActorflowError | None = None
        self.over = not self.running

    def __repr__(self) -> str:
        state = "over" if self.over else "aborting" if self.error is not None else "running"
        return f"<StepCompletion {state}, running {sorted(self.running)}, aborting {sorted(self.aborting)}>"

    def done(self, process: str, holds: bool, spent: Iterable[int]) -> bool:
        """Takes that a part is done; returns whether the step has ended well with it."""
        if self.over or process not in self.running:
            return False
        self.running.remove(process)
        self.spent.update(spent)
        if holds:
            self.open.add(process)
        self.over = self.error is None and not self.running
        return self.over

    def fail(self, error: ActorflowError) -> tuple[str, ...]:
        """Takes that the step must end with `error`; returns whom to tell: nobody the second time."""
        if self.over or self.error is not None:
            return ()
        self.error = error
        self.aborting = self.running | self.open
        self.over = not self.aborting
        return tuple(sorted(self.aborting))

    def aborted(self, process: str, holds: bool, spent: Iterable[int]) -> bool:
        """Takes that nothing happens at a process any more; returns whether the step is over with it."""
        if process not in self.aborting:
            return False
        self.spent.update(spent)
        self._gone(process)
        if holds:
            self.open.add(process)
        return self.over

    def lost(self, process: str) -> bool:
        """Takes that a process is gone, after `fail`; returns whether the step is over with it.

        What it held is gone as well.
        """
        if self.over:
            return False
        self._gone(process)
        return self.over

    def settle(self, *, well: bool) -> tuple[str, ...]:
        """Takes that a step that is over counts as ended well or not; returns whom to tell.

        Unless it did they give back what nobody has used. Nobody is told a second time.
        """
        told, self.open = tuple(sorted(self.open)), set()
        if not well:
            self.returning.update(told)
        return told

    def settle_process(self, process: str) -> bool:
        """Takes that a process has given back, or is gone; returns whether all is back with it."""
        if process not in self.returning:
            return False
        self.returning.remove(process)
        return not self.returning

    def _gone(self, process: str) -> None:
        self.running.discard(process)
        self.open.discard(process)
        self.aborting.discard(process)
        self.over = self.error is not None and not self.aborting

    def concerns(self, process: str) -> bool:
        """Tells whether the loss of a process ends the step: what it has sent may be lost as well."""
        return not self.over and process in self.parts
