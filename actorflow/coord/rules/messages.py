"""The messages between coordinator, shards and workers: records only, no behaviour.

A contribution is the gradients of one worker for one update. Its number is that of the permit under
which it was made, which no other has in a run; ranks only give the order in which gradients are added.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from actorflow.errors import ActorflowError
from actorflow.transport.codec.registry import travels


@travels("coord.batch")
@dataclass(frozen=True, slots=True)
class Batch:
    """One batch of the training data: the `index`-th of an epoch, both from 0."""

    epoch: int
    index: int


# -- coordinator and workers -----------------------------------------------------------------------


@travels("coord.join")
@dataclass(frozen=True, slots=True)
class Join:
    """Worker → coordinator, asked: takes part from now on; answered with Assignment, Rejected or RunEnded.

    A process that joins again takes its old rank, and what it was before is fenced.
    """

    process: str


@travels("coord.seat")
@dataclass(frozen=True, slots=True)
class Assignment:
    """Coordinator → worker: your rank and incarnation, and how often to send a Heartbeat."""

    term: int
    rank: int
    incarnation: int
    heartbeat_s: float


@travels("coord.no_seat")
@dataclass(frozen=True, slots=True)
class Rejected:
    """Coordinator → worker: it did not reach a shard, and gets no assignment now; ask again in `wait_s`."""

    wait_s: float


@travels("coord.beat")
@dataclass(frozen=True, slots=True)
class Heartbeat:
    """Worker → coordinator, control lane: alive, and at work on `number` (0: idle).

    Attributes:
        waits: For which batch of what it has waited for longer than a heartbeat; empty when it has not.
    """

    rank: int
    incarnation: int
    number: int
    waits: str = ""


@travels("coord.permit")
@dataclass(frozen=True, slots=True)
class Permit:
    """Coordinator → worker: compute one contribution from the parameters at `version` or later.

    A newer one replaces an older one.

    Attributes:
        step: What random kernels count by: the place of the batch in the whole run, from 1, so that one
            worker draws what a local run draws; 0 means the number.
    """

    term: int
    number: int
    rank: int
    version: int
    batch: Batch
    step: int = 0


@travels("coord.computed")
@dataclass(frozen=True, slots=True)
class Computed:
    """Worker → coordinator: every shard keeps the contribution.

    Attributes:
        base: The version it was computed from; the oldest, if shards differed.
        scalars: Loss and metrics, in the order of the program.
        bases: The version that each shard gave.
    """

    term: int
    number: int
    rank: int
    base: int
    scalars: tuple[float, ...] = ()
    bases: tuple[int, ...] = ()


@travels("coord.missed")
@dataclass(frozen=True, slots=True)
class Missed:
    """Worker → coordinator: there will be no contribution `number`.

    Attributes:
        error: None when it was too late, by a shard's word or since the parameters had moved on; else why:
            ShardLost or PeerLost when this worker cannot reach a shard, else what the program raised.
        bears: Where that is a loss or gradient that is not finite: how many of those a run drops before one
            ends it, as the program says.
    """

    term: int
    number: int
    rank: int
    error: ActorflowError | None = None
    bears: int = 0


@travels("coord.exhausted")
@dataclass(frozen=True, slots=True)
class Exhausted:
    """Worker → coordinator: there is no such batch; epoch `epoch` has `size` batches."""

    term: int
    number: int
    rank: int
    epoch: int
    size: int


@travels("coord.outcome")
@dataclass(frozen=True, slots=True)
class ContributionOutcome:
    """Coordinator → worker: what became of contribution `number`; the receipt, one for each permit.

    One that is not accepted may come before the worker has said anything: it can stop working on it.

    Attributes:
        accepted: Whether it is part of the update that made `version`.
        version: That, or the version at which it was dropped.
        reason: Why it was dropped; empty when it was accepted.
    """

    number: int
    accepted: bool
    version: int
    reason: str = ""


@travels("coord.leave")
@dataclass(frozen=True, slots=True)
class Leave:
    """Worker → coordinator: takes no part any more, in good order."""

    rank: int
    incarnation: int


@travels("coord.end")
@dataclass(frozen=True, slots=True)
class RunEnded:
    """Coordinator → worker or shard: the run is over; `error` says why if not in good order.

    With Fenced it is over for this incarnation of a worker alone, which was given up: it may join again.
    Whoever trains may tell the coordinator, to end the run.

    Attributes:
        dropped: For whoever trains: numbers of contributions that are not used since the last update, with
            why; no Updated has them.
        dropped_by: Whose each of these was, by rank.
    """

    term: int
    error: ActorflowError | None = None
    dropped: tuple[tuple[int, str], ...] = ()
    dropped_by: tuple[int, ...] = ()


# -- workers and shards ----------------------------------------------------------------------------


@travels("coord.pull")
@dataclass(frozen=True, slots=True)
class Pull:
    """Worker → shard, asked: the parameters at `version` or later; answered with Pulled, once they are there.

    Attributes:
        rows: The variables of which some rows are wanted, and which: int64, distinct and ascending. What the
            shard does not hold is no matter to it.
        names: The variables that are wanted; None for all that the shard holds.
    """

    version: int
    rows: Mapping[str, Any] = field(default_factory=dict)
    names: tuple[str, ...] | None = None


@travels("coord.pulled")
@dataclass(frozen=True, slots=True)
class Pulled:
    """Shard → worker: its variables, all as the update that made `version` left them.

    Of those that were asked for by rows, these rows in their order.
    """

    version: int
    values: Mapping[str, Any]


@travels("coord.never")
@dataclass(frozen=True, slots=True)
class Never:
    """Shard → worker, in place of Pulled: it waited for a version that will not come, and why."""

    error: ActorflowError


@travels("coord.contribute")
@dataclass(frozen=True, slots=True)
class Contribute:
    """Worker → shard, asked: gradients by variable; answered with Stored or Refused.

    A gradient is an array, or (indices, rows): int64, distinct and ascending, and a row for each.

    Attributes:
        bases: The version that each shard gave.
    """

    term: int
    number: int
    rank: int
    base: int
    gradients: Mapping[str, Any]
    bases: tuple[int, ...] = ()


@travels("coord.kept")
@dataclass(frozen=True, slots=True)
class Stored:
    """Shard → worker: the contribution is here."""

    number: int


@travels("coord.refused")
@dataclass(frozen=True, slots=True)
class Refused:
    """Shard → worker: the contribution is not wanted, and why: "late", "fenced", "seen"."""

    number: int
    reason: str


# -- coordinator and shards ------------------------------------------------------------------------


@travels("coord.stage")
@dataclass(frozen=True, slots=True)
class PrepareUpdate:
    """Coordinator → shard: prepare the update of `version` from these contributions, (rank, number).

    Attributes:
        commits: Whether to commit it as soon as it is ready, and say Committed in place of Staged: there is
            no other shard whose word would be waited for.
    """

    term: int
    version: int
    chosen: tuple[tuple[int, int], ...]
    commits: bool = False


@travels("coord.staged")
@dataclass(frozen=True, slots=True)
class Staged:
    """Shard → coordinator: ready to commit the update of `version`; that cannot fail."""

    term: int
    shard: int
    version: int


@travels("coord.unstaged")
@dataclass(frozen=True, slots=True)
class Unstaged:
    """Shard → coordinator: cannot prepare the update of `version`; nothing has changed.

    Attributes:
        chosen: The set that it was of, (rank, number) each, where the shard chose it.
    """

    term: int
    shard: int
    version: int
    error: ActorflowError
    chosen: tuple[tuple[int, int], ...] = ()


@travels("coord.commit")
@dataclass(frozen=True, slots=True)
class Commit:
    """Coordinator → shard: apply what is staged for `version`."""

    term: int
    version: int


@travels("coord.discard")
@dataclass(frozen=True, slots=True)
class Discard:
    """Coordinator → shard: forget what is staged for `version`; its contributions are not used."""

    term: int
    version: int


@travels("coord.committed")
@dataclass(frozen=True, slots=True)
class Committed:
    """Shard → coordinator: the update of `version` is applied; this shard is at `version` + 1.

    Attributes:
        chosen: If the shard closes updates by itself: (rank, number) of what it used.
        bases: And the version that each shard had given, for each of these.
    """

    term: int
    shard: int
    version: int
    chosen: tuple[tuple[int, int], ...] = ()
    bases: tuple[tuple[int, ...], ...] = ()


@travels("coord.drop")
@dataclass(frozen=True, slots=True)
class DropContributions:
    """Coordinator → shard: these contributions, by number, will never be used.

    A shard that closes updates by itself answers with Dropped: it may have used one already.
    """

    term: int
    numbers: tuple[int, ...]


@travels("coord.dropped")
@dataclass(frozen=True, slots=True)
class Dropped:
    """Shard that closes updates by itself → coordinator: will use none of these from now on.

    What it has used it has told before, by Committed; what it is using now is not among them.
    """

    term: int
    shard: int
    numbers: tuple[int, ...]


@travels("coord.enough")
@dataclass(frozen=True, slots=True)
class Enough:
    """Coordinator → shard that closes updates by itself: `count` contributions make one from now on.

    Attributes:
        until: The version at which it stops; None for no end.
    """

    term: int
    count: int
    until: int | None = None


@travels("coord.fence")
@dataclass(frozen=True, slots=True)
class Fence:
    """New coordinator → shard, asked: obey `term` and no older one; answered with ShardStatus."""

    term: int


@travels("coord.standing")
@dataclass(frozen=True, slots=True)
class ShardStatus:
    """Shard → new coordinator: where it stands.

    Attributes:
        version: Updates applied.
        staged: What it has staged and not committed, if anything.
        last: The set that made `version`; None before the first update.
    """

    shard: int
    version: int
    staged: PrepareUpdate | None = None
    last: PrepareUpdate | None = None


@travels("coord.updated")
@dataclass(frozen=True, slots=True)
class Updated:
    """Coordinator → whoever trains: an update is committed on all shards.

    Attributes:
        version: What it made.
        chosen: (rank, number, batch, base) of each contribution, in rank order. Where shards close updates
            by themselves, of each that one of them used.
        dropped: Numbers of contributions that were complete or under way and are not used, with why.
        dropped_by: Whose each of these was, by rank.
        scalars: The mean over the contributions, loss first; none when all of their workers were lost before
            they could tell.
        alive: How many workers live.
        staleness: Updates between the base of each contribution and this one.
        bases: The version that each shard gave, of each contribution.
        steps: What random kernels counted by, of each contribution.
        per_shard: Where shards close updates by themselves, (rank, number) of what each of them used, by
            shard. None for one that had made this version in an earlier run, or did not come so far in this.
    """

    version: int
    chosen: tuple[tuple[int, int, Batch, int], ...]
    dropped: tuple[tuple[int, str], ...] = ()
    scalars: tuple[float, ...] = ()
    alive: int = 0
    staleness: tuple[int, ...] = ()
    bases: tuple[tuple[int, ...], ...] = ()
    steps: tuple[int, ...] = ()
    per_shard: tuple[tuple[tuple[int, int], ...], ...] = ()
    dropped_by: tuple[int, ...] = ()
