"""The contributions of a run, from permit to receipt: out, complete, in the making, used or dropped.

A permit is a lease on one computation, bound to a rank and its incarnation, with the batch it is about. It
is out from `grant` until it is closed: its contribution is complete, it was missed, its worker found no
batch, is dead or has left, its version is late, or it expired since for `lease_s` no heartbeat told of work
on it. Numbers are unique in a run, over all terms of coordinators.

One worker's word for the end of an epoch is not enough: who has been given a batch of it looks there as well,
under a permit for the first batch that should not be. A worker that has it has more than the one that ended.

INVARIANT: at most one permit of a rank is out.
INVARIANT: a rank is given a batch of a later epoch only when it has found the end of those before.
INVARIANT: a rank has at most one contribution that is out or complete, and one in the making before that.
INVARIANT: every permit ends in one receipt, but for those of workers that are gone and those out at the end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from actorflow.coord.rules.batch_order import BatchOrder
from actorflow.coord.rules.commit import Chosen
from actorflow.coord.rules.membership import Membership
from actorflow.coord.rules.messages import Batch, Computed, ContributionOutcome, Permit, Updated
from actorflow.coord.rules.policy import Arrived, Out, Round, View
from actorflow.runtime.story import Story
from actorflow.runtime.validation import validates

TERM = 1 << 32
"""Numbers that one term may use: the first term has 1, 2, …, the next 2**32 + 1, …"""


@dataclass(frozen=True, slots=True)
class Lease:
    """A permit that is out: to whom, for what, and since when."""

    number: int
    rank: int
    incarnation: int
    version: int
    batch: Batch
    since: float


@validates("grant", "seen", "waive", "renew", "excuse", "close", "void", "forget")
class Permits:
    """The permits that are out, and the batches that the next ones will be about.

    INVARIANT: numbers rise, and are of this term.
    INVARIANT: a batch is at one place: out, reserved, or handed out again later; but for those beyond the end
        of an epoch, which several look for.
    """

    def __init__(self, term: int, batches: BatchOrder, *, lease_s: float) -> None:
        self.term = term
        self.batches = batches
        self.out: dict[int, Lease] = {}
        self._lease_s = lease_s
        self._last = (term - 1) * TERM
        self._renewed: dict[int, float] = {}
        self._reserved: dict[int, Batch] = {}
        self._entered: dict[int, set[int]] = {}  # by rank: epochs that it has not seen the end of
        self.story = Story()

    def validate(self) -> None:
        """Raises InternalError where an invariant does not hold."""
        leases = self.out.values()
        numbers = [lease.number for lease in leases]
        places = [lease.batch for lease in leases if self.batches.exists(lease.batch)]
        places += [*self._reserved.values(), *self.batches.again]
        earlier = [e for lease in leases for e in self._entered.get(lease.rank, ()) if e < lease.batch.epoch]
        self.story.check(
            self,
            {
                "a permit is out to the rank that has it": all(r == e.rank for r, e in self.out.items()),
                "numbers are of this term, each once": len(set(numbers)) == len(numbers)
                and all((self.term - 1) * TERM < number <= self._last for number in numbers),
                "heartbeats renew what is out": self._renewed.keys() == self.out.keys(),
                "a batch is at one place": len(set(places)) == len(places),
                "a later epoch comes after the end of those before": not earlier,
            },
        )

    @property
    def left(self) -> bool:
        """Whether there may be a batch for somebody."""
        return bool(self._reserved) or self.batches.left

    def serves(self, rank: int) -> bool:
        """Whether there may be a batch for `rank`."""
        return rank in self._reserved or self.batches.left

    def grant(self, rank: int, incarnation: int, version: int, now: float) -> Lease | None:
        """Returns a new permit for a rank that has none out; None when no batch is left.

        One that has not seen the end of an epoch is sent there first, and its next batch stands ready.
        """
        batch = self._end_for(rank)
        if batch is None:
            batch = self._reserved.pop(rank, None) or self.batches.next()
        elif rank not in self._reserved and (after := self.batches.next()) is not None:
            self._reserved[rank] = after
        if batch is None:
            return None
        self._entered.setdefault(rank, set()).add(batch.epoch)
        self._last += 1
        lease = Lease(self._last, rank, incarnation, version, batch, now)
        self.story.append(("grant", self._last, rank, batch.epoch, batch.index))
        self.out[rank] = lease
        self._renewed[rank] = now
        return lease

    def owes(self, rank: int) -> bool:
        """Whether `rank` was given a batch of an epoch that is over, and has not seen the end of it."""
        return self._end_for(rank) is not None

    def _end_for(self, rank: int) -> Batch | None:
        """Returns the first batch that an epoch should not have, if `rank` has yet to look."""
        sizes = self.batches.sizes
        over = [epoch for epoch in self._entered.get(rank, ()) if epoch in sizes]
        return Batch(min(over), sizes[min(over)]) if over else None

    def seen(self, rank: int, epoch: int) -> None:
        """Hears that a rank has looked at the end of an epoch, and need not look again."""
        self.story.append(("seen", rank, epoch))
        self._entered[rank].discard(epoch)

    def waive(self, rank: int) -> None:
        """Lets a rank go on without having seen the end of an epoch: it did not answer in time."""
        self.story.append(("waive", rank))
        self._entered[rank] = {e for e in self._entered.get(rank, ()) if e not in self.batches.sizes}

    def holds(self, rank: int, number: int) -> bool:
        """Whether that permit is out."""
        return rank in self.out and self.out[rank].number == number

    def renew(self, rank: int, number: int, now: float) -> None:
        """Hears that the worker at `rank` works on permit `number`."""
        if self.holds(rank, number):
            self._renewed[rank] = now

    def excuse(self, now: float) -> None:
        """Takes all that are out as worked on now: nobody was listening."""
        self._renewed = dict.fromkeys(self._renewed, now)

    def expired(self, now: float) -> tuple[int, ...]:
        """Returns the ranks on whose permits nobody has worked for too long, ascending."""
        return tuple(sorted(r for r in self.out if now - self._renewed[r] > self._lease_s))

    def close(self, rank: int) -> Lease:
        """Takes the permit of `rank` as done with: its batch is at the caller's."""
        del self._renewed[rank]
        lease = self.out.pop(rank)
        self.story.append(("close", lease.number, rank))
        return lease

    def void(self, rank: int, epoch: int, size: int) -> Lease:
        """Closes the permit of `rank`, which found no batch, and learns the size of the epoch.

        All that are out beyond that end get another batch, in the order of the void ones, whoever reports
        first: so who computes what does not depend on how messages overtake each other.
        """
        self.batches.learn(epoch, size)
        self.seen(rank, epoch)
        beyond = [lease for lease in self.out.values() if not self.batches.exists(lease.batch)]
        for lease in sorted(beyond, key=lambda lease: lease.number):
            if lease.rank not in self._reserved:
                batch = self.batches.next()
                if batch is not None:
                    self._reserved[lease.rank] = batch
        return self.close(rank)

    def forget(self, rank: int) -> None:
        """Gives back the batch that stood ready for a rank that is gone; it has nothing to look for."""
        self.story.append(("forget", rank))
        self._entered.pop(rank, None)
        batch = self._reserved.pop(rank, None)
        if batch is not None:
            self.batches.take_back(batch, seen=False)

    def __repr__(self) -> str:
        return f"<Permits {len(self.out)} out, last {self._last}, {self.batches!r}>"


