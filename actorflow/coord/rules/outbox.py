"""The outbox of a coordinator: what it has to say, in the order in which it says it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from actorflow.coord.rules.contribution_table import Receipt
from actorflow.coord.rules.membership import Membership
from actorflow.coord.rules.messages import (
    Commit,
    ContributionOutcome,
    Discard,
    DropContributions,
    Enough,
    Permit,
    PrepareUpdate,
    RunEnded,
    Updated,
)


@dataclass(frozen=True, slots=True)
class ToShard:
    """For one shard."""

    shard: int
    message: PrepareUpdate | Commit | Discard | DropContributions | Enough | RunEnded


@dataclass(frozen=True, slots=True)
class ToWorker:
    """For the worker of one process."""

    process: str
    message: Permit | ContributionOutcome | RunEnded


@dataclass(frozen=True, slots=True)
class ToObserver:
    """For whoever trains."""

    message: Updated | RunEnded


Send = ToShard | ToWorker | ToObserver


class Outbox:
    """Collects what is to be sent."""

    def __init__(self, term: int, members: Membership, shards: int) -> None:
        self._term = term
        self._members = members
        self._shards = shards
        self._sends: list[Send] = []
        self._receipts: dict[
            int, list[ContributionOutcome]
        ] = {}  # by rank: good ones, which nobody waits for

    def take(self) -> tuple[Send, ...]:
        """Returns what was collected, and begins anew."""
        sends, self._sends = self._sends, []
        return tuple(sends)

    def shard(self, shard: int, message: PrepareUpdate | Commit | Discard) -> None:
        """Says something to one shard."""
        self._sends.append(ToShard(shard, message))

    def worker(self, rank: int, message: Permit | ContributionOutcome | RunEnded) -> None:
        """Says something to the worker that has, or had, `rank`, behind the receipts that wait for it."""
        process = self._members.members[rank].process
        self._sends += [ToWorker(process, m) for m in (*self._receipts.pop(rank, ()), message)]

    def observer(self, message: Updated) -> None:
        """Says something to whoever trains."""
        self._sends.append(ToObserver(message))

    def receipts(self, receipts: Sequence[Receipt]) -> None:
        """Tells workers what became of their contributions.

        What was dropped is said now. What was used can wait for the next word to that worker: it costs no
        message of its own then.
        """
        for receipt in receipts:
            if receipt.outcome.accepted:
                self._receipts.setdefault(receipt.rank, []).append(receipt.outcome)
            else:
                self.worker(receipt.rank, receipt.outcome)

    def drop(self, numbers: Sequence[int]) -> None:
        """Tells all shards that these contributions will never be used."""
        if numbers:
            told = DropContributions(self._term, tuple(numbers))
            self._sends += [ToShard(shard, told) for shard in range(self._shards)]

    def enough(self, message: Enough) -> None:
        """Tells all shards how many contributions make an update."""
        self._sends += [ToShard(shard, message) for shard in range(self._shards)]

    def end(self, message: RunEnded, observed: RunEnded, resting: Sequence[int] = ()) -> None:
        """Tells everybody, those included who rest without an assignment, that it is over.

        Who trains comes last, and is told `observed`.
        """
        for rank in sorted({*self._members.alive, *resting}):
            self.worker(rank, message)
        self._sends += [ToShard(shard, message) for shard in range(self._shards)]
        self._sends.append(ToObserver(observed))
