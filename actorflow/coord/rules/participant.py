"""One shard's part in the two-phase commit of updates: what it has promised, and what it has done.

                prepare    ready  fail    commit      apply  discard  fence  end
    idle        preparing  .      .       .           .      .        idle   idle
    preparing   .          ready  failed  .           .      idle     idle   idle
    ready       .          .      .       committing  .      idle     ready  ready
    failed      preparing  .      .       .           .      idle     idle   idle
    committing  .          .      .       .           idle   .        .      committing

What else is heard changes nothing, or is refused.

* READY promises that a commit cannot fail. A shard that is READY has no way back of its own.
* For one version there is one set. Another one is refused while the first is prepared, promised or applied;
  once it has been discarded, or has failed, the version is free again.
* Of two terms the greater is obeyed, and is the term from then on. What an older one says changes nothing.
* Everything may be said twice. A PrepareUpdate gets the answer that it had, a Commit of what is applied gets
  its Committed again, a Discard of nothing does nothing.
* Fence says where the shard stands. What is only being prepared is let go: nobody was promised anything.

Source: Gray, "Notes on data base operating systems", 1978; terms as in Ongaro, Ousterhout, "In search of an
understandable consensus algorithm", 2014.

Pure: `coord.actors.shard` obeys it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from enum import Enum, StrEnum
from hashlib import blake2b
from typing import Final

from actorflow.coord.rules.messages import Commit, Discard, Fence, PrepareUpdate, ShardStatus
from actorflow.errors import ActorflowError, CoordinationError, Fenced
from actorflow.runtime.story import Story
from actorflow.runtime.validation import validates


class ShardPhase(StrEnum):
    """How far the update of the present version has come."""

    IDLE = "idle"
    PREPARING = "preparing"
    READY = "ready"
    FAILED = "failed"
    COMMITTING = "committing"


class ShardEvent(StrEnum):
    """What moves it from one phase to the next: the first five of one update, the others of the run."""

    PREPARE = "prepare"
    READY = "ready"
    FAIL = "fail"
    COMMIT = "commit"
    APPLY = "apply"
    DISCARD = "discard"
    FENCE = "fence"
    END = "end"


TRANSITIONS: Final[Mapping[tuple[ShardPhase, ShardEvent], ShardPhase]] = {
    (ShardPhase.IDLE, ShardEvent.PREPARE): ShardPhase.PREPARING,
    (ShardPhase.FAILED, ShardEvent.PREPARE): ShardPhase.PREPARING,  # of another set
    (ShardPhase.PREPARING, ShardEvent.READY): ShardPhase.READY,
    (ShardPhase.PREPARING, ShardEvent.FAIL): ShardPhase.FAILED,
    (ShardPhase.READY, ShardEvent.COMMIT): ShardPhase.COMMITTING,
    (ShardPhase.COMMITTING, ShardEvent.APPLY): ShardPhase.IDLE,
    (ShardPhase.PREPARING, ShardEvent.DISCARD): ShardPhase.IDLE,
    (ShardPhase.READY, ShardEvent.DISCARD): ShardPhase.IDLE,
    (ShardPhase.FAILED, ShardEvent.DISCARD): ShardPhase.IDLE,
    (ShardPhase.IDLE, ShardEvent.FENCE): ShardPhase.IDLE,
    (ShardPhase.PREPARING, ShardEvent.FENCE): ShardPhase.IDLE,
    (ShardPhase.READY, ShardEvent.FENCE): ShardPhase.READY,  # a promise: others may have committed it
    (ShardPhase.FAILED, ShardEvent.FENCE): ShardPhase.IDLE,
    (ShardPhase.IDLE, ShardEvent.END): ShardPhase.IDLE,
    (ShardPhase.PREPARING, ShardEvent.END): ShardPhase.IDLE,
    (ShardPhase.READY, ShardEvent.END): ShardPhase.READY,
    (ShardPhase.FAILED, ShardEvent.END): ShardPhase.IDLE,
    (ShardPhase.COMMITTING, ShardEvent.END): ShardPhase.COMMITTING,
}


class Do(Enum):
    """What the shard does upon a message."""

    NOTHING = "nothing"
    PREPARE = "prepare the update"
    SAY_STAGED = "say Staged"
    SAY_UNSTAGED = "say Unstaged"
    COMMIT = "apply the update"
    SAY_COMMITTED = "say Committed"
    DISCARD = "let the update go"


@validates("hear_stage", "obey", "forget", "hears", "fence", "ready", "failed", "committed", "drop")
class Participant:
    """Where one shard stands.

    INVARIANT: `stage` is None exactly in phase IDLE; `error` is there exactly in phase FAILED.
    INVARIANT: what is staged is of the present version, `last` of the one before; no term in it is newer than
        that of the shard.
    INVARIANT: `version`, `last` and `sets` change together, by `committed` alone; `term` never goes back.

    Attributes:
        shard: Its number.
        term: The greatest that it has heard.
        version: Updates applied.
        phase: How far the next one is.
        stage: The set that is prepared, promised or failed.
        last: The set that made `version`.
        sets: A digest of the sets of all updates so far: shards that made the same ones have the same.
        error: Why preparing failed.
        story: Its last transitions.
    """

    __slots__ = (
        "error",
        "last",
        "phase",
        "sets",
        "shard",
        "stage",
        "story",
        "term",
        "version",
    )

    def __init__(self, shard: int, version: int = 0) -> None:
        self.shard = shard
        self.term = 0
        self.version = version
        self.phase = ShardPhase.IDLE
        self.stage: PrepareUpdate | None = None
        self.last: PrepareUpdate | None = None
        self.sets = ""
        self.error: ActorflowError | None = None
        self.story = Story()  # of each event its version and term, and what else there is to it

    def validate(self) -> None:
        """Raises InternalError where an invariant does not hold."""
        stage, last = self.stage, self.last
        self.story.check(
            self,
            {
                "a set is staged exactly while it is not idle": (stage is None)
                is (self.phase is ShardPhase.IDLE),
                "an error is kept exactly when it has failed": (self.error is None)
                is (self.phase is not ShardPhase.FAILED),
                "what is staged is of the present version": stage is None or stage.version == self.version,
                "the last set made the present version": last is None or last.version == self.version - 1,
                "the digest is that of all sets up to the last": (last is None) is (self.sets == ""),
                "a term never goes back": all(
                    isinstance(term, int) and term <= self.term for _, _, term, *_ in self.story
                )
                and all(each is None or each.term <= self.term for each in (stage, last)),
            },
        )

    def __repr__(self) -> str:
        return f"<Participant {self.shard} {self.phase.value} at version {self.version}, term {self.term}>"

    # -- what a coordinator says -------------------------------------------------------------------

    def hear_stage(self, stage: PrepareUpdate) -> Do:
        """Hears PrepareUpdate. At PREPARE its set is the one of this version, until it is discarded or fails.

        Raises:
            Fenced: for an older term.
            CoordinationError: for another version, and for a second, different set.
        """
        if stage.term < self.term:
            message = f"shard {self.shard} obeys term {self.term}, got Stage of term {stage.term}"
            raise Fenced(message, hint="another coordinator has taken over; this one has to end")
        self.term = stage.term
        known = self.stage if stage.version == self.version else self.last
        if known is not None and _same(known, stage):
            return self._repeat(stage)
        promised = self.phase not in (ShardPhase.IDLE, ShardPhase.FAILED)
        if stage.version != self.version or promised:
            self._refuse(stage, known)
        self._move(ShardEvent.PREPARE, len(stage.chosen))
        self.stage, self.error = stage, None
        return Do.PREPARE

    def obey(self, commit: Commit) -> Do:
        """Hears Commit.

        Raises:
            InternalError: for what is not READY: no coordinator may say so.
        """
        if commit.term < self.term:
            return Do.NOTHING
        if commit.version < self.version:
            self.term = commit.term
            return Do.SAY_COMMITTED
        if commit.version > self.version or self.phase not in (ShardPhase.READY, ShardPhase.COMMITTING):
            message = f"{self!r} was told to commit version {commit.version}, which it has not staged"
            raise self.story.broken(message)
        self.term = commit.term
        if self.phase is ShardPhase.COMMITTING:
            return Do.NOTHING
        self._move(ShardEvent.COMMIT)
        return Do.COMMIT

    def forget(self, discard: Discard) -> Do:
        """Hears Discard.

        Raises:
            InternalError: for what is being committed.
        """
        if discard.term < self.term:
            return Do.NOTHING
        if discard.version == self.version and self.phase is ShardPhase.COMMITTING:
            message = f"{self!r} was told to discard version {discard.version}, which it commits"
            raise self.story.broken(message)
        self.term = discard.term
        if discard.version != self.version or self.phase is ShardPhase.IDLE:
            return Do.NOTHING
        return self._let_go(ShardEvent.DISCARD)

    def obey_term(self, term: int) -> None:
        """Hears of a term that is to be obeyed from now on.

        Raises:
            Fenced: when a newer one is.
        """
        if not self.hears(term):
            message = f"shard {self.shard} obeys term {self.term}, got Fence of term {term}"
            raise Fenced(message, hint="another coordinator has taken over; this one has to end")

    def hears(self, term: int) -> bool:
        """Tells whether a message of that term is obeyed; a newer one is the term from now on."""
        if term < self.term:
            return False
        self.term = term
        return True

    def fence(self, fence: Fence) -> tuple[ShardStatus, Do]:
        """Hears Fence, not while it is COMMITTING; returns where it stands.

        Raises:
            Fenced: when a newer term is obeyed.
        """
        if self.phase is ShardPhase.COMMITTING and fence.term >= self.term:
            message = f"{self!r} stands nowhere before its commit has ended"
            raise self.story.broken(message)
        self.obey_term(fence.term)
        do = self._let_go(ShardEvent.FENCE)
        return ShardStatus(self.shard, self.version, self.stage, self.last), do

    def unused_of(self, numbers: Iterable[int]) -> tuple[int, ...]:
        """Returns those that are not in what is prepared, promised or applied just now."""
        chosen = () if self.stage is None else self.stage.chosen
        using = {number for _, number in chosen}
        return tuple(number for number in numbers if number not in using)

    # -- what the shard itself has come to ------------------------------------------------------------

    def ready(self, stage: PrepareUpdate) -> bool:
        """Hears that the update is prepared; false when it has been let go meanwhile."""
        if self.stage is not stage or self.phase is not ShardPhase.PREPARING:
            return False
        self._move(ShardEvent.READY)
        return True

    def failed(self, stage: PrepareUpdate, error: ActorflowError) -> bool:
        """Hears that it cannot be prepared; false when it has been let go meanwhile."""
        if self.stage is not stage or self.phase is not ShardPhase.PREPARING:
            return False
        self._move(ShardEvent.FAIL)
        self.error = error
        return True

    def committed(self) -> PrepareUpdate:
        """Hears that the update is applied; returns its set."""
        self._move(ShardEvent.APPLY)
        assert self.stage is not None
        applied, self.stage = self.stage, None
        self.last = applied
        self.version += 1
        self.sets = chain_digest(self.sets, self.version, applied.chosen)
        return applied

    def drop(self) -> Do:
        """Hears that the run is over: what was not promised is let go.

        What was is decided by Commit or Discard alone, and if not in this run, then by whoever fences next:
        others may have committed it.
        """
        return self._let_go(ShardEvent.END)

    # ---------------------------------------------------------------------------------------------------

    def _move(self, event: ShardEvent, *facts: int) -> None:
        """Takes an event of the table; its story has the version and the term that it was under."""
        after = TRANSITIONS.get((self.phase, event))
        if after is None:
            message = f"{self!r} knows no {event}"
            raise self.story.broken(message)
        self.story.append((event, self.version, self.term, *facts))
        self.phase = after

    def _let_go(self, event: ShardEvent) -> Do:
        """Takes an event that ends what was not promised, if there is anything of that."""
        before = self.phase
        self._move(event)
        if self.phase is before:
            return Do.NOTHING
        self.stage = self.error = None
        return Do.DISCARD

    def _repeat(self, stage: PrepareUpdate) -> Do:
        """The answer to a PrepareUpdate that was heard before."""
        if stage.version != self.version:
            return Do.SAY_COMMITTED if stage.commits else Do.SAY_STAGED
        if self.phase is ShardPhase.READY:
            return Do.SAY_STAGED
        return Do.SAY_UNSTAGED if self.phase is ShardPhase.FAILED else Do.NOTHING

    def _refuse(self, stage: PrepareUpdate, known: PrepareUpdate | None) -> None:
        if known is not None and stage.version == known.version:
            message = (
                f"for version {stage.version} shard {self.shard} has {known.chosen}, got a second set "
                f"{stage.chosen}"
            )
        else:
            message = f"shard {self.shard} is at version {self.version}, got Stage of version {stage.version}"
        raise CoordinationError(message)


def chain_digest(sets: str, version: int, chosen: Iterable[tuple[int, int]]) -> str:
    """Returns the digest `sets` with one more update, that made `version` of (rank, number) `chosen`."""
    return blake2b(f"{sets} {version} {sorted(chosen)}".encode(), digest_size=16).hexdigest()


def _same(a: PrepareUpdate, b: PrepareUpdate) -> bool:
    """Tells whether two PrepareUpdates are of one version and set; sender and order are no matter."""
    return replace(a, term=0, chosen=tuple(sorted(a.chosen))) == replace(
        b, term=0, chosen=tuple(sorted(b.chosen))
    )
