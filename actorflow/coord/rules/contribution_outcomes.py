"""The outcomes of contributions where every shard closes updates by itself: who used them, who still may.

One shard may use what another never sees. So nobody knows that a contribution is not used before every shard
has used it, has said that it will not (`Dropped`), or has gone past the version that it was computed from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from actorflow.coord.rules.commit import Chosen
from actorflow.coord.rules.contribution_table import CompleteContribution
from actorflow.coord.rules.messages import Committed
from actorflow.coord.rules.permits import Lease
from actorflow.runtime.story import Story
from actorflow.runtime.validation import validates


@dataclass(slots=True)
class ContributionFate:
    """What is known of one contribution.

    Attributes:
        lease: Under which it is, or was, computed.
        waits: Shards that may still use it.
        entry: What its worker told; None while, or if, it did not.
        bases: The version that each shard gave; none while nobody told.
        used: Whether a shard has used it.
        why: Why it was given up, if it was.
        gone: Whether its worker is gone, so that nobody is told.
        settled: Whether it is accepted or dropped for good.
    """

    lease: Lease
    waits: set[int]
    entry: CompleteContribution | None = None
    bases: tuple[int, ...] = ()
    used: bool = False
    why: str = ""
    gone: bool = False
    settled: bool = False

    @property
    def base(self) -> int:
        """The version it was computed from: that of its permit, or the oldest that a shard gave."""
        if self.entry is not None:
            return self.entry.base
        return min(self.bases, default=self.lease.version)


@validates("commit", "forget")
class UseRecord:
    """What each shard has used for which version, until it is recorded.

    INVARIANT: a shard's sets are those of the versions after `forget` up to its own.

    Attributes:
        versions: Where each shard stands.
    """

    def __init__(self, versions: Sequence[int]) -> None:
        self.versions = list(versions)
        self._sets: list[dict[int, Chosen]] = [{} for _ in versions]
        self.story = Story()

    def validate(self) -> None:
        """Raises InternalError where an invariant does not hold."""
        self.story.check(
            self,
            {
                "the sets of a shard are of the versions up to its own": all(
                    sorted(sets) == list(range(version - len(sets) + 1, version + 1))
                    for sets, version in zip(self._sets, self.versions, strict=True)
                ),
            },
        )

    @property
    def common(self) -> int:
        """The version that all have made."""
        return min(self.versions)

    @property
    def highest(self) -> int:
        """The version that one of them has made."""
        return max(self.versions)

    def commit(self, message: Committed) -> bool:
        """Hears what a shard has used; returns whether that was news."""
        shard = message.shard
        if not 0 <= shard < len(self.versions) or message.version != self.versions[shard]:
            return False
        self.story.append(("commit", shard, message.version))
        self.versions[shard] += 1
        self._sets[shard][self.versions[shard]] = message.chosen
        return True

    def sets(self, version: int) -> tuple[Chosen, ...]:
        """Returns what each shard made `version` of; none of one that has not, or had before all this."""
        return tuple(sets.get(version, ()) for sets in self._sets)

    def forget(self, version: int) -> None:
        """Forgets what made `version`."""
        self.story.append(("forget", version))
        for sets in self._sets:
            sets.pop(version, None)

    @property
    def numbers(self) -> frozenset[int]:
        """Of the contributions in sets that are not recorded yet."""
        return frozenset(n for sets in self._sets for chosen in sets.values() for _, n in chosen)

    def __repr__(self) -> str:
        return f"<UseRecord of shards at versions {self.versions}>"


def union(sets: Sequence[Chosen]) -> Chosen:
    """Returns what at least one of the sets has, in order of rank and number."""
    return tuple(sorted({each for chosen in sets for each in chosen}))
