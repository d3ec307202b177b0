"""The admission of steps: so many run at once, and those that others of them wait for.

A step that runs may run further steps of its session, from code of the user that it calls. It ends only
when these have, so that its place does nothing meanwhile: it lends it to one of them at a time. Without
that, steps that fill all places and run further ones would wait for each other for ever.

| a step | its place |
| --- | --- |
| run by no step of the session | one of `limit`, in the order of calls |
| run by a step | one of `limit` if there is room; else that of the step which runs it, when it is not lent |
| computes an initial value | none: others may wait for it |

Whose place a step has when the step that lent it ends first, it keeps. So of `limit` places no more than
`limit` are ever taken, however deep steps are nested; how deep they may be is `MAX_DEPTH`.

Pure: no actor, no clock; steps are opaque names.
"""

from __future__ import annotations

from collections.abc import Container, Hashable, Sequence
from typing import Any, Generic, TypeVar

from actorflow.errors import AskCycle

S = TypeVar("S", bound=Hashable)

MAX_DEPTH = 64
"""How deep steps may run steps of their own session."""


def check_nesting(parent: Any, live: Container[Any]) -> None:
    """Raises AskCycle where one more step would be too deep.

    Args:
        parent: The step whose code would run it, and knows its own `parent`; None where there is none.
        live: The steps of the session that run.
    """
    ring = []
    while parent is not None:
        if parent in live:
            ring.append(parent.id)
        parent = parent.parent
    if len(ring) >= MAX_DEPTH:
        path = " -> ".join(f"step {number}" for number in reversed(ring[:3]))
        message = (
            f"steps of a session may run steps of it {MAX_DEPTH} deep, "
            f"got step {ring[-1]} -> ... -> {path} -> one more"
        )
        raise AskCycle(message, hint="have the code that runs a step end without one")


def runner_of(step: Any, live: Container[Any]) -> Any:
    """Returns the nearest of the steps `live` whose code runs this one."""
    runner = step.parent
    while runner is not None and runner not in live:
        runner = runner.parent
    return runner


class Admission(Generic[S]):
    """Who runs, and who waits for a place.

    INVARIANT: `taken` is how many of `live` have a place of their own, and at most `limit`.
    INVARIANT: nobody waits while there is a place, or while the step that runs it has one to lend.

    Attributes:
        live: Those that run, and whose place each has: None for its own, itself where it needs none.
        granted: Who has the place of a step that runs it.
        waiting: Those that wait, and which step runs each.
        taken: How many of the places are taken.
    """

    __slots__ = ("granted", "limit", "live", "taken", "waiting")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.live: dict[S, S | None] = {}
        self.granted: dict[S, S] = {}
        self.waiting: dict[S, S | None] = {}
        self.taken = 0

    def ask(self, step: S, within: S | None = None) -> bool:
        """Tells whether a step may begin now; else it waits.

        Args:
            step: The step.
            within: The step that runs it, and runs itself; None where there is none.
        """
        if self.taken < self.limit:
            self.taken += 1
            self.live[step] = None
        elif within is not None and within not in self.granted:
            self.granted[within] = step
            self.live[step] = within
        else:
            self.waiting[step] = within
            return False
        return True

    def ahead(self, step: S) -> list[list[S]]:
        """Returns groups of steps: once one has ended there is a place, for `step` or who is before it."""
        within = self.waiting.get(step)
        groups = [self._with_lent(each) for each, place in self.live.items() if place is None]
        if within is not None and within in self.granted:
            groups.append(self._with_lent(self.granted[within]))
        return groups

    def _with_lent(self, step: S) -> list[S]:
        """Returns a step, who has its place, and so on."""
        found = [step]
        while found[-1] in self.granted:
            found.append(self.granted[found[-1]])
        return found

    def free(self, step: S) -> None:
        """A step begins that needs no place."""
        self.live[step] = step

    def end(self, step: S) -> Sequence[S]:
        """A step has ended, or waits no more; returns those that begin now, first come first served."""
        if not self.granted and not self.waiting:  # nobody to think of: 0.5 µs of a step of 11
            self.taken -= self.live.pop(step, step) is None
            return ()
        if self.waiting.pop(step, step) is not step:
            return []
        lender = self.live.pop(step, step)
        child = self.granted.pop(step, None)
        orphans = [waiting for waiting, within in self.waiting.items() if within is step]
        for orphan in orphans:
            self.waiting[orphan] = None
        if child is not None:
            self.live[child] = child if lender is step else lender
            if lender is not None and lender is not step:
                self.granted[lender] = child
            return []
        if lender is step:
            return []
        if lender is None:
            self.taken -= 1
            found = next(iter(self.waiting), None)
        else:
            del self.granted[lender]
            found = next((waiting for waiting, within in self.waiting.items() if within is lender), None)
        if found is None:
            return []
        self.ask(found, self.waiting.pop(found))
        return [found]
