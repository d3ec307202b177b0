"""A run whose shards close updates by themselves: each at its own first contributions, without a commit.

The coordinator hands out permits, says how many contributions are enough, and records what shards have used:
version v is made when every shard has made its own. Cheaper by the two phases of the commit, and weaker: the
sets of one version may differ from shard to shard, so the parameters belong to no serial run.

* `fresh` policies: nobody starts on v + 1 before all shards are there, so versions differ by at most one. Who
  pulls from a shard that is ahead contributes to the others alone.
* An update is recorded once those whose contributions it has have told their scalars, or are lost.
* One shard may use what another never sees. So nobody knows that a contribution is not used before every
  shard has used it, has said that it will not (`Dropped`), or has gone past the version that it was computed
  from. Accepted is what any shard used; the batch of what none used may come again.
* Fewer alive, or no more batches: shards are told a smaller number. With `steps` they stop at that version.
* At the end a shard may be ahead, by what lost workers gave to it alone. That is recorded too, and the next
  run begins at the version of the slowest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from actorflow.coord.rules.commit import Chosen
from actorflow.coord.rules.contribution_table import LATE, CompleteContribution, Lease, Receipt
from actorflow.coord.rules.coordinator_state import CoordinatorState
from actorflow.coord.rules.lifecycle import RunPhase
from actorflow.coord.rules.messages import (
    Committed,
    Computed,
    ContributionOutcome,
    Dropped,
    Enough,
    Exhausted,
    ShardStatus,
    Unstaged,
    Updated,
)
from actorflow.coord.rules.policy import Policy, Round, View, full
from actorflow.coord.rules.policy_checks import has_enough
from actorflow.coord.rules.run_health import invariants
from actorflow.coord.rules.run_settings import RunSettings
from actorflow.errors import ActorflowError
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


class PerShardState(CoordinatorState):
    """The rules of such a run; see CoordinatorState.

    Raises:
        ConfigError: the policy names no number of contributions for shards to close at.
    """

    def __init__(
        self, policy: Policy, workers: Sequence[str], shards: int, settings: RunSettings, *, term: int = 1
    ) -> None:
        super().__init__(policy, workers, shards, settings, term=term)
        has_enough(policy, full(len(workers)))
        self.ledger = UseRecord([0] * shards)
        self.outcomes: dict[int, ContributionFate] = {}
        self._until: int | None = None
        self._count: int | None = None  # what shards were told

    def _resume(self, standings: Mapping[int, ShardStatus], now: float) -> int:
        self.ledger = UseRecord([standings[shard].version for shard in sorted(standings)])
        first = self.ledger.common
        self.commitment.skip_to(first)
        self._until = None if self.settings.steps is None else first + self.settings.steps
        return first

    def validate(self) -> None:
        """Raises InternalError where an invariant does not hold, of the shards as well as far as is known."""
        ended, shards = self.lifecycle.phase is RunPhase.ENDED, set(range(len(self.ledger.versions)))
        known = {lease.number for lease in self.permits.out.values()}
        known |= {entry.lease.number for entry in self.contributions.complete.values()}
        holds = invariants(self)
        del holds["a run has no more updates than it was to have"]  # a shard may have been ahead before
        del holds["what a fresh policy may use is of no version before"]  # shards say who is late
        own = {
            "what is recorded all shards have made": ended or self.version <= self.ledger.common,
            "it is known what becomes of each contribution": self.outcomes.keys() >= known,
            "an outcome has the number of its permit": all(
                n == f.lease.number for n, f in self.outcomes.items()
            ),
            "only shards of the run may still use it": all(f.waits <= shards for f in self.outcomes.values()),
            "what is settled is in a set that is not recorded": ended
            or self.ledger.numbers >= {n for n, fate in self.outcomes.items() if fate.settled},
            "what none used has no set": all(
                self.outcomes[n].used for n in self.ledger.numbers if n in self.outcomes
            ),
        }
        self.story.check(self, own | holds)

    # -- what they say ------------------------------------------------------------------------------------

    def _computed(self, message: Computed, now: float) -> None:
        rank, number = message.rank, message.number
        if message.term == self.term and self.permits.holds(rank, number):
            self._note_batch(rank)
            self.contributions.mark_complete(message, now)
            self._reachability.restore(rank)
            fate = self.outcomes[number]
            fate.entry, fate.bases = self.contributions.complete[rank], message.bases

    def _exhausted(self, message: Exhausted) -> None:
        held = self.permits.holds(message.rank, message.number)
        super()._exhausted(message)
        if held and not self.permits.holds(message.rank, message.number):
            del self.outcomes[message.number]  # nothing was computed

    def _committed(self, message: Committed, now: float) -> None:
        if (
            message.term != self.term
            or self.lifecycle.phase is RunPhase.STARTING
            or not self.ledger.commit(message)
        ):
            return
        bases = message.bases or ((),) * len(message.chosen)
        for (_, number), given in zip(message.chosen, bases, strict=True):
            fate = self.outcomes.get(number)
            if fate is None:
                what = f"shard {message.shard} used contribution {number}, which is over by now, or never was"
                raise self.story.broken(what)
            fate.used, fate.bases = True, fate.bases or given
            fate.waits.discard(message.shard)

    def _unstaged(self, message: Unstaged, now: float) -> None:
        if message.term == self.term:
            leases = [self.outcomes[number].lease for _, number in message.chosen if number in self.outcomes]
            self.lifecycle.fail(self._of(message.error, leases))

    def _dropped(self, message: Dropped) -> None:
        if message.term == self.term:
            for number in message.numbers:
                if number in self.outcomes:
                    self.outcomes[number].waits.discard(message.shard)

    # -- what follows ----------------------------------------------------------------------------------------

    def _advance(self, now: float) -> None:
        if self.lifecycle.phase is not RunPhase.STARTING:
            while self.ledger.common > self.version and not self._awaits_scalars(self.version + 1):
                self._record(self.version + 1, now)
            self._settle()
        super()._advance(now)
        if self.lifecycle.phase is not RunPhase.STARTING and not self.quorum.holds and self.ended is None:
            self._say_enough(now)

    def _take(self, now: float) -> None:
        """Shards do that."""

    def _start(self, version: int, view: View, now: float) -> None:
        super()._start(version, view, now)
        for lease in self.permits.out.values():
            if lease.number not in self.outcomes:
                self.outcomes[lease.number] = ContributionFate(lease, set(range(len(self.ledger.versions))))

    def _say_enough(self, now: float) -> None:
        view = self._view(now)
        count = has_enough(self.policy, view)
        if not self._more:
            count = min(count, max(1, len({*view.out, *(a.rank for a in view.complete)})))
        if count != self._count:
            self._count = count
            self._say.enough(Enough(self.term, count, self._until))

    @property
    def _more(self) -> bool:
        """Whether there may be a batch to hand out, now or when it is known what becomes of one."""
        open_ = self.settings.exactly_once and any(f.waits and f.why for f in self.outcomes.values())
        return self.permits.left or open_

    def _complete(self) -> bool:
        """Whether all is done: so many updates, or nothing left that could move."""
        if self.settings.steps is not None and self.version - self.first >= self.settings.steps:
            return True
        nothing_out = not self.permits.left and self.contributions.idle and not self._owing()
        return nothing_out and not any(fate.waits for fate in self.outcomes.values())

    def _end(self, error: ActorflowError | None) -> None:
        if self.ended is None:
            while self.ledger.highest > self.version:  # what only some of the shards have made
                self._record(self.version + 1, self._moved)
        super()._end(error)

    def _drop_unused(self, rank: int, why: str, *, gone: bool = False) -> None:
        fate = self.outcomes[self.contributions.close(rank).number]
        fate.why, fate.gone = why, gone
        self._say.drop([fate.lease.number])

    # -- what is made, and what becomes of it ----------------------------------------------------------------

    def _awaits_scalars(self, version: int) -> bool:
        """Whether somebody has yet to tell the scalars of what made `version`."""
        return any(self.permits.holds(rank, number) for rank, number in union(self.ledger.sets(version)))

    def _record(self, version: int, now: float) -> None:
        """Takes a version as made by all shards."""
        self.commitment.skip_to(version)
        self._moved = now
        self.contributions.resting.clear()
        took = sorted(entry.duration_s for entry in self.contributions.complete.values())
        self._say.observer(self._update_message(version))
        self.ledger.forget(version)
        if self.policy.fresh:
            self._pass(version)
        self._settle()
        self._follow(Round(version, tuple(took), len(self.members.alive)))

    def _update_message(self, version: int) -> Updated:
        sets = self.ledger.sets(version)
        fates = [self.outcomes[number] for _, number in union(sets)]
        told = [fate.entry.scalars for fate in fates if fate.entry is not None]
        dropped, dropped_by = self.contributions.take_dropped()
        return Updated(
            version=version,
            chosen=tuple((f.lease.rank, f.lease.number, f.lease.batch, f.base) for f in fates),
            dropped=dropped,
            scalars=tuple(sum(column) / len(told) for column in zip(*told, strict=True)),
            alive=len(self.members.alive),
            staleness=tuple(max(0, version - 1 - fate.base) for fate in fates),
            bases=tuple(fate.bases for fate in fates),
            steps=tuple(self.permits.batches.ordinal(fate.lease.batch) for fate in fates),
            per_shard=sets,
            dropped_by=dropped_by,
        )

    def _pass(self, version: int) -> None:
        """All shards are past what was computed for an earlier version: nobody will use it any more."""
        for rank in sorted(self.permits.out):
            if self.permits.out[rank].version < version:
                self.contributions.close(rank)
        for fate in self.outcomes.values():
            if fate.lease.version < version:
                fate.waits.clear()

    def _settle(self) -> None:
        """Tells what has become of contributions, as far as it is decided."""
        stopped = {s for s, version in enumerate(self.ledger.versions) if version == self._until}
        for number in sorted(self.outcomes):
            fate, rank = self.outcomes[number], self.outcomes[number].lease.rank
            making = fate.used and self.policy.fresh and fate.lease.version >= self.version
            if fate.settled or making or fate.waits - stopped or self.permits.holds(rank, number):
                continue
            fate.settled = True
            if self.contributions.known(rank, number):
                del self.contributions.complete[rank]
            receipt = self._receipt(fate)
            if not fate.gone:
                self._say.receipts([receipt])
        pending = self.ledger.numbers
        self.outcomes = {n: fate for n, fate in self.outcomes.items() if not fate.settled or n in pending}

    def _receipt(self, fate: ContributionFate) -> Receipt:
        lease = fate.lease
        if not fate.used:
            return self.contributions.drop(lease, self.version, fate.why or LATE)
        if not fate.gone:
            self.contributions.clock[lease.rank] += 1
        return Receipt(lease.rank, ContributionOutcome(lease.number, accepted=True, version=self.version))
