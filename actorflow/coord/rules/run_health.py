"""The health of a run: whether it can go on, for whom it waits, and the errors that end it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from actorflow.coord.rules.commit import Commitment, CommitPhase
from actorflow.coord.rules.messages import Batch
from actorflow.errors import (
    ActorflowError,
    DeadlinePassed,
    NumericError,
    ShardLost,
    Stalled,
    describe,
    pluralise,
)
from actorflow.runtime.story import Story
from actorflow.runtime.validation import validates
from actorflow.values.finite import after

if TYPE_CHECKING:
    from actorflow.coord.rules.contribution_table import ContributionTable
    from actorflow.coord.rules.membership import Member, Membership
    from actorflow.coord.rules.permits import Lease, Permits
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


@dataclass(slots=True)
class _Unreached:
    """How often a rank has complained in a row, until when it rests, and what it said last."""

    count: int
    until: float
    why: str


@validates("complain", "restore", "nobody", "excuse")
class Reachability:
    """What is known of workers that do not reach a shard.

    INVARIANT: time runs against the run only while some do not.

    Args:
        heartbeat_s: How long the first rest is.
        longest_s: The longest rest; and how long the run bears that nobody is left who reaches all shards.
    """

    def __init__(self, heartbeat_s: float, longest_s: float) -> None:
        self._heartbeat_s = heartbeat_s
        self._longest_s = longest_s
        self._unreached: dict[int, _Unreached] = {}
        self._since: float | None = None  # nobody is alive who is not cut
        self.story = Story()

    def validate(self) -> None:
        """Raises InternalError where an invariant does not hold."""
        cut = self._unreached.values()
        self.story.check(
            self,
            {
                "who does not reach a shard has said so": all(each.count >= 1 for each in cut),
                "time runs only while some do not reach a shard": self._since is None or bool(cut),
            },
        )

    def complain(self, rank: int, why: str, now: float) -> None:
        """Hears that a rank did not reach a shard; it rests from now on."""
        before = self._unreached.get(rank)
        count = 1 if before is None else before.count + 1
        rest_s = min(self._heartbeat_s * 2.0 ** min(count - 1, 60), self._longest_s)
        self.story.append(("complain", rank, count))
        self._unreached[rank] = _Unreached(count, now + rest_s, why)

    def restore(self, rank: int) -> None:
        """Hears that a rank reaches all shards, or is another process from now on."""
        if self._unreached.pop(rank, None) is not None:
            self.story.append(("restore", rank))
        if not self._unreached:
            self._since = None

    @property
    def unreachable(self) -> tuple[int, ...]:
        """Ranks that have complained since their last contribution, ascending."""
        return tuple(sorted(self._unreached))

    def is_resting(self, rank: int | None, now: float) -> float:
        """Returns how long a rank has yet to rest; 0 for one that does not."""
        cut = None if rank is None else self._unreached.get(rank)
        return 0.0 if cut is None else max(0.0, cut.until - now)

    def nobody(self, alive: Iterable[int], now: float) -> str | None:
        """Returns what one of them said last, once for too long nobody alive has reached all shards."""
        if not self._unreached or any(rank not in self._unreached for rank in alive):
            self._since = None
            return None
        self._since = now if self._since is None else self._since
        if now - self._since <= self._longest_s:
            return None
        return self._unreached[min(self._unreached)].why

    def excuse(self, away_s: float) -> None:
        """Takes so much time as not passed: nobody was listening."""
        if self._since is not None:
            self._since += away_s

    def __repr__(self) -> str:
        return f"<Reachability: {sorted(self._unreached)} are cut off from a shard>"


_UNSAID = ", and does not say that it works on it"


class RunState(Protocol):
    """What is read of the state of a run: nothing of it is changed here."""

    policy: Policy
    settings: RunSettings
    members: Membership
    permits: Permits
    contributions: ContributionTable
    commitment: Commitment

    @property
    def version(self) -> int:
        """Updates committed."""
        ...


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
