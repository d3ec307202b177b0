"""The peers of a shard: the coordinator of the run, and the other shards that live as far as it knows."""

from __future__ import annotations

from actorflow.actors.ref import Ref
from actorflow.coord.actors.failover import shard_lost_error
from actorflow.coord.actors.introductions import Introduction
from actorflow.coord.rules.messages import Committed, Dropped, Staged, Unstaged
from actorflow.coord.rules.terms import following, run_of
from actorflow.errors import ShardLost
from actorflow.runtime.messages import Terminated
from actorflow.runtime.story import Story
from actorflow.runtime.validation import validates

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
                    max(1, run_of(each.term)) > max(1, run_of(self.term)) for each in self._unsaid
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
        run = max(1, run_of(message.term))  # a shard that no coordinator has fenced yet is in the first
        if run > max(1, run_of(self.term)):
            self._unsaid.append(message)  # its coordinator has fenced the shard, which has yet to meet it
            return
        if self.coordinator is None:
            kind = type(message).__name__
            what = f"shard {self._shard} has not met its coordinator, and has {kind} to say"
            raise self.story.broken(what)
        if not self.coordinator_lost and run == run_of(self.term):
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
        if not self.coordinator_lost or run_of(term) > run_of(self.term):
            return None
        return following(max(term, self.term), self._shard, self._shards)

    @property
    def leader(self) -> Ref | None:
        """The shard that has to lead; None when it is this one."""
        first = min((self._shard, *self.others))
        return None if first == self._shard else self.others[first]

    def __repr__(self) -> str:
        return f"<PeerShards of shard {self._shard}: others {sorted(self.others)}, term {self.term}>"
