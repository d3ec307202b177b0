"""Introductions: what a shard is told of those with whom it works, and what it tells of itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from actorflow.actors.ref import Ref
from actorflow.coord.rules.open_contributions import Contributions
from actorflow.coord.rules.participant import Participant
from actorflow.coord.rules.staleness import StalenessRecord
from actorflow.transport.codec.registry import travels


@dataclass(frozen=True, slots=True)
class Introduction:
    """Whoever starts the shards → shard, control lane: with whom it works, once all of them are there.

    Attributes:
        coordinator: Gets what the shard has to say; that it is gone ends the run.
        shards: All of them in their order, the one that is told included.
        term: That of the coordinator.
    """

    coordinator: Ref
    shards: Sequence[Ref]
    term: int = 1


@travels("coord.read_stats")
@dataclass(frozen=True, slots=True)
class ReadStats:
    """Whoever looks → shard, asked: what it has done; answered with ShardStats."""


@travels("coord.shard_stats")
@dataclass(frozen=True, slots=True)
class ShardStats:
    """What a shard has done so far.

    Attributes:
        version: Updates applied.
        term: The greatest that it has heard.
        open: Ranks whose contribution is kept and not used yet.
        refused: How many contributions were refused, by reason.
        staleness: Of those that updates were made of.
        sets: A digest of the sets of all updates; shards that agree have the same, see `participant`.
    """

    shard: int
    version: int
    term: int
    open: tuple[int, ...]
    refused: Mapping[str, int]
    staleness: StalenessRecord
    sets: str


def stats(participant: Participant, contributions: Contributions, staleness: StalenessRecord) -> ShardStats:
    """Returns what there is to tell of a shard."""
    refused = {reason.value: count for reason, count in contributions.refused.items()}
    return ShardStats(
        participant.shard,
        participant.version,
        participant.term,
        tuple(sorted(contributions.open)),
        dict(sorted(refused.items())),
        staleness,
        participant.sets,
    )
