"""Permits: leases on one computation each, bound to a rank and its incarnation, with the batch it is about.

A permit is out from `grant` until it is closed: its contribution is complete, it was missed, its worker found
no batch, is dead or has left, its version is late, or it expired since for `lease_s` no heartbeat told of
work on it. Numbers are unique in a run, over all terms of coordinators.

One worker's word for the end of an epoch is not enough: who has been given a batch of it looks there as well,
under a permit for the first batch that should not be. A worker that has it has more than the one that ended.

INVARIANT: at most one permit of a rank is out.
INVARIANT: a rank is given a batch of a later epoch only when it has found the end of those before.
"""

from __future__ import annotations

from dataclasses import dataclass

from actorflow.coord.rules.batch_order import BatchOrder
from actorflow.coord.rules.messages import Batch
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