LATE = "late: the update of its version is made"
EXPIRED = "expired: nobody worked on it"
NO_BATCH = "there is no such batch"
MISSED = "missed: its worker came too late"


@dataclass(frozen=True, slots=True)
class CompleteContribution:
    """A contribution that every shard keeps."""

    lease: Lease
    arrived: Arrived
    scalars: tuple[float, ...]
    bases: tuple[int, ...]

    @property
    def base(self) -> int:
        """The version it was computed from."""
        return self.arrived.base

    @property
    def duration_s(self) -> float:
        """Seconds since its permit."""
        return self.arrived.at - self.lease.since


@dataclass(frozen=True, slots=True)
class Receipt:
    """What became of a contribution, and whom to tell."""

    rank: int
    outcome: ContributionOutcome


def after_update(view: View) -> View:
    """Returns what a policy will see when what is in the making has become an update, and nothing else is."""
    clock = {rank: count + (rank in view.making) for rank, count in view.clock.items()}
    return replace(view, version=view.version + 1, clock=clock, making=frozenset())


@validates("assign", "grant", "mark_complete", "close", "void", "refuse", "drop", "make", "commit")
class ContributionTable:
    """What is computed, by whom, and what becomes of it.

    Attributes:
        complete: By rank, in order of arrival.
        staged: By rank, those in the update that is being made.
        resting: Ranks that have just missed: they start again after an update, or at the next heartbeat, so
            that nobody spins who is refused again and again.
        clock: Contributions accepted, by rank.
        dropped: Numbers of contributions that were not used since the last update, and why.
        dropped_by: Whose these were, by rank.
    """

    def __init__(self, members: Membership, permits: Permits, seats: int) -> None:
        self.permits = permits
        self.complete: dict[int, CompleteContribution] = {}
        self.staged: dict[int, CompleteContribution] = {}
        self.resting: set[int] = set()
        self.clock: dict[int, int] = {}
        self.dropped: list[tuple[int, str]] = []
        self.dropped_by: list[int] = []
        self._members = members
        self._out: dict[int, Out] = {}  # as policies see the permits
        self._seats = seats
        self.story = Story()

    def validate(self) -> None:
        """Raises InternalError where an invariant does not hold."""
        out, entries = self.permits.out, [*self.complete.items(), *self.staged.items()]
        numbers = [lease.number for lease in out.values()] + [entry.lease.number for _, entry in entries]
        latest = {r: lease.number for r, lease in out.items()}
        latest |= {r: entry.lease.number for r, entry in self.complete.items()}
        self.story.check(
            self,
            {
                "policies see the permits that are out": self._out
                == {r: Out(lease.number, lease.version, lease.since) for r, lease in out.items()},
                "a rank has one contribution that is out or complete": not out.keys() & self.complete.keys(),
                "one in the making came before": all(
                    entry.lease.number < latest.get(r, entry.lease.number + 1)
                    for r, entry in self.staged.items()
                ),
                "a contribution is of the rank that has it": all(
                    rank == entry.lease.rank == entry.arrived.rank
                    and entry.lease.number == entry.arrived.number
                    for rank, entry in entries
                ),
                "a contribution is at one place": len(set(numbers)) == len(numbers),
                "it is known whose was dropped": len(self.dropped) == len(self.dropped_by),
            },
        )

    def view(self, version: int, now: float) -> View:
        """Returns what a policy decides from; what is in it is kept, so that it costs little."""
        return View(
            version=version,
            now=now,
            seats=self._seats,
            alive=self._members.alive,
            clock=dict(self.clock),
            out=dict(self._out),
            complete=tuple(entry.arrived for entry in self.complete.values()),
            making=frozenset(self.staged),
            resting=frozenset(self.resting),
        )

    @property
    def idle(self) -> bool:
        """Whether nothing is out, complete or in the making."""
        return not (self.permits.out or self.complete or self.staged)

    def assign(self, rank: int) -> None:
        """Sets the clock of a rank that has just joined to the least of the others alive."""
        self.resting.discard(rank)
        others = [self.clock[r] for r in self._members.alive if r != rank]
        self.clock[rank] = min(others) if others else self.clock.get(rank, 0)

    def heartbeat(self) -> None:
        """Lets those start again who have missed."""
        self.resting.clear()

    def grant(self, rank: int, version: int, now: float) -> Permit | None:
        """Returns a permit for a rank; None when there is no batch for it."""
        lease = self.permits.grant(rank, self._members.members[rank].incarnation, version, now)
        if lease is None:
            return None
        self._out[rank] = Out(lease.number, version, now)
        self.story.append(("grant", rank, lease.number, version))
        step = self.permits.batches.ordinal(lease.batch)
        return Permit(self.permits.term, lease.number, rank, version, lease.batch, step)

    def known(self, rank: int, number: int) -> bool:
        """Whether the contribution is complete or in the making."""
        entries = (self.complete.get(rank), self.staged.get(rank))
        return any(entry is not None and entry.lease.number == number for entry in entries)

    def mark_complete(self, message: Computed, now: float) -> None:
        """Takes what is out as complete."""
        rank = message.rank
        self.story.append(("complete", rank, message.number, message.base))
        del self._out[rank]
        arrived = Arrived(rank, message.number, message.base, now)
        self.complete[rank] = CompleteContribution(
            self.permits.close(rank), arrived, message.scalars, message.bases
        )

    def close(self, rank: int) -> Lease:
        """Ends what is out; what becomes of it is at the caller's."""
        del self._out[rank]
        return self.permits.close(rank)

    def revoke(self, rank: int, version: int, why: str) -> Receipt:
        """Ends what is out, unused; its batch may be computed again."""
        return self.drop(self.close(rank), version, why)

    def void(self, rank: int, epoch: int, size: int, version: int) -> Receipt:
        """Ends what is out since there is no such batch, and learns the size of the epoch: none is lost."""
        self.story.append(("void", rank, epoch, size))
        del self._out[rank]
        return self._drop_unused(self.permits.void(rank, epoch, size), version, NO_BATCH)

    def refuse(self, rank: int, version: int, why: str) -> Receipt:
        """Ends what is complete, unused."""
        return self.drop(self.complete.pop(rank).lease, version, why)

    def drop(self, lease: Lease, version: int, why: str) -> Receipt:
        """Takes what was computed under a lease as not used, and returns the receipt."""
        self.story.append(("drop", lease.rank, lease.number, why))
        self.dropped.append((lease.number, why))
        self.dropped_by.append(lease.rank)
        return self._drop_unused(lease, version, why)

    def _drop_unused(self, lease: Lease, version: int, why: str) -> Receipt:
        self.permits.batches.take_back(lease.batch)
        return Receipt(
            lease.rank, ContributionOutcome(lease.number, accepted=False, version=version, reason=why)
        )

    def take_dropped(self) -> tuple[tuple[tuple[int, str], ...], tuple[int, ...]]:
        """Returns what was dropped since the last update, and whose it was; begins new lists."""
        taken = tuple(self.dropped), tuple(self.dropped_by)
        self.dropped, self.dropped_by = [], []
        return taken

    def make(self, ranks: Sequence[int]) -> Chosen:
        """Returns the contributions of the next update, which these ranks' complete ones make."""
        self.story.append(("make", *sorted(ranks)))
        self.staged = {rank: self.complete.pop(rank) for rank in sorted(ranks)}
        return tuple((rank, entry.lease.number) for rank, entry in self.staged.items())

    def late(self, version: int) -> list[Receipt]:
        """Ends all that is not of `version`, unused."""
        stale = sorted(r for r, entry in self.complete.items() if entry.base < version)
        out = sorted(r for r, lease in self.permits.out.items() if lease.version < version)
        complete = [self.refuse(rank, version, LATE) for rank in stale]
        return complete + [self.revoke(rank, version, LATE) for rank in out]

    def commit(self, version: int) -> tuple[Mapping[int, CompleteContribution], list[Receipt], Round]:
        """Takes what is in the making as the update that made `version`."""
        self.story.append(("commit", version))
        made, self.staged = self.staged, {}
        self.resting.clear()
        took = sorted(entry.duration_s for entry in (*made.values(), *self.complete.values()))
        for rank in made:
            self.clock[rank] += 1
        outcomes = [
            Receipt(r, ContributionOutcome(e.lease.number, accepted=True, version=version))
            for r, e in made.items()
        ]
        return made, outcomes, Round(version, tuple(took), len(self._members.alive))

    def record(self, version: int, made: Mapping[int, CompleteContribution]) -> Updated:
        """Returns the record of an update, and begins a new list of what is dropped."""
        (dropped, dropped_by), entries = self.take_dropped(), made.values()
        columns = zip(*(entry.scalars for entry in entries), strict=True)
        return Updated(
            version=version,
            chosen=tuple((r, e.lease.number, e.lease.batch, e.base) for r, e in made.items()),
            dropped=dropped,
            scalars=tuple(sum(column) / len(made) for column in columns),
            alive=len(self._members.alive),
            staleness=tuple(max(0, version - 1 - entry.base) for entry in entries),  # 0: shards ran ahead
            bases=tuple(entry.bases for entry in entries),
            steps=tuple(self.permits.batches.ordinal(entry.lease.batch) for entry in entries),
            dropped_by=dropped_by,
        )
