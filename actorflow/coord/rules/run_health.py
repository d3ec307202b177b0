"""The health of a run: what holds between its rules, for whom it waits, and the errors that end it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

from actorflow.coord.rules.commit import Commitment, CommitPhase
from actorflow.coord.rules.lifecycle import Lifecycle, Quorum, RunPhase
from actorflow.coord.rules.messages import Batch, RunEnded
from actorflow.errors import (
    ActorflowError,
    DeadlinePassed,
    NumericError,
    ShardLost,
    Stalled,
    describe,
    pluralise,
)
from actorflow.values.finite import after

if TYPE_CHECKING:
    from actorflow.coord.rules.contribution_table import ContributionTable, Lease, Permits
    from actorflow.coord.rules.membership import Member, Membership
    from actorflow.coord.rules.policy import Policy
    from actorflow.coord.rules.run_settings import RunSettings


NOT_FINITE = "not finite: "
"""How the reason begins for which such a contribution is dropped."""

_NAMED = 4
"""Contributions of an update that an error names; the others are counted."""


def bear(dropped: int, error: ActorflowError, most: int) -> tuple[int, str | ActorflowError]:
    """Returns how many are dropped now, and why this one is; or the error that the run ends with.

    Args:
        dropped: How many were dropped before.
        error: Why there will be no contribution.
        most: How many a run drops; 0 for an error of another kind.
    """
    if dropped < most:
        return dropped + 1, f"{NOT_FINITE}{error.what}"
    return dropped, after(error, dropped) if most and isinstance(error, NumericError) else error


def kind(reason: str) -> str:
    """Returns of what kind a reason is, such as "late" or "not finite", without what it says beyond that."""
    return reason.partition(":")[0]


def dropped_of(reasons: Iterable[str]) -> int:
    """Returns how many contributions were dropped since they were not finite."""
    return sum(reason.startswith(NOT_FINITE) for reason in reasons)


def made_of(error: ActorflowError, made: Sequence[tuple[str, Batch]]) -> ActorflowError:
    """Returns why an update is not made: where a mean, a value or state is not finite, with what it was of.

    Args:
        error: What a shard found.
        made: By whom each of its contributions was computed, and of which batch.
    """
    if not isinstance(error, NumericError) or not made:
        return error
    whose = [f"batch {at.index} of epoch {at.epoch} by {process!r}" for process, at in made]
    more = [f"{len(whose) - _NAMED} more"] if len(whose) > _NAMED else []
    what = f"{error.what}; in the update computed of {' and '.join([*whose[:_NAMED], *more])}"
    named = NumericError(what, where=error.where, hint=error.hint)
    named.__cause__ = error.__cause__
    return named


def shard_lost_error(
    shard: int, at: str | None, version: int | None, error: BaseException | None, fence_s: float
) -> ShardLost:
    """Returns the error of a run without one of its shards.

    Args:
        shard: Its number.
        at: Its process; None where it has no name of its own.
        version: Where the run is; None before it has begun.
        error: How that was found out.
        fence_s: How long the shard had to say where it stands.
    """
    hint = None
    named = f"shard {shard}" if at is None else f"shard {shard}, of '{at}',"
    why = "" if error is None else f": {describe(error).splitlines()[0]}"
    if version is not None:
        what = f"{named} is gone at version {version}, and its parameters with it{why}"
    elif isinstance(error, DeadlinePassed):
        what = f"{named} did not say where it stands within {fence_s:g} s, so the run has not begun"
        hint = "a later run goes on once it answers again; raise fence_s if it may take so long"
    else:
        what = f"{named} is not there, so the run has not begun{why}"
    wrong = ShardLost(what, hint=hint)
    wrong.__cause__ = error
    return wrong


_UNSAID = ", and does not say that it works on it"


class RunState(Protocol):
    """What is read of the state of a run: nothing of it is changed here."""

    term: int
    first: int
    policy: Policy
    settings: RunSettings
    members: Membership
    permits: Permits
    contributions: ContributionTable
    commitment: Commitment
    lifecycle: Lifecycle
    quorum: Quorum
    ended: RunEnded | None

    @property
    def version(self) -> int:
        """Updates committed."""
        ...


def invariants(run: RunState) -> dict[str, bool]:
    """Returns what must hold between the rules of a run, a sentence each, and whether it does."""
    out, alive, phase = run.permits.out.items(), run.members.alive, run.lifecycle.phase
    over = run.lifecycle.over
    newest = run.version + (run.commitment.phase is not CommitPhase.IDLE)
    complete, staged = run.contributions.complete, run.contributions.staged
    made = tuple((rank, entry.lease.number) for rank, entry in staged.items())
    return {
        "a run has an end exactly when it has ended": (run.ended is not None) is (phase is RunPhase.ENDED),
        "all rules obey one term": run.term == run.commitment.term == run.permits.term,
        "nobody starts before enough are there": over or run.quorum.holds is (phase is not RunPhase.RUNNING),
        "it holds once all were gathered": phase is not RunPhase.HOLDING or run.quorum.gathered,
        "a reason to end ends it": over or phase is RunPhase.STARTING or not run.lifecycle.ends,
        "who has a permit is alive": all(run.members.is_alive(r, e.incarnation) for r, e in out),
        "who lives has a clock": all(rank in run.contributions.clock for rank in alive),
        "a permit is for this version, or the one that is made": over
        or all(e.version <= newest for _, e in out),
        "a permit of a fresh policy is for no version before": over
        or not run.policy.fresh
        or all(e.version >= run.version for _, e in out),
        "what a fresh policy may use is of no version before": over
        or not run.policy.fresh
        or all(entry.base >= run.version for entry in (*complete.values(), *staged.values())),
        "what is in the making is what is committed": over
        or made == (run.commitment.chosen or ())
        or (not made and run.version < run.first),  # an earlier term began it
        "a run has no more updates than it was to have": run.settings.steps is None
        or phase is RunPhase.STARTING
        or run.version <= run.first + run.settings.steps,
    }


def stalled_error(state: RunState, waited_s: float, now: float) -> Stalled:
    """Returns the error for a run in which no update was made for `waited_s`."""
    what = f"no update was made for {waited_s:.1f} s at version {state.version}: {describe_wait(state, now)}"
    hint = "raise stuck_s if a contribution may take so long"
    return Stalled(what, hint=hint)


def describe_wait(state: RunState, now: float) -> str:
    """Says for whom, or what, the next update waits."""
    commitment, desk, members = state.commitment, state.contributions, state.members.members
    if commitment.phase is not CommitPhase.IDLE:
        verb = "prepare" if commitment.phase is CommitPhase.STAGING else "commit"
        return (
            f"shards {sorted(commitment.missing)} were told to {verb} {commitment.chosen} and do not answer"
        )
    out = [
        f"{members[r].process} has permit {lease.number} since {now - lease.since:.1f} s"
        + _doing(state, members[r], lease, now)
        for r, lease in sorted(state.permits.out.items())
    ]
    done = [f"{members[r].process} has completed {entry.lease.number}" for r, entry in desk.complete.items()]
    free = [f"{members[r].process} may not start" for r in desk.view(state.version, now).free]
    parts = [*out, *done, *free]
    if desk.dropped:
        number = pluralise(len(desk.dropped), "contribution")
        parts.append(f"{number} came to nothing, the last one {desk.dropped[-1][1]}")
    return f"{state.policy} waits; " + ("; ".join(parts) or "nobody is at work")


def _doing(state: RunState, member: Member, lease: Lease, now: float) -> str:
    """Says what a worker does under its permit, as far as it has told."""
    if member.number == lease.number:
        return f" and waits for {member.waits}" if member.waits else ""
    return "" if _fresh(state, lease, now) else _UNSAID


def describe_work(state: RunState, now: float) -> str:
    """Says what is done for the next update: in plain words of a commit, which mostly goes well."""
    commitment, members = state.commitment, state.members.members
    if commitment.phase is CommitPhase.IDLE or commitment.chosen is None:
        return describe_wait(state, now)
    shards = ", ".join(f"ps{shard}" for shard in sorted(commitment.missing))
    have = "has" if len(commitment.missing) == 1 else "have"
    verb = "to be ready for it" if commitment.phase is CommitPhase.STAGING else "to apply it"
    made = ", ".join(dict.fromkeys(members[rank].process for rank, _ in commitment.chosen))
    return f"update {state.version + 1} is made of what {made} sent: {shards} {have} yet {verb}"


def _fresh(state: RunState, lease: Lease, now: float) -> bool:
    """Whether its worker has not had the time to say that it works on it."""
    return now - lease.since <= 2 * state.settings.heartbeat_s
