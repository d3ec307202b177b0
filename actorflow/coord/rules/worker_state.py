"""The state of a worker: which permit it works under, what it owes for it, and when it is free to go.

             assign   hold     begin    conclude  drop     give up  end
    joining  idle     joining  .        .         joining  .        over
    idle     idle     .        working  .         .        joining  over
    working  working  .        working  idle      idle     joining  over
    over     .        .        .        .         .        .        .

A worker holds an assignment, or is about to take one, and works under one permit at most. Every permit that
it takes up, or holds until it has its assignment, is concluded exactly once: by Computed, Missed or
Exhausted, or by the end of the worker.

A newer permit, or the word that its contribution was dropped, ends the work at once: whoever hands out
another permit has no use for the older one, and a straggler must not finish what was decided long ago.
A worker that is fenced concludes what it has, and takes its assignment anew.

Pure: each event returns what is to be done, in that order. `coord.actors.worker` obeys it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from actorflow.coord.rules.messages import (
    Assignment,
    Computed,
    ContributionOutcome,
    Exhausted,
    Leave,
    Missed,
    Permit,
    RunEnded,
)
from actorflow.errors import ActorflowError, Fenced
from actorflow.runtime.story import Story
from actorflow.runtime.validation import validates

Conclusion = Computed | Missed | Exhausted


class WorkerPhase(StrEnum):
    """Where a worker stands."""

    JOINING = "joining"
    IDLE = "idle"
    WORKING = "working"
    OVER = "over"


class WorkerEvent(StrEnum):
    """What moves it from one phase to the next."""

    ASSIGN = "assign"
    HOLD = "hold"
    BEGIN = "begin"
    CONCLUDE = "conclude"
    DROP = "drop"
    GIVE_UP = "give up"
    END = "end"


TRANSITIONS: Final[Mapping[tuple[WorkerPhase, WorkerEvent], WorkerPhase]] = {
    (WorkerPhase.JOINING, WorkerEvent.ASSIGN): WorkerPhase.IDLE,
    (WorkerPhase.JOINING, WorkerEvent.HOLD): WorkerPhase.JOINING,  # a permit overtook the assignment
    (WorkerPhase.JOINING, WorkerEvent.DROP): WorkerPhase.JOINING,
    (WorkerPhase.IDLE, WorkerEvent.ASSIGN): WorkerPhase.IDLE,  # it asked twice
    (WorkerPhase.IDLE, WorkerEvent.BEGIN): WorkerPhase.WORKING,
    (WorkerPhase.IDLE, WorkerEvent.GIVE_UP): WorkerPhase.JOINING,
    (WorkerPhase.WORKING, WorkerEvent.ASSIGN): WorkerPhase.WORKING,
    (WorkerPhase.WORKING, WorkerEvent.BEGIN): WorkerPhase.WORKING,  # a newer permit replaces the older
    (WorkerPhase.WORKING, WorkerEvent.CONCLUDE): WorkerPhase.IDLE,
    (WorkerPhase.WORKING, WorkerEvent.DROP): WorkerPhase.IDLE,
    (WorkerPhase.WORKING, WorkerEvent.GIVE_UP): WorkerPhase.JOINING,
    (WorkerPhase.JOINING, WorkerEvent.END): WorkerPhase.OVER,
    (WorkerPhase.IDLE, WorkerEvent.END): WorkerPhase.OVER,
    (WorkerPhase.WORKING, WorkerEvent.END): WorkerPhase.OVER,
}


@dataclass(frozen=True, slots=True)
class BeginWork:
    """Work under this permit."""

    permit: Permit


@dataclass(frozen=True, slots=True)
class AbandonWork:
    """Stop working under the permit of this number; nothing of it is to be said any more."""

    number: int


@dataclass(frozen=True, slots=True)
class TellCoordinator:
    """Tell the coordinator."""

    message: Conclusion | Leave


@dataclass(frozen=True, slots=True)
class TakeAssignment:
    """Join."""


@dataclass(frozen=True, slots=True)
class FinishRun:
    """The worker has ended; `error` says why if not in good order."""

    error: ActorflowError | None


Effect = BeginWork | AbandonWork | TellCoordinator | TakeAssignment | FinishRun


@validates("assign", "permit", "take_outcome", "conclude", "give_up", "end", "fail", "leave")
class WorkerState:
    """Where a worker stands.

    INVARIANT: it has an assignment exactly while it is idle or working, and a permit exactly while working.
    INVARIANT: it works under the newest permit that it has taken up, of a term that is not older than any
        it has heard of.
    INVARIANT: a permit is held only while it takes an assignment.

    Attributes:
        phase: Where in the table.
        assignment: What it joined with; None while it takes one.
        work: The permit under which it works.
        held: The newest permit that came before the assignment did.
        newest: Term and number of the newest permit taken up: none before it is.
        term: The newest term that it has heard of.
        story: Its last transitions.
    """

    __slots__ = ("assignment", "held", "newest", "phase", "story", "term", "work")

    def __init__(self) -> None:
        self.phase = WorkerPhase.JOINING
        self.assignment: Assignment | None = None
        self.work: Permit | None = None
        self.held: Permit | None = None
        self.newest = (0, 0)
        self.term = 0
        self.story = Story()

    def validate(self) -> None:
        """Raises InternalError where an invariant does not hold."""
        phase, assignment, work = self.phase, self.assignment, self.work
        joined = phase in (WorkerPhase.IDLE, WorkerPhase.WORKING)
        self.story.check(
            self,
            {
                "a worker has an assignment exactly while it is idle or working": (assignment is not None)
                is joined,
                "it has a permit exactly while it works": (work is not None)
                is (phase is WorkerPhase.WORKING),
                "it works under the newest permit": work is None or (work.term, work.number) == self.newest,
                "a permit is held only while it joins": self.held is None or phase is WorkerPhase.JOINING,
                "it obeys the newest term": self.newest[0] <= self.term
                and (assignment is None or assignment.term <= self.term),
            },
        )

    def __repr__(self) -> str:
        at = "" if self.work is None else f" on {self.work.number}"
        return f"<WorkerState {self.phase.value}{at}, term {self.term}>"

    @property
    def over(self) -> bool:
        """Whether it has ended."""
        return self.phase is WorkerPhase.OVER

    def assign(self, assignment: Assignment) -> tuple[Effect, ...]:
        """It has an assignment, and works under the permit that came before."""
        if self.over:
            return ()
        self._move(WorkerEvent.ASSIGN, assignment.term, assignment.rank, assignment.incarnation)
        held, self.held = self.held, None
        self.assignment, self.term = assignment, max(self.term, assignment.term)
        return () if held is None else self.permit(held)

    def permit(self, permit: Permit) -> tuple[Effect, ...]:
        """A permit has come, perhaps once more, perhaps from a coordinator of old."""
        stamp = permit.term, permit.number
        if self.over or permit.term < self.term or stamp <= self.newest:
            return ()
        if self.assignment is None:
            return self._hold(permit)
        before = self._drop_work()
        self._move(WorkerEvent.BEGIN, permit.number)
        self.work, self.newest, self.term = permit, stamp, permit.term
        return (*before, BeginWork(permit))

    def _hold(self, permit: Permit) -> tuple[Effect, ...]:
        older = self.held
        if older is not None and (permit.term, permit.number) <= (older.term, older.number):
            return ()
        self._move(WorkerEvent.HOLD, permit.number)
        self.held = permit
        return () if older is None else (_say_missed(older),)

    def take_outcome(self, outcome: ContributionOutcome) -> tuple[Effect, ...]:
        """The coordinator says what became of a contribution; one that was dropped needs no more work."""
        if outcome.accepted:
            return ()
        held = self.held
        if held is not None and held.number == outcome.number:
            self._move(WorkerEvent.DROP, held.number)
            self.held = None
            return (_say_missed(held),)
        ours = self.work is not None and self.work.number == outcome.number
        return self._drop_work() if ours else ()

    def conclude(self, message: Conclusion) -> tuple[Effect, ...]:
        """The work under a permit has come to its end; nobody wants to know if it is not the one at hand."""
        if self.work is None or self.work.number != message.number:
            return ()
        self._move(WorkerEvent.CONCLUDE, message.number)
        self.work = None
        return (TellCoordinator(message),)

    def give_up(self) -> tuple[Effect, ...]:
        """Others have given it up: it was fenced, or cut off from the coordinator."""
        if self.over or self.assignment is None:
            return ()
        before = self._drop_work()
        self._move(WorkerEvent.GIVE_UP)
        self.assignment = None
        return (*before, TakeAssignment())

    def end(self, end: RunEnded) -> tuple[Effect, ...]:
        """The run is over, unless a coordinator of old says so; or it is for this incarnation alone."""
        if end.term < self.term:
            return ()
        return self.give_up() if isinstance(end.error, Fenced) else self.fail(end.error)

    def fail(self, error: ActorflowError | None) -> tuple[Effect, ...]:
        """There is no way on. Nothing is said any more: there is nobody to hear it."""
        if self.over:
            return ()
        abandoned = () if self.work is None else (AbandonWork(self.work.number),)
        self._move(WorkerEvent.END)
        self.assignment = self.work = self.held = None
        return (*abandoned, FinishRun(error))

    def leave(self) -> tuple[Effect, ...]:
        """It is to stop: takes its leave."""
        assignment = self.assignment
        farewell = (
            () if assignment is None else (TellCoordinator(Leave(assignment.rank, assignment.incarnation)),)
        )
        effects = self.fail(None)
        return (*effects[:-1], *farewell, *effects[-1:])

    def _drop_work(self) -> tuple[Effect, ...]:
        """Ends the work at hand, if there is any."""
        work = self.work
        if work is None:
            return ()
        self._move(WorkerEvent.DROP, work.number)
        self.work = None
        return AbandonWork(work.number), _say_missed(work)

    def _move(self, event: WorkerEvent, *facts: int) -> None:
        """Takes an event of the table."""
        after = TRANSITIONS.get((self.phase, event))
        if after is None:
            message = f"{self!r} knows no {event}"
            raise self.story.broken(message)
        self.story.append((event, *facts))
        self.phase = after


def base_of(permit: Permit, versions: Sequence[int], *, fresh: bool, apart: bool = False) -> int | None:
    """Returns the version from which a contribution is computed: the oldest pulled; None when it is late.

    Args:
        permit: Under which it is made.
        versions: What the shards gave.
        fresh: Whether all of them must be at the version of the permit.
        apart: Whether one of them will do: shards close updates by themselves, and who is ahead refuses it.
    """
    if fresh and apart:
        return permit.version if permit.version in versions else None
    if fresh and any(version != permit.version for version in versions):
        return None
    return min(versions)


def _say_missed(permit: Permit) -> TellCoordinator:
    return TellCoordinator(Missed(permit.term, permit.number, permit.rank))
