"""The rule of a commit group: whether all members have staged, or one refused. Pure.

A training update changes many variables and the optimizer's own state as one. Each member stages
its part first: it checks and keeps all that the commit will need. Only when every member has
staged does the group commit, and a commit cannot fail; one refusal discards the group everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

from actorflow.errors import InternalError


class GroupDecision(Enum):
    """What the owner of the group does next."""

    WAIT = "wait"
    COMMIT = "commit"
    DISCARD = "discard"


@dataclass(frozen=True, slots=True)
class CommitGroup:
    """Members that have not answered yet, and the first refusal.

    INVARIANT: the decision is WAIT while anyone is awaited, even after a refusal, so that a discard
    can never overtake a stage.
    """

    awaited: frozenset[str]
    refusal: BaseException | None = None

    @property
    def decision(self) -> GroupDecision:
        """What follows from the answers so far."""
        if self.awaited:
            return GroupDecision.WAIT
        return GroupDecision.COMMIT if self.refusal is None else GroupDecision.DISCARD


def init(members: frozenset[str]) -> CommitGroup:
    """Returns the group before any answer."""
    return CommitGroup(members)


def staged(group: CommitGroup, member: str) -> CommitGroup:
    """Notes that `member` keeps its part."""
    return replace(group, awaited=_without(group, member))


def refused(group: CommitGroup, member: str, error: BaseException) -> CommitGroup:
    """Notes that `member` keeps nothing; the first refusal is the one that is reported."""
    return CommitGroup(_without(group, member), group.refusal or error)


def _without(group: CommitGroup, member: str) -> frozenset[str]:
    if member not in group.awaited:
        message = f"{member!r} answered a commit group that does not await it"
        raise InternalError(message)
    return group.awaited - {member}
