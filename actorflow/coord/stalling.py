"""Who waits for what, when no update is made any more: the text of the error that ends the run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from actorflow.coord.commit import Commitment, Phase
from actorflow.errors import Stalled, counted

if TYPE_CHECKING:
    from actorflow.coord.desk import Desk
    from actorflow.coord.membership import Member, Membership
    from actorflow.coord.permits import Lease, Permits
    from actorflow.coord.policy import Policy
    from actorflow.coord.settings import RunSettings

_UNSAID = ", and does not say that it works on it"


class RunState(Protocol):
    """What is read of the state of a run: nothing of it is changed here."""

    policy: Policy
    settings: RunSettings
    members: Membership
    permits: Permits
    desk: Desk
    commitment: Commitment

    @property
    def version(self) -> int:
        """Updates committed."""
        ...


def stalled(state: RunState, waited_s: float, now: float) -> Stalled:
    """Returns the error for a run in which no update was made for `waited_s`."""
    what = f"no update was made for {waited_s:.1f} s at version {state.version}: {awaited(state, now)}"
    hint = "raise stuck_s if a contribution may take so long"
    return Stalled(what, hint=hint)


def awaited(state: RunState, now: float) -> str:
    """Says for whom, or what, the next update waits."""
    commitment, desk, members = state.commitment, state.desk, state.members.members
    if commitment.phase is not Phase.IDLE:
        verb = "prepare" if commitment.phase is Phase.STAGING else "commit"
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
        number = counted(len(desk.dropped), "contribution")
        parts.append(f"{number} came to nothing, the last one {desk.dropped[-1][1]}")
    return f"{state.policy} waits; " + ("; ".join(parts) or "nobody is at work")


def _doing(state: RunState, member: Member, lease: Lease, now: float) -> str:
    """Says what a worker does under its permit, as far as it has told."""
    if member.number == lease.number:
        return f" and waits for {member.waits}" if member.waits else ""
    return "" if _fresh(state, lease, now) else _UNSAID


def doing(state: RunState, now: float) -> str:
    """Says what is done for the next update: in plain words of a commit, which mostly goes well."""
    commitment, members = state.commitment, state.members.members
    if commitment.phase is Phase.IDLE or commitment.chosen is None:
        return awaited(state, now)
    shards = ", ".join(f"ps{shard}" for shard in sorted(commitment.missing))
    have = "has" if len(commitment.missing) == 1 else "have"
    verb = "to be ready for it" if commitment.phase is Phase.STAGING else "to apply it"
    made = ", ".join(dict.fromkeys(members[rank].process for rank, _ in commitment.chosen))
    return f"update {state.version + 1} is made of what {made} sent: {shards} {have} yet {verb}"


def _fresh(state: RunState, lease: Lease, now: float) -> bool:
    """Whether its worker has not had the time to say that it works on it."""
    return now - lease.since <= 2 * state.settings.beat_s
