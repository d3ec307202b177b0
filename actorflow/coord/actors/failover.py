"""Failover: what one shard does for all when the coordinator is gone, so that no half commit stays.

1. It fences all shards that live under a term of its own, so that nothing that is still on its way from the
   lost coordinator is obeyed any more, and hears where each stands.
2. By the rule of recovery, what one has committed all commit; what nobody has is discarded.
3. All end with the error.

The rule gives the same verdict before, during and after it is carried out. So two shards that do this at the
same time, each thinking that it has to, do no harm.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from actorflow.actors.ref import Ref
from actorflow.coord.rules.messages import Commit, Discard, Fence, ShardStatus
from actorflow.errors import ActorflowError, CoordinatorLost, Fenced, ShardLost, describe


class Recovered(Protocol):
    """What the rule of recovery says."""

    @property
    def version(self) -> int:
        """Where all will stand."""
        ...

    @property
    def behind(self) -> tuple[int, ...]:
        """Shards that are at the version before, and commit what they have staged."""
        ...

    @property
    def discards(self) -> tuple[int, ...]:
        """Shards that have staged the update of `version`, which nobody has committed."""
        ...


Recover = Callable[[Mapping[int, ShardStatus]], Recovered]
"""The status of each shard -> how all get to one version; CoordinationError when they cannot."""


@dataclass(slots=True)
class FailoverVerdict:
    """What to say to each shard, and who did not answer.

    Attributes:
        say: By shard.
        lost: The shards that could not be fenced, and why.
        wrong: Why the others cannot get to one version, if so.
    """

    say: dict[int, Commit | Discard] = field(default_factory=dict)
    lost: dict[int, ActorflowError] = field(default_factory=dict)
    wrong: ActorflowError | None = None


async def resolve(
    term: int, own: ShardStatus, others: Mapping[int, Ref], recover: Recover
) -> FailoverVerdict:
    """Fences the others under `term` and returns the verdict; each of them answers or is lost.

    Args:
        term: Greater than that of the lost coordinator.
        own: Where the shard that asks stands, fenced already.
        others: The shards that live, as far as it knows.
        recover: The rule.

    Raises:
        Fenced: another one leads, with a newer term: there is nothing to say.
    """
    verdict = FailoverVerdict()
    standings = {own.shard: own}
    for shard, ref in sorted(others.items()):
        try:
            standings[shard] = await ref.ask(Fence(term))
        except Fenced:
            raise  # whoever leads in its place decides
        except ActorflowError as error:
            verdict.lost[shard] = error
    try:
        found = recover(standings)
    except ActorflowError as error:
        verdict.wrong = error
        return verdict
    for shard in found.behind:
        verdict.say[shard] = Commit(term, found.version - 1)
    for shard in found.discards:
        verdict.say[shard] = Discard(term, found.version)
    return verdict


def shard_lost_error(shard: int, reason: BaseException | None) -> ShardLost:
    """Returns the error of whoever needs a shard that is gone."""
    lost = ShardLost(f"shard {shard} is gone, and its variables with it{_why(reason)}")
    lost.__cause__ = reason
    return lost


def coordinator_lost_error(reason: BaseException | None) -> CoordinatorLost:
    """Returns the error with which shards end whose coordinator is gone."""
    lost = CoordinatorLost(f"the coordinator is gone, and the run has ended on all shards{_why(reason)}")
    lost.__cause__ = reason
    return lost


def _why(reason: BaseException | None) -> str:
    return "" if reason is None else f": {describe(reason)}"
