"""The peers of a shard: the coordinator of the run, and the other shards that live as far as it knows.

It is introduced to them when a run begins. When the coordinator is gone one shard leads, so that no half
commit stays:

1. It fences all shards that live under a term of its own, so that nothing that is still on its way from the
   lost coordinator is obeyed any more, and hears where each stands.
2. By the rule of recovery, what one has committed all commit; what nobody has is discarded.
3. All end with the error.

The rule gives the same verdict before, during and after it is carried out. So two shards that do this at the
same time, each thinking that it has to, do no harm.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from actorflow.actors.ref import Ref
from actorflow.coord.rules.commit import following_term, run_of_term
from actorflow.coord.rules.gradient_mean import StalenessRecord
from actorflow.coord.rules.messages import (
    Commit,
    Committed,
    Discard,
    Dropped,
    Fence,
    RunEnded,
    ShardStatus,
    Staged,
    Unstaged,
)
from actorflow.coord.rules.open_contributions import Contributions
from actorflow.coord.rules.participant import Participant
from actorflow.errors import ActorflowError, CoordinatorLost, Fenced, ShardLost, describe
from actorflow.runtime.messages import Terminated
from actorflow.runtime.story import Story
from actorflow.runtime.validation import validates
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


FailoverAnswer = Staged | Unstaged | Committed | Dropped


@validates("meet", "say", "gone")
class PeerShards:
    """Whom one shard has met.

    INVARIANT: a coordinator hears nothing of a run that it does not lead; what is said before the one that
    does has been met waits for that.

    Args:
        shard: Its number, of `shards`.

    Attributes:
        term: That of the coordinator.
        coordinator: The newest that was met.
        others: By number, the other shards, but for those that were lost.
        coordinator_lost: Whether that coordinator is lost.
        lost: Why the shard cannot go on in this run: another one is gone.
    """

    def __init__(self, shard: int, shards: int) -> None:
        self.term = 0
        self.coordinator: Ref | None = None
        self.others: dict[int, Ref] = {}
        self.coordinator_lost = False
        self.lost: ShardLost | None = None
        self._shard = shard
        self._shards = shards
        self._unsaid: list[FailoverAnswer] = []
        self.story = Story()

    def validate(self) -> None:
        """Raises InternalError where an invariant does not hold."""
        self.story.check(
            self,
            {
                "a shard is no peer of its own": self._shard not in self.others,
                "who was met leads a run": (self.coordinator is None) is (self.term == 0),
                "only a coordinator that was met is lost": self.coordinator is not None
                or not self.coordinator_lost,
                "what is unsaid is for a later run": all(
                    max(1, run_of_term(each.term)) > max(1, run_of_term(self.term)) for each in self._unsaid
                ),
            },
        )

    def meet(self, meet: Introduction, me: Ref) -> bool:
        """Meets those of a run, and watches them as `me`; false for a run before the one that it knows."""
        if meet.term < self.term:
            return False
        self.story.append(("meet", meet.term, meet.coordinator.name, len(meet.shards)))
        self.term, self.coordinator = meet.term, meet.coordinator
        self.coordinator_lost, self.lost = False, None
        self.others = {n: ref for n, ref in enumerate(meet.shards) if n != self._shard}
        for ref in (meet.coordinator, *self.others.values()):
            ref.watch(me)
        unsaid, self._unsaid = self._unsaid, []
        for message in unsaid:
            self.say(message)
        return True

    def say(self, message: FailoverAnswer) -> None:
        """Tells the coordinator, if it lives.

        Raises:
            InternalError: there is none, and none has fenced the shard.
        """
        run = max(1, run_of_term(message.term))  # a shard that no coordinator has fenced yet is in the first
        if run > max(1, run_of_term(self.term)):
            self._unsaid.append(message)  # its coordinator has fenced the shard, which has yet to meet it
            return
        if self.coordinator is None:
            kind = type(message).__name__
            what = f"shard {self._shard} has not met its coordinator, and has {kind} to say"
            raise self.story.broken(what)
        if not self.coordinator_lost and run == run_of_term(self.term):
            self.coordinator.signal(message)

    def gone(self, notice: Terminated, *, over: bool) -> bool:
        """Hears that somebody is gone; returns whether that is another shard which the run still needs."""
        gone = next((n for n, ref in self.others.items() if ref.name == notice.actor), None)
        if gone is not None:
            self.story.append(("lose", gone))
            del self.others[gone]
            if not over:
                self.lost = self.lost or shard_lost_error(gone, notice.reason)
        elif self.coordinator is not None and notice.actor == self.coordinator.name:
            self.story.append(("lose", notice.actor))
            self.coordinator_lost = True
        return gone is not None and not over

    def leads(self, term: int) -> int | None:
        """Returns the term under which this shard leads the others, which obey `term`.

        None when that is not on it: its coordinator lives, or a newer one leads.
        """
        if not self.coordinator_lost or run_of_term(term) > run_of_term(self.term):
            return None
        return following_term(max(term, self.term), self._shard, self._shards)

    @property
    def leader(self) -> Ref | None:
        """The shard that has to lead; None when it is this one."""
        first = min((self._shard, *self.others))
        return None if first == self._shard else self.others[first]

    def __repr__(self) -> str:
        return f"<PeerShards of shard {self._shard}: others {sorted(self.others)}, term {self.term}>"


class Recovered(Protocol):
    """What the rule of recovery says."""

    @property
    def version(self) -> int:
        """Where all will stand."""
        ...

    @property
    def behind(self) -> tuple[int, ...]:
        """Shards that are at the version before, and commit what they have staged."""
        ...

    @property
    def discards(self) -> tuple[int, ...]:
        """Shards that have staged the update of `version`, which nobody has committed."""
        ...


Recover = Callable[[Mapping[int, ShardStatus]], Recovered]
"""The status of each shard -> how all get to one version; CoordinationError when they cannot."""


@dataclass(slots=True)
class FailoverVerdict:
    """What to say to each shard, and who did not answer.

    Attributes:
        say: By shard.
        lost: The shards that could not be fenced, and why.
        wrong: Why the others cannot get to one version, if so.
    """

    say: dict[int, Commit | Discard] = field(default_factory=dict)
    lost: dict[int, ActorflowError] = field(default_factory=dict)
    wrong: ActorflowError | None = None

    def announce(
        self, shards: Mapping[int, Ref], term: int, lost: ShardLost | None, reason: BaseException | None
    ) -> None:
        """Tells shards what to do, and that the run is over.

        Args:
            shards: Those that lived when this was asked for.
            term: Under which the one that leads has fenced them.
            lost: What was known before to be lost of them.
            reason: Why the coordinator is gone.
        """
        error: ActorflowError = self.wrong or lost or coordinator_lost_error(reason)
        for shard, why in self.lost.items():
            error = shard_lost_error(shard, why)
        for shard, ref in shards.items():
            if shard in self.say:
                ref.signal(self.say[shard])
            ref.signal(RunEnded(term, error))


async def resolve(
    term: int, own: ShardStatus, others: Mapping[int, Ref], recover: Recover
) -> FailoverVerdict:
    """Fences the others under `term` and returns the verdict; each of them answers or is lost.

    Args:
        term: Greater than that of the lost coordinator.
        own: Where the shard that asks stands, fenced already.
        others: The shards that live, as far as it knows.
        recover: The rule.

    Raises:
        Fenced: another one leads, with a newer term: there is nothing to say.
    """
    verdict = FailoverVerdict()
    standings = {own.shard: own}
    for shard, ref in sorted(others.items()):
        try:
            standings[shard] = await ref.ask(Fence(term))
        except Fenced:
            raise  # whoever leads in its place decides
        except ActorflowError as error:
            verdict.lost[shard] = error
    try:
        found = recover(standings)
    except ActorflowError as error:
        verdict.wrong = error
        return verdict
    for shard in found.behind:
        verdict.say[shard] = Commit(term, found.version - 1)
    for shard in found.discards:
        verdict.say[shard] = Discard(term, found.version)
    return verdict


def shard_lost_error(shard: int, reason: BaseException | None) -> ShardLost:
    """Returns the error of whoever needs a shard that is gone."""
    lost = ShardLost(f"shard {shard} is gone, and its variables with it{_why(reason)}")
    lost.__cause__ = reason
    return lost


def coordinator_lost_error(reason: BaseException | None) -> CoordinatorLost:
    """Returns the error with which shards end whose coordinator is gone."""
    lost = CoordinatorLost(f"the coordinator is gone, and the run has ended on all shards{_why(reason)}")
    lost.__cause__ = reason
    return lost


def _why(reason: BaseException | None) -> str:
    return "" if reason is None else f": {describe(reason)}"
