"""The contributions that are open on a shard: kept, and not part of an update yet.

* At most one a rank: a newer number replaces an older one. So what a shard keeps is bounded by the number of
  workers, whatever they send.
* Refused is what an older term sends ("fenced"), a number that this rank has come to or gone past ("seen"),
  and what comes too late ("late"): it was dropped before it came or, where the policy is `fresh`, it was
  computed from an older version than that of the shard.
* An update takes the contributions that were chosen for it, all of them or none. Taken is gone: no other
  update can have it.
* Under `fresh` an update makes late what is still open.

Where each shard closes updates by itself, its quorum says when it has enough for one.

Numbers grow: a worker has one permit at a time, and each permit a greater number than those before. So the
greatest one of a rank says which have been seen.

Pure: no actor, no array is looked at.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from enum import Enum

from actorflow.coord.rules.messages import Contribute, Enough, Refused, Stored
from actorflow.errors import ConfigError, CoordinationError
from actorflow.runtime.story import Story
from actorflow.runtime.validation import validates

REMEMBERED = 1024
"""Numbers that were dropped before they came; of more than so many the oldest are forgotten.

Forgetting one costs the memory of a contribution that nobody will choose, until that rank sends the next.
"""


class RefusalReason(Enum):
    """Why a contribution is refused."""

    LATE = "late"
    FENCED = "fenced"
    SEEN = "seen"


@validates("offer", "drop", "forget", "take", "move_on")
class Contributions:
    """Those that a shard keeps.

    INVARIANT: `open[rank].rank == rank`, and no open number is dropped, or greater than those seen.
    INVARIANT: under `fresh` every open one has the version of the shard as its base.

    Args:
        names: The variables of the shard, each of which a contribution has a gradient for.
        fresh: Whether gradients must be computed from the version that they are applied to.

    Attributes:
        open: By rank, in the order in which they came.
        refused: How many were refused, for which reason.
        story: What it kept, refused and gave last.
    """

    __slots__ = ("_dropped", "_names", "_seen", "fresh", "open", "refused", "story")

    def __init__(self, names: Iterable[str], fresh: bool) -> None:
        self.fresh = fresh
        self.open: dict[int, Contribute] = {}
        self.refused: Counter[RefusalReason] = Counter()
        self._names = frozenset(names)
        self._seen: dict[int, int] = {}
        self._dropped: dict[int, None] = {}
        self.story = Story()

    def validate(self) -> None:
        """Raises InternalError where an invariant does not hold."""
        kept = self.open.items()
        self.story.check(
            self,
            {
                "a contribution is kept for its rank": all(rank == each.rank for rank, each in kept),
                "no number is kept that was dropped": all(
                    each.number not in self._dropped for _, each in kept
                ),
                "none is kept beyond the greatest seen": all(
                    each.number <= self._seen.get(rank, 0) for rank, each in kept
                ),
                "fresh ones are of one version": not self.fresh or len({each.base for _, each in kept}) <= 1,
                "few are remembered that did not come": len(self._dropped) <= REMEMBERED,
            },
        )

    def __repr__(self) -> str:
        return f"<Contributions open from {sorted(self.open)}, refused {self.refused.total()}>"

    def offer(self, offered: Contribute, term: int, version: int) -> Stored | Refused:
        """Keeps a contribution, or says why not.

        Args:
            offered: What a worker sent.
            term: The least that is obeyed.
            version: That of the shard.

        Raises:
            CoordinationError: when it has not one gradient for each variable, or comes from a version that
                there has not been. Nothing changes then.
        """
        self._check(offered, version)
        reason = self._why_not(offered, term, version)
        if reason is not RefusalReason.FENCED:
            self._seen[offered.rank] = max(offered.number, self._seen.get(offered.rank, 0))
            self._dropped.pop(offered.number, None)
        if reason is not None:
            self.refused[reason] += 1
            self.story.append(("refuse", offered.rank, offered.number, reason.value))
            return Refused(offered.number, reason.value)
        self.story.append(("keep", offered.rank, offered.number, offered.base))
        self.open.pop(offered.rank, None)  # ORDER: the newer one came last
        self.open[offered.rank] = offered
        return Stored(offered.number)

    def drop(self, numbers: Iterable[int]) -> None:
        """Forgets contributions that will never be used, those that have not come as well."""
        gone = set(numbers)
        self.story.append(("drop", *sorted(gone)))
        for rank, kept in tuple(self.open.items()):
            if kept.number in gone:
                del self.open[rank]
                gone.discard(kept.number)
        self._dropped.update(dict.fromkeys(sorted(gone)))
        while len(self._dropped) > REMEMBERED:
            del self._dropped[next(iter(self._dropped))]

    def forget(self, before: int) -> None:
        """Forgets contributions of terms before that one: whoever would have chosen of them is no more."""
        self.story.append(("forget before term", before))
        self.open = {rank: kept for rank, kept in self.open.items() if kept.term >= before}

    def take(self, chosen: Iterable[tuple[int, int]]) -> tuple[Contribute, ...]:
        """Takes the chosen contributions out, in rank order.

        Args:
            chosen: (rank, number) of each.

        Raises:
            CoordinationError: when none is chosen, two are of one rank, or one is not here; none is taken.
        """
        wanted = sorted(chosen)
        ranks = [rank for rank, _ in wanted]
        if not wanted or len(set(ranks)) < len(ranks):
            message = f"an update is made of one or more contributions of distinct ranks, got {wanted}"
            raise CoordinationError(message)
        missing = [(r, n) for r, n in wanted if r not in self.open or self.open[r].number != n]
        if missing:
            rank, number = missing[0]
            held = f"its number {self.open[rank].number} is" if rank in self.open else "nothing of it is"
            message = f"contribution {number} of rank {rank} is chosen and not here, {held} open"
            raise CoordinationError(message)
        self.story.append(("take", *ranks))
        return tuple(self.open.pop(rank) for rank in ranks)

    def first(self, count: int) -> tuple[tuple[int, int], ...]:
        """Returns (rank, number) of the `count` that came first, in rank order; () while there are fewer."""
        if len(self.open) < count:
            return ()
        came = list(self.open.values())[:count]
        return tuple(sorted((each.rank, each.number) for each in came))

    def move_on(self, version: int) -> None:
        """Hears that the shard is at `version`; under `fresh` all that is open is late."""
        self.story.append(("move on", version))
        if self.fresh:
            self.open = {rank: kept for rank, kept in self.open.items() if kept.base >= version}

    def _why_not(self, offered: Contribute, term: int, version: int) -> RefusalReason | None:
        if offered.term < term:
            return RefusalReason.FENCED
        if offered.number <= self._seen.get(offered.rank, 0):
            return RefusalReason.SEEN
        stale = self.fresh and offered.base < version
        return RefusalReason.LATE if stale or offered.number in self._dropped else None

    def _check(self, offered: Contribute, version: int) -> None:
        if offered.base > version:
            message = (
                f"contribution {offered.number} of rank {offered.rank} comes from version {offered.base}"
            )
            message = f"{message}, this shard is at {version}"
            raise CoordinationError(message)
        if self._names != offered.gradients.keys():
            wanted, got = sorted(self._names), sorted(offered.gradients)
            message = (
                f"a contribution has one gradient for each of {wanted}, got {got} from rank {offered.rank}"
            )
            hint = "workers and shards run one program: let them start from the same one"
            raise CoordinationError(message, hint=hint)


class PerShardQuorum:
    """Closes an update at the first `count` contributions.

    Args:
        count: How many are enough before a coordinator says so.

    Attributes:
        enough: What a coordinator said last; None while the next one has yet to say.

    Raises:
        ConfigError: a count below 1.
    """

    def __init__(self, count: int) -> None:
        if count < 1:
            message = f"a shard closes an update at 1 contribution or more, got {count}"
            raise ConfigError(message)
        self.enough: Enough | None = Enough(0, count)

    def choose(self, contributions: Contributions, version: int) -> tuple[tuple[int, int], ...]:
        """Returns (rank, number) of what makes the update of `version`; none while they are too few."""
        enough = self.enough
        if enough is None or (enough.until is not None and version >= enough.until):
            return ()
        return contributions.first(enough.count)

    def __repr__(self) -> str:
        return f"<PerShardQuorum at {self.enough}>"
