"""The rule of a worker: which permit it works under, what it owes for it, and when it is free to go.

A worker holds an assignment, or is about to take one, and works under one permit at most. Every permit that
it takes up, or holds until it has its assignment, is concluded exactly once: by Computed, Missed or
Exhausted, or by the end of the worker.

A newer permit, or the word that its contribution was dropped, ends the work at once: whoever hands out
another permit has no use for the older one, and a straggler must not finish what was decided long ago.
A worker that is fenced concludes what it has, and takes its assignment anew.

Pure: the state is frozen, each event returns the next one and what is to be done, in that order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

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

Conclusion = Computed | Missed | Exhausted


@dataclass(frozen=True, slots=True)
class WorkerState:
    """Where a worker stands.

    INVARIANT: it works only under an assignment, and only until it is over.

    Attributes:
        assignment: What it joined with; None while it takes one.
        work: The permit under which it works.
        held: The newest permit that came before the assignment did.
        newest: Term and number of the newest permit taken up: none before it is.
        term: The newest term that it has heard of.
        over: Whether it has ended.
    """

    assignment: Assignment | None = None
    work: Permit | None = None
    held: Permit | None = None
    newest: tuple[int, int] = (0, 0)
    term: int = 0
    over: bool = False


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
Decided = tuple[WorkerState, tuple[Effect, ...]]


def seated(duty: WorkerState, seat: Assignment) -> Decided:
    """It has an assignment, and works under the permit that came before."""
    if duty.over:
        return duty, ()
    held = duty.held
    duty = replace(duty, assignment=seat, held=None, term=max(duty.term, seat.term))
    return (duty, ()) if held is None else permitted(duty, held)


def permitted(duty: WorkerState, permit: Permit) -> Decided:
    """A permit has come, perhaps once more, perhaps from a coordinator of old."""
    stamp = permit.term, permit.number
    if duty.over or permit.term < duty.term or stamp <= duty.newest:
        return duty, ()
    if duty.assignment is None:
        older = duty.held
        if older is not None and stamp <= (older.term, older.number):
            return duty, ()
        return replace(duty, held=permit), () if older is None else (_say_missed(older),)
    duty, before = _drop_work(duty)
    return replace(duty, work=permit, newest=stamp, term=permit.term), (*before, BeginWork(permit))


def take_outcome(duty: WorkerState, outcome: ContributionOutcome) -> Decided:
    """The coordinator says what became of a contribution; one that was dropped needs no more work."""
    if outcome.accepted:
        return duty, ()
    if duty.held is not None and duty.held.number == outcome.number:
        return replace(duty, held=None), (_say_missed(duty.held),)
    ours = duty.work is not None and duty.work.number == outcome.number
    return _drop_work(duty) if ours else (duty, ())


def concluded(duty: WorkerState, message: Conclusion) -> Decided:
    """The work under a permit has come to its end; nobody wants to know if it is not the one at hand."""
    if duty.work is None or duty.work.number != message.number:
        return duty, ()
    return replace(duty, work=None), (TellCoordinator(message),)


def unseated(duty: WorkerState) -> Decided:
    """Others have given it up: it was fenced, or cut off from the coordinator."""
    if duty.over or duty.assignment is None:
        return duty, ()
    duty, before = _drop_work(duty)
    return replace(duty, assignment=None), (*before, TakeAssignment())


def ended(duty: WorkerState, end: RunEnded) -> Decided:
    """The run is over, unless a coordinator of old says so; or over for this incarnation, not the next."""
    if end.term < duty.term:
        return duty, ()
    return unseated(duty) if isinstance(end.error, Fenced) else failed(duty, end.error)


def failed(duty: WorkerState, error: ActorflowError | None) -> Decided:
    """There is no way on. Nothing is said any more: there is nobody to hear it."""
    if duty.over:
        return duty, ()
    abandoned = () if duty.work is None else (AbandonWork(duty.work.number),)
    return replace(duty, assignment=None, work=None, held=None, over=True), (*abandoned, FinishRun(error))


def leaving(duty: WorkerState) -> Decided:
    """It is to stop: takes its leave."""
    seat = duty.assignment
    farewell = () if seat is None else (TellCoordinator(Leave(seat.rank, seat.incarnation)),)
    duty, effects = failed(duty, None)
    return duty, (*effects[:-1], *farewell, *effects[-1:])


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


def _drop_work(duty: WorkerState) -> Decided:
    """Ends the work at hand, if there is any."""
    work = duty.work
    if work is None:
        return duty, ()
    return replace(duty, work=None), (AbandonWork(work.number), _say_missed(work))


def _say_missed(permit: Permit) -> TellCoordinator:
    return TellCoordinator(Missed(permit.term, permit.number, permit.rank))
