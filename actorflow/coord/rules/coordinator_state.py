"""The coordinator's state of a run of several workers: every event, and what is to be said then.

A rule without clock, actors or links: it is told what came and when, and returns what to send. After each
event it goes as far as it can (`_advance`): ends what is over, makes an update if the policy names one, and
lets those start whom the policy names, in rank order. Who is in an update starts on the next one at once,
under a `fresh` policy as well.

It relies on no order between messages of different senders.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from actorflow.coord.rules import batch_order, commit, policy_checks, run_health
from actorflow.coord.rules.batch_order import BatchOrder, EpochLengths
from actorflow.coord.rules.commit import Commitment, CommitPhase, SendToShard, UpdateCommitted
from actorflow.coord.rules.contribution_table import (
    EXPIRED,
    LATE,
    MISSED,
    ContributionTable,
    Lease,
    Permits,
    after_update,
)
from actorflow.coord.rules.lifecycle import Lifecycle, Quorum, RunPhase
from actorflow.coord.rules.membership import Membership, Pulse, Reachability
from actorflow.coord.rules.messages import (
    Assignment,
    Committed,
    Computed,
    Dropped,
    Exhausted,
    Heartbeat,
    Leave,
    Missed,
    Rejected,
    RunEnded,
    ShardStatus,
    Staged,
    Unstaged,
)
from actorflow.coord.rules.outbox import Outbox, Send
from actorflow.coord.rules.policy import Policy, Round, View
from actorflow.coord.rules.run_health import shard_lost_error, stalled_error
from actorflow.coord.rules.run_settings import RunSettings
from actorflow.errors import (
    ActorflowError,
    ConfigError,
    CoordinationError,
    Fenced,
    PeerLost,
    PolicyError,
    ShardLost,
)
from actorflow.runtime.story import Story
from actorflow.runtime.validation import validates

CoordinatorEvent = Heartbeat | Leave | Computed | Missed | Exhausted | Staged | Unstaged | Committed | Dropped
"""What workers and shards say without being asked."""


@validates("open", "stop", "fail", "shard_lost", "join", "gone", "tick", "hear")
class CoordinatorState:
    """The state of a run, and its rules.

    INVARIANT: who has a permit is alive, in the incarnation that has it.
    INVARIANT: a permit is for the present version, an older one where that is of use, or the next while the
        present update is made.
    INVARIANT: what is in the making is the set that the commit is about.

    Args:
        policy: Who may start, and what makes an update.
        workers: The processes that are expected to join; their ranks are their places here.
        shards: How many shards there are.
        settings: Limits and times.
        term: That of this coordinator; a later one has a higher.

    Attributes:
        ended: What the run ended with, once it has.
        alarm: When to tell it the time, as the policy wishes; None when only events matter.
    """

    def __init__(
        self, policy: Policy, workers: Sequence[str], shards: int, settings: RunSettings, *, term: int = 1
    ) -> None:
        self.policy = policy_checks.check_policy(policy, len(workers))
        self.settings = settings
        self.term = term
        self.members = Membership(workers, heartbeat_s=settings.heartbeat_s, missed=settings.missed)
        batches = BatchOrder(
            settings.epochs, exactly_once=settings.exactly_once, start=settings.start, before=settings.before
        )
        self.permits = Permits(term, batches, lease_s=settings.lease_s)
        self.contributions = ContributionTable(self.members, self.permits, len(workers))
        self.commitment = Commitment(term, shards)
        self.quorum = Quorum(len(workers), settings.gather_s)
        self.lifecycle = Lifecycle()
        self.story = Story()
        self.ended: RunEnded | None = None
        self.alarm: float | None = None
        self.first = 0
        self._moved = self._looked = 0.0  # when an update was made; when it was last told the time
        self.lengths = EpochLengths()
        self._not_finite = settings.not_finite  # contributions dropped
        self._reachability = Reachability(settings.heartbeat_s, settings.fence_s)
        self._say = Outbox(term, self.members, shards)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.lifecycle.phase.value}, {self.commitment!r}>"

    @property
    def version(self) -> int:
        """Updates committed."""
        return self.commitment.version

    def validate(self) -> None:
        """Raises InternalError where an invariant does not hold between its rules; each looks at itself."""
        self.story.check(self, run_health.invariants(self))

    # -- how it begins and ends ----------------------------------------------------------------------

    def open(self, standings: Mapping[int, ShardStatus], now: float) -> tuple[Send, ...]:
        """Begins from where the shards stand."""
        try:
            self.first = self._resume(standings, now)
        except ActorflowError as error:
            return self.fail(error, now, at_once=True)
        self._moved = self._looked = now
        self.lifecycle.open()
        self.quorum.open(now)
        return self._settled(now)

    def _resume(self, standings: Mapping[int, ShardStatus], now: float) -> int:
        """Has all shards get to one version, and returns it."""
        found = commit.recover(standings)
        self._obey(self.commitment.resume(found), now)
        return found.version

    def stop(self, now: float, error: ActorflowError | None = None) -> tuple[Send, ...]:
        """Ends the run from outside, after the update that is being committed."""
        if error is not None:
            return self.fail(error, now)
        self.lifecycle.stop()
        return self._settled(now)

    def fail(self, error: ActorflowError, now: float, *, at_once: bool = False) -> tuple[Send, ...]:
        """Ends the run with an error, after the update that is being committed, or at once."""
        self.lifecycle.fail(error)
        if at_once:
            self._end(self.lifecycle.failure)
        return self._settled(now)

    def shard_lost(
        self, shard: int, error: BaseException | None, now: float, *, at: str | None = None
    ) -> tuple[Send, ...]:
        """Hears that a shard is gone, and its parameters with it; `at` is its process."""
        version = None if self.lifecycle.phase is RunPhase.STARTING else self.version
        return self.fail(
            shard_lost_error(shard, at, version, error, self.settings.fence_s), now, at_once=True
        )

    # -- workers come, live and go --------------------------------------------------------------------

    def join(self, process: str, now: float) -> tuple[Assignment | Rejected | RunEnded, tuple[Send, ...]]:
        """Gives a process its rank, in place of what it was; or says that it rests, or the run is over."""
        if self.ended is not None:
            return self.ended, ()
        before = self.members.rank(process)
        rest_s = self._reachability.is_resting(before, now)
        if rest_s:
            return Rejected(rest_s), ()
        if before is not None:
            self._leave(before, "its worker joined again")
        rank, life = self.members.join(process, now)
        self.story.append(("join", process, rank, life))
        self.contributions.assign(rank)
        return Assignment(self.term, rank, life, self.settings.heartbeat_s), self._settled(now)

    def gone(self, process: str, now: float, why: str = "out of reach") -> tuple[Send, ...]:
        """Hears that the worker of a process is gone."""
        rank = self.members.rank(process)
        if rank is not None:
            self._reachability.restore(rank)
            self._leave(rank, why)
        return self._settled(now)

    def tick(self, now: float) -> tuple[Send, ...]:
        """Looks who is silent, what has expired, and whether nothing moves any more.

        To be called every heartbeat. If it was not, this process stood still, and what others said meanwhile
        may still be on its way: nobody is blamed for that time.
        """
        if self.ended is not None:
            return ()
        away_s, self._looked = now - self._looked, now
        if away_s > 2 * self.settings.heartbeat_s:
            self.members.excuse(now)
            self.permits.excuse(now)
            self._reachability.excuse(away_s)
            self._moved += away_s
        self.contributions.heartbeat()
        for rank in self.members.silent(now):
            self._leave(rank, "its worker is silent")
        for rank in self.permits.expired(now):
            if not self.permits.batches.exists(self.permits.out[rank].batch):
                self.permits.waive(rank)
            self._drop_unused(rank, EXPIRED)
        sends = self._settled(now)
        waited_s = now - self._moved
        if not self.quorum.holds and waited_s > self.settings.stuck_s:
            return (*sends, *self.fail(stalled_error(self, waited_s, now), now, at_once=True))
        return sends

    # -- what they say ------------------------------------------------------------------------------------

    def hear(self, message: CoordinatorEvent, now: float) -> tuple[Send, ...]:
        """Hears what a worker or shard says; once the run is over nothing but heartbeats matters."""
        match message:
            case Heartbeat():
                self._heartbeat(message, now)
            case _ if self.ended is not None:
                pass
            case Leave(rank, life):
                if self.members.leave(rank, life):  # what it has completed counts
                    self._revoke(rank, "its worker left")
            case Computed():
                self._computed(message, now)
            case Missed():
                self._missed(message, now)
            case Exhausted():
                self._exhausted(message)
            case Staged():
                self._obey(self.commitment.staged(message), now)
            case Unstaged():
                self._unstaged(message, now)
            case Committed():
                self._committed(message, now)
            case Dropped():
                self._dropped(message)
        return self._settled(now)

    def _heartbeat(self, message: Heartbeat, now: float) -> None:
        rank = message.rank
        match self.members.heartbeat(rank, message.incarnation, message.number, now, message.waits):
            case Pulse.FENCED:
                self._fence(rank)
            case Pulse.ALIVE:
                self.permits.renew(rank, message.number, now)
                if self.ended is not None:  # it did not hear
                    self._say.worker(rank, self.ended)

    def _computed(self, message: Computed, now: float) -> None:
        rank, number = message.rank, message.number
        self.story.append(("computed", rank, number))
        if message.term == self.term and self.permits.holds(rank, number):
            self._note_batch(rank)
            self.contributions.mark_complete(message, now)
            self._reachability.restore(rank)
            if self.policy.fresh and message.base < self.version:
                self._say.receipts([self.contributions.refuse(rank, self.version, LATE)])
        elif not self.contributions.known(rank, number):
            self._say.drop([number])

    def _missed(self, message: Missed, now: float) -> None:
        rank = message.rank
        self.story.append(("missed", rank, message.number))
        if message.term != self.term or not self.permits.holds(rank, message.number):
            return
        match message.error:
            case None:
                self.contributions.resting.add(rank)
                self._drop_unused(rank, MISSED)
            case ShardLost() | PeerLost() as error:  # if the shard is gone, its end is heard here as well
                process = self.members.members[rank].process
                self._reachability.complain(rank, f"{process!r} does not reach a shard: {error.what}", now)
                self._leave(rank, f"it does not reach a shard: {error.what}")
                self._fence(rank)
            case error:
                self._not_finite, what = run_health.bear(self._not_finite, error, message.bears)
                if isinstance(what, str):
                    self._drop_unused(rank, what)
                else:
                    self._went_wrong(what)

    def _exhausted(self, message: Exhausted) -> None:
        rank, epoch, size = message.rank, message.epoch, message.size
        self.story.append(("exhausted", rank, message.number, epoch, size))
        if message.term != self.term or not self.permits.holds(rank, message.number):
            return
        batch = self.permits.out[rank].batch
        process = self.members.members[rank].process
        if epoch != batch.epoch or size > batch.index:
            what = f"{process!r} found no batch {batch.index} of epoch {batch.epoch}, of {size}"
            self._went_wrong(CoordinationError(what, hint=batch_order.HINT))
        elif (wrong := self.lengths.note_end(process, epoch, size)) is not None:
            self._went_wrong(wrong)
        elif size == 0:
            self.lengths.note_none(rank, message.number)
        else:
            self._say.receipts([self.contributions.void(rank, epoch, size, self.version)])

    def _look_for_empty(self) -> None:
        """Ends the run where an epoch has no batch, and nobody is left who may say more of it."""
        members, out = self.members.members, self.permits.out
        wrong = self.lengths.empty({r: (members[r].process, e.number, e.batch.epoch) for r, e in out.items()})
        if wrong is not None:
            self._went_wrong(wrong)

    def _note_batch(self, rank: int) -> None:
        """Takes note that a worker has the batch that it was given."""
        wrong = self.lengths.note_computed(self.members.members[rank].process, self.permits.out[rank].batch)
        if wrong is not None:
            self._went_wrong(wrong)

    def _unstaged(self, message: Unstaged, now: float) -> None:
        self._obey(self.commitment.unstaged(message), now)

    def _committed(self, message: Committed, now: float) -> None:
        self._obey(self.commitment.committed(message), now)

    def _dropped(self, message: Dropped) -> None:
        """Only of interest where shards close updates by themselves."""

    # -- what follows ----------------------------------------------------------------------------------------

    def _settled(self, now: float) -> tuple[Send, ...]:
        if self.ended is None:
            try:
                self._advance(now)
                asks = policy_checks.minds_time(self.policy) and not self.quorum.holds
                self.alarm = policy_checks.alarm(self.policy, self._view(now)) if asks else None
            except (ConfigError, PolicyError) as error:
                self._went_wrong(error)
                self._close()
        return self._say.take()

    def _went_wrong(self, error: ActorflowError) -> None:
        """Notes a failure, which may be one of the next version: what is being made is made before."""
        self.lifecycle.fail(error, patient=True)

    def _advance(self, now: float) -> None:
        if self.lifecycle.phase is RunPhase.STARTING:
            return
        if self.lengths.none:
            self._look_for_empty()
        if self.lifecycle.ends or self._complete():
            self._close()
            return
        unreached = self._reachability.nobody(self.members.alive, now)
        if unreached is not None:
            self.lifecycle.fail(ShardLost(f"no worker is left that reaches all shards; {unreached}"))
            self._close()
            return
        short = self.quorum.short(self.policy, self.members, now, more=self.permits.left)
        if short is not None:
            self.lifecycle.fail(short)
            self._close()
            return
        self.lifecycle.follow(self.quorum)
        if self.quorum.holds:
            self._moved = now
            return
        if self.commitment.phase is CommitPhase.IDLE:
            self._take(now)
        if self.commitment.phase is CommitPhase.IDLE or not self.policy.fresh:
            self._start(self.version, self._view(now), now)
        elif not policy_checks.looks_back(self.policy):
            self._start_ahead(now)

    def _complete(self) -> bool:
        """Whether all is done: so many updates, or nothing left to compute."""
        if self.commitment.phase is not CommitPhase.IDLE:
            return False
        if self.settings.steps is not None and self.version - self.first >= self.settings.steps:
            return True
        return not self.permits.left and self.contributions.idle and not self._owing()

    def _owing(self) -> list[int]:
        """Returns who is alive and has yet to look at the end of an epoch, in rank order."""
        return [rank for rank in sorted(self.members.alive) if self.permits.owes(rank)]

    def _close(self) -> None:
        """Ends the run, as soon as no shard may be committing, nor, where that can wait, staging."""
        self.lifecycle.close()
        phase = self.commitment.phase
        if phase is CommitPhase.IDLE or (phase is CommitPhase.STAGING and not self.lifecycle.patient):
            self._end(self.lifecycle.failure)

    def _end(self, error: ActorflowError | None) -> None:
        if self.ended is not None:
            return
        if self.commitment.phase is CommitPhase.STAGING:
            why = error or CoordinationError("the run was stopped")
            self._obey(self.commitment.discard(why), self._moved)
        self.lifecycle.end()
        self.ended = RunEnded(self.term, error)
        dropped, by = self.contributions.take_dropped()  # since the last update: no Updated will have them
        observed = replace(self.ended, dropped=dropped, dropped_by=by) if dropped else self.ended
        self._say.end(self.ended, observed, self._reachability.unreachable)

    def _view(self, now: float) -> View:
        return self.contributions.view(self.version, now)

    def _take(self, now: float) -> None:
        ranks = (
            policy_checks.ranks_to_take(self.policy, self._view(now)) if self.contributions.complete else ()
        )
        if not ranks and not self.permits.left and not self.permits.out:
            ranks = tuple(self.contributions.complete)  # nobody will add to them
        if ranks:
            self._obey(self.commitment.begin(self.contributions.make(ranks)), now)

    def _start(self, version: int, view: View, now: float) -> None:
        if not self.permits.left:  # who computes no more looks whether there is indeed nothing left
            ranks: Sequence[int] = [rank for rank in view.free if self.permits.owes(rank)]
        else:
            ranks = policy_checks.ranks_to_start(self.policy, view) if view.free else ()
        for rank in ranks:
            permit = self.contributions.grant(rank, version, now)
            if permit is not None:
                self._say.worker(rank, permit)

    def _start_ahead(self, now: float) -> None:
        """Lets start on the version that is being made: who pulls it waits on the shards until it is there.

        INVARIANT: an update that has begun is committed, or the run ends.
        A scalar, 2 workers: 3.8 ms an update when permits waited for the commit, 3.2 so.
        """
        steps = self.settings.steps
        if steps is None or self.version + 1 - self.first < steps:
            self._start(self.version + 1, after_update(self._view(now)), now)

    def _obey(self, effects: Sequence[commit.Effect], now: float) -> None:
        for effect in effects:
            match effect:
                case SendToShard(shard, message):
                    self._say.shard(shard, message)
                case commit.UpdateDiscarded(error=error):
                    leases = [entry.lease for entry in self.contributions.staged.values()]
                    self.lifecycle.fail(self._of(error, leases))
                case UpdateCommitted(version):
                    self._finish_update(version, now)

    def _of(self, error: ActorflowError, leases: Sequence[Lease]) -> ActorflowError:
        """Why an update could not be made, with whose contributions it was to be made of."""
        return run_health.made_of(error, [(self.members.members[e.rank].process, e.batch) for e in leases])

    def _finish_update(self, version: int, now: float) -> None:
        """An update is made, everywhere."""
        self._moved = now
        made, receipts, done = self.contributions.commit(version)
        self._say.receipts(receipts)
        self._release()
        if made:  # else an earlier term began it, and knew whose it was
            self._say.observer(self.contributions.record(version, made))
            self._follow(done)

    def _follow(self, done: Round) -> None:
        try:
            self.policy = policy_checks.successor(self.policy, done, self.quorum.seats)
        except (ConfigError, PolicyError) as error:
            self.lifecycle.fail(error)

    def _release(self) -> None:
        """Ends what the update has made late."""
        if self.policy.fresh:
            late = self.contributions.late(self.version)
            self._say.receipts(late)
            self._say.drop([receipt.outcome.number for receipt in late])

    def _leave(self, rank: int, why: str) -> None:
        if self.members.die(rank, self.members.members[rank].incarnation, why):
            self.story.append(("give up", rank, why))
            self._revoke(rank, why)

    def _revoke(self, rank: int, why: str) -> None:
        if rank in self.permits.out:
            self._drop_unused(rank, why, gone=True)
        self.permits.forget(rank)

    def _drop_unused(self, rank: int, why: str, *, gone: bool = False) -> None:
        """Ends what is out; nobody is left to hear of it when its worker is gone."""
        receipt = self.contributions.revoke(rank, self.version, why)
        self._say.drop([receipt.outcome.number])  # some of its gradients may have left before it ended
        if not gone:
            self._say.receipts([receipt])

    def _fence(self, rank: int) -> None:
        process = self.members.members[rank].process
        what = f"{process!r} was given up, and the others go on without it"
        self._say.worker(rank, RunEnded(self.term, Fenced(what, hint="join again")))
