"""Is a commit group complete? All members have staged, or one refused. Pure.

A training update changes many variables and the optimizer's own state as one. Each member stages
its part first: it checks and keeps all that the commit will need. Only when every member has
staged does the group commit, and a commit cannot fail; one refusal discards the group everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

from actorflow.errors import InternalError


class Verdict(Enum):
    """What the owner of the group does next."""

    WAIT = "wait"
    COMMIT = "commit"
    DISCARD = "discard"


@dataclass(frozen=True, slots=True)
class Group:
    """Members that have not answered yet, and the first refusal.

    INVARIANT: the verdict is WAIT while anyone is awaited, even after a refusal, so that a discard
    can never overtake a stage.
    """

    awaited: frozenset[str]
    refusal: BaseException | None = None

    @property
    def verdict(self) -> Verdict:
        """What follows from the answers so far."""
        if self.awaited:
            return Verdict.WAIT
        return Verdict.COMMIT if self.refusal is None else Verdict.DISCARD


def init(members: frozenset[str]) -> Group:
    """Returns the group before any answer."""
    return Group(members)


def staged(group: Group, member: str) -> Group:
    """Notes that `member` keeps its part."""
    return replace(group, awaited=_without(group, member))


def refused(group: Group, member: str, error: BaseException) -> Group:
    """Notes that `member` keeps nothing; the first refusal is the one that is reported."""
    return Group(_without(group, member), group.refusal or error)


def _without(group: Group, member: str) -> frozenset[str]:
    if member not in group.awaited:
        message = f"{member!r} answered a commit group that does not await it"
        raise InternalError(message)
    return group.awaited - {member}
