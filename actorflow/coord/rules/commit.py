"""One update on all shards or on none: the coordinator's side of the commit, and what a new one finds.

1. Coordinator: PrepareUpdate(version, set) to every shard.
2. Shard: prepares the update. Staged: it can commit, whatever comes. Unstaged: it cannot; nothing changed.
3. Coordinator: once all have staged, Commit to all; after the first Unstaged, Discard to all.
4. Shard: applies it, is at version + 1, and says Committed.
5. Coordinator: once all have, the update is done, and the next may begin.

                begin    begin alone  all staged  unstaged  give up  all committed  resume
    idle        staging  committing   .           .         .        .              committing
    staging     .        .            committing  idle      idle     .              .
    committing  .        .            .           idle      .        idle           .

Whatever else comes changes nothing: it came twice, or of another term, or not all have said it yet.

Where there is one shard, nobody else has a say: its PrepareUpdate says `commits`, and 3 falls away. It
applies what it has prepared and says Committed, or Unstaged if it cannot. That saves a round trip of every
update.

A shard obeys the highest term that it has heard of. A new coordinator takes a term above all others, fences
every shard, and goes on from where they stand (`recover`). It knows nothing else, and needs nothing else.

A run has a block of terms of its own. The first is that of its coordinator; the others are those of shards
that lead once it is lost, each with its own residue, so that two that lead at once differ.

INVARIANT: Commit is sent, in whatever term, only for what every shard had staged or somebody has committed.
INVARIANT: a PrepareUpdate with `commits` is sent only where there is one shard.
INVARIANT: the versions of shards differ by at most one; who is behind has staged what those ahead committed.

Source: Gray, Notes on Data Base Operating Systems (1978), two-phase commit.
Deviation: shards keep nothing on disk, so one that is lost ends the run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from actorflow.coord.rules.messages import (
    Commit,
    Committed,
    Discard,
    PrepareUpdate,
    ShardStatus,
    Staged,
    Unstaged,
)
from actorflow.errors import ActorflowError, CoordinationError, InternalError
from actorflow.runtime.story import Story
from actorflow.runtime.validation import validates

Chosen = tuple[tuple[int, int], ...]
"""The contributions of an update, (rank, number), in the order of ranks."""


class CommitPhase(StrEnum):
    """How far the update is."""

    IDLE = "idle"
    STAGING = "staging"
    COMMITTING = "committing"


class CommitEvent(StrEnum):
    """What moves it from one phase to the next."""

    BEGIN = "begin"
    BEGIN_ALONE = "begin alone"
    ALL_STAGED = "all staged"
    UNSTAGED = "unstaged"
    GIVE_UP = "give up"
    ALL_COMMITTED = "all committed"
    RESUME = "resume"


TRANSITIONS: Final[Mapping[tuple[CommitPhase, CommitEvent], CommitPhase]] = {
    (CommitPhase.IDLE, CommitEvent.BEGIN): CommitPhase.STAGING,
    (CommitPhase.IDLE, CommitEvent.BEGIN_ALONE): CommitPhase.COMMITTING,  # it may commit from now on
    (CommitPhase.IDLE, CommitEvent.RESUME): CommitPhase.COMMITTING,  # what an earlier term has begun
    (CommitPhase.STAGING, CommitEvent.ALL_STAGED): CommitPhase.COMMITTING,
    (CommitPhase.STAGING, CommitEvent.UNSTAGED): CommitPhase.IDLE,
    (CommitPhase.STAGING, CommitEvent.GIVE_UP): CommitPhase.IDLE,
    (CommitPhase.COMMITTING, CommitEvent.UNSTAGED): CommitPhase.IDLE,  # of the only shard: others promised
    (CommitPhase.COMMITTING, CommitEvent.ALL_COMMITTED): CommitPhase.IDLE,
}


@dataclass(frozen=True, slots=True)
class UpdateCommitted:
    """Every shard has committed: they are at `version`, which `chosen` made (None: an earlier term knew)."""

    version: int
    chosen: Chosen | None


@dataclass(frozen=True, slots=True)
class UpdateDiscarded:
    """No shard has or will: they stay at `version`, and `error` says why."""

    version: int
    chosen: Chosen
    error: ActorflowError


@dataclass(frozen=True, slots=True)
class SendToShard:
    """A message to one shard."""

    shard: int
    message: PrepareUpdate | Commit | Discard


Effect = SendToShard | UpdateCommitted | UpdateDiscarded


@validates("begin", "staged", "unstaged", "discard", "committed", "resume", "skip_to")
class Commitment:
    """One update after the other, as the coordinator of `term` makes them.

    Answers that come twice, of other terms, or to what is over change nothing.

    INVARIANT: some shard has yet to answer, and a set is chosen, exactly while an update is under way; of
        one that an earlier term began the set may be unknown.
    INVARIANT: what is staged awaits other shards: where there is one, it commits.

    Args:
        term: Its term.
        shards: How many shards there are.
        version: Where all of them stand.
    """

    def __init__(self, term: int, shards: int, version: int = 0) -> None:
        self.term = term
        self.shards = shards
        self.version = version
        self.phase = CommitPhase.IDLE
        self.chosen: Chosen | None = None
        self.missing: set[int] = set()
        self.story = Story()

    def validate(self) -> None:
        """Raises InternalError where an invariant does not hold."""
        idle, chosen = self.phase is CommitPhase.IDLE, self.chosen or ()
        ranks = [rank for rank, _ in chosen]
        self.story.check(
            self,
            {
                "a shard has yet to answer exactly while an update is under way": bool(self.missing)
                is not idle,
                "only shards of the run have yet to answer": self.missing <= set(range(self.shards)),
                "no set is chosen between updates": not (idle and chosen),
                "a set is staged on two shards or more": self.phase is not CommitPhase.STAGING
                or (self.shards > 1 and bool(chosen)),
                "an update is made of one contribution of a rank, in rank order": ranks == sorted(set(ranks)),
            },
        )

    def begin(self, chosen: Chosen) -> tuple[Effect, ...]:
        """Begins the update of the present version."""
        if self.phase is not CommitPhase.IDLE:
            what = f"an update begins when none is under way, got {chosen} while {self!r}"
            raise self.story.broken(what)
        alone = self.shards == 1
        self._move(CommitEvent.BEGIN_ALONE if alone else CommitEvent.BEGIN, len(chosen))
        self.chosen = chosen
        return self._to_all(PrepareUpdate(self.term, self.version, chosen, alone))

    def staged(self, message: Staged) -> tuple[Effect, ...]:
        """Hears that a shard can commit."""
        if not self._awaits(message, CommitPhase.STAGING):
            return ()
        self.missing.discard(message.shard)
        if self.missing:
            return ()
        self._move(CommitEvent.ALL_STAGED)
        return self._to_all(Commit(self.term, self.version))

    def unstaged(self, message: Unstaged) -> tuple[Effect, ...]:
        """Hears that a shard cannot: nobody will."""
        if not self._awaits(message, CommitPhase.COMMITTING if self.shards == 1 else CommitPhase.STAGING):
            return ()
        self._move(CommitEvent.UNSTAGED, message.shard)
        return self._finish_discard(message.error)

    def discard(self, error: ActorflowError) -> tuple[Effect, ...]:
        """Gives up the update that is being staged."""
        if self.phase is not CommitPhase.STAGING:
            what = f"what is being staged can be discarded, got {self!r}"
            raise self.story.broken(what)
        self._move(CommitEvent.GIVE_UP)
        return self._finish_discard(error)

    def _finish_discard(self, error: ActorflowError) -> tuple[Effect, ...]:
        chosen = self.chosen
        assert chosen is not None
        self.chosen, self.missing = None, set()
        told = [SendToShard(shard, Discard(self.term, self.version)) for shard in range(self.shards)]
        return (*told, UpdateDiscarded(self.version, chosen, error))

    def committed(self, message: Committed) -> tuple[Effect, ...]:
        """Hears that a shard has."""
        if not self._awaits(message, CommitPhase.COMMITTING):
            return ()
        self.missing.discard(message.shard)
        if self.missing:
            return ()
        self._move(CommitEvent.ALL_COMMITTED)
        self.version += 1
        chosen, self.chosen = self.chosen, None
        return (UpdateCommitted(self.version, chosen),)

    def resume(self, found: Recovery) -> tuple[Effect, ...]:
        """Goes on from where the shards stand."""
        told = [SendToShard(shard, Discard(self.term, found.version)) for shard in found.discards]
        self.version = found.version
        if found.behind:
            self.version -= 1
            self._move(CommitEvent.RESUME, len(found.behind))
            self.chosen, self.missing = found.chosen, set(found.behind)
            told = [*told, *(SendToShard(shard, Commit(self.term, self.version)) for shard in found.behind)]
        return tuple(told)

    def skip_to(self, version: int) -> None:
        """Hears where shards stand that make updates without it, each by itself."""
        self.story.append(("skip to", version))
        self.version = version

    def _move(self, event: CommitEvent, *facts: int) -> None:
        """Takes an event of the table; its story has the version that it was about."""
        after = TRANSITIONS.get((self.phase, event))
        if after is None:
            what = f"{self!r} knows no {event}"
            raise self.story.broken(what)
        self.story.append((event, self.version, *facts))
        self.phase = after

    def _awaits(self, message: Staged | Unstaged | Committed, phase: CommitPhase) -> bool:
        ours = message.term == self.term and message.version == self.version
        return ours and self.phase is phase and message.shard in self.missing

    def _to_all(self, message: PrepareUpdate | Commit | Discard) -> tuple[Effect, ...]:
        self.missing = set(range(self.shards))
        return tuple(SendToShard(shard, message) for shard in range(self.shards))

    def __repr__(self) -> str:
        waits = f", waits for shards {sorted(self.missing)}" if self.missing else ""
        return f"<Commitment of version {self.version} in term {self.term}: {self.phase.value}{waits}>"


@dataclass(frozen=True, slots=True)
class Recovery:
    """What a new coordinator makes of the status of the shards.

    Attributes:
        version: Where all will stand.
        behind: Shards that are at the version before, and commit what they have staged.
        discards: Shards that have staged the update of `version`, which nobody has committed.
        chosen: The set that made `version`, as far as a shard knows.
    """

    version: int
    behind: tuple[int, ...] = ()
    discards: tuple[int, ...] = ()
    chosen: Chosen | None = None


def recover(standings: Mapping[int, ShardStatus]) -> Recovery:
    """Returns how all shards get to one version: the highest that one of them has.

    Args:
        standings: What every shard said once it was fenced, by shard.

    Raises:
        CoordinationError: a shard lacks what another has committed.
    """
    version = max(standing.version for standing in standings.values())
    last = {
        _contribution_set(s.last) for s in standings.values() if s.version == version and s.last is not None
    }
    if len(last) > 1:
        what = f"shards at version {version} must have made it of one set, they made it of {sorted(last)}"
        raise InternalError(what)
    chosen = next(iter(last), None)
    behind, discards = [], []
    for shard, standing in sorted(standings.items()):
        staged = standing.staged
        if standing.version == version:
            if staged is not None:
                discards.append(shard)
            continue
        if staged is None or not _follows(standing, staged, version, chosen):
            kept = "nothing staged" if staged is None else f"{staged.chosen} staged for {staged.version}"
            what = (
                f"shard {shard} is at version {standing.version} with {kept}, and another is at version "
                f"{version}, made of {chosen}: it cannot follow"
            )
            raise CoordinationError(what)
        behind.append(shard)
    return Recovery(version, tuple(behind), tuple(discards), chosen)


def recover_apart(standings: Mapping[int, ShardStatus]) -> Recovery:
    """Returns how shards that close updates by themselves get on: each stays where it is."""
    return Recovery(max(standing.version for standing in standings.values()))


def _follows(standing: ShardStatus, staged: PrepareUpdate, version: int, chosen: Chosen | None) -> bool:
    """Whether what a shard has staged is what made `version`."""
    next_one = standing.version == staged.version == version - 1
    return next_one and (chosen is None or _contribution_set(staged) == chosen)


def _contribution_set(stage: PrepareUpdate) -> Chosen:
    return tuple(sorted(stage.chosen))


TERMS_OF_A_RUN = 1 << 12
"""Terms of one run."""


def term_of_run(run: int) -> int:
    """Returns the term of the coordinator of a run; runs are numbered from 1 on."""
    return (run - 1) * TERMS_OF_A_RUN + 1


def run_of_term(term: int) -> int:
    """Returns the run that a term belongs to; 0 for that of a shard which has heard of none."""
    return (term - 1) // TERMS_OF_A_RUN + 1


def following_term(term: int, shard: int, shards: int) -> int:
    """Returns the least term above `term`, in its run, under which shard number `shard` of `shards` may lead.

    Raises:
        InternalError: the run has none left.
    """
    run = run_of_term(term)
    first, above = term_of_run(run), term + 1
    found = above + (first + shard + 1 - above) % (shards + 1)
    if run_of_term(found) != run:
        message = f"shard {shard} of {shards} is to lead after term {term}, and run {run} has no term left"
        raise InternalError(message)
    return found
