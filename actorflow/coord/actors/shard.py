"""The shard actor: some of the variables and their optimizer, in the commit of all shards.

    worker  --Pull-->       shard   --Read-->             variables
    worker  --Contribute->  shard
            coordinator --PrepareUpdate-->  --ApplyGradients-->   optimizer  --StageUpdate-->   variables
            coordinator <-Staged--
            coordinator --Commit->  --decision-->         optimizer  --CommitUpdate-->  variables
            coordinator <-Committed

The only shard of a run commits when it has staged: nobody says Staged or Commit (`PrepareUpdate.commits`).

The rules are elsewhere (`open_contributions`, `participant`, `gradient_mean`). This obeys them, and lets
whoever reads see one version: reading all variables and committing to all exclude each other, first come,
first served.
"""

from __future__ import annotations

import warnings
from asyncio import Lock
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, ClassVar

from actorflow.actors.actor import Actor
from actorflow.actors.ref import Ref
from actorflow.coord.actors.peer_shards import (
    Introduction,
    PeerShards,
    ReadStats,
    Recover,
    resolve,
    stats,
)
from actorflow.coord.actors.pending_update import PendingUpdate, PullWaiters, preparation_error
from actorflow.coord.rules.gradient_mean import (
    Part,
    Spares,
    StalenessRecord,
    dense_rows,
    find_mixed,
    mean_gradients,
    staleness,
)
from actorflow.coord.rules.messages import (
    Commit,
    Committed,
    Contribute,
    Discard,
    DropContributions,
    Dropped,
    Enough,
    Fence,
    Never,
    PrepareUpdate,
    Pull,
    Pulled,
    Refused,
    RunEnded,
    ShardStatus,
    Staged,
    Stored,
    Unstaged,
)
from actorflow.coord.rules.open_contributions import Contributions, PerShardQuorum
from actorflow.coord.rules.participant import Do, Participant, ShardPhase
from actorflow.coord.rules.sharding import check_joint
from actorflow.dataflow.engine.resources import optimizer_actor
from actorflow.dataflow.optimizer.gradients import ApplyGradients, MakeState
from actorflow.dataflow.optimizer.optimizer import OptimizerActor
from actorflow.dataflow.state.register import Source
from actorflow.dataflow.state.variable import Read, ReadRows
from actorflow.errors import (
    ActorflowError,
    CoordinationError,
    Fenced,
    Where,
)
from actorflow.kernels.device.offload import OFFLOAD_BYTES, offload
from actorflow.runtime.messages import Call, Terminated
from actorflow.runtime.validation import validates
from actorflow.values import arrays

_NONE: Mapping[str, Ref] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class _CloseUpdate:
    """Shard → itself, if it closes updates by itself: enough contributions may be here."""


@validates("receive")
class ShardActor(Actor):
    """Owns one optimizer over some of the variables, and takes part in the updates of all shards.

    **Receives** MakeState, Pull, Contribute, Fence, ReadStats (asked); PrepareUpdate, Commit, Discard,
    DropContributions, RunEnded from a coordinator, on one lane; Introduction; Terminated of the coordinator
    and of other shards.
    **Sends** Staged, Unstaged, Committed to the coordinator, on the control lane.
    **Promise** What is pulled is of one version, and does not change. What has been Staged can be committed:
    that awaits reads that are under way, and nothing else. A Discard leaves all as it was.
    **Invariant** the variables have seen `version` updates, each made of one set.
    **Fails** an optimizer that raises makes an Unstaged. Lost is the run when the coordinator is: the first
    shard that lives leads the others to one version, and all end with CoordinatorLost. When another shard is
    lost, whoever asks gets ShardLost from then on; what the coordinator has decided is still obeyed.

    Args:
        shard: Its number, of `shards` from 0 on.
        variables: Its variables by name, local and with values.
        optimizer: What `minimize` was given: a Transform, or what makes an OptimizerActor.
        fresh: Whether gradients must come from the version that they are applied to.
        recover: The rule by which shards get to one version when the coordinator is lost.
        frozen: Variables beside, which are pulled and never updated.
        closes: With a number m, shards agree on nothing: each updates when it has m contributions of its own,
            the first m or as many as Enough says, and tells the coordinator Committed. The paper's cheaper,
            weaker protocol.
        finite: Whether a mean of gradients or a value that is not finite is an error. Of a contribution alone
            its worker has looked.
        shares: Whether what an update adds is divided by how many were computed at once: those that came
            since its base, and itself.
        order: The names in the order in which everybody locks them.
        submit: How large array work is run on threads; None runs it inline.
        process: What errors call where it is.

    Raises:
        ConfigError: for an optimizer that looks at all variables at once, on more than one shard.
    """

    reentrant: ClassVar[bool] = True

    def __init__(
        self,
        shard: int,
        variables: Mapping[str, Ref],
        optimizer: Any,
        *,
        shards: int,
        fresh: bool,
        recover: Recover,
        frozen: Mapping[str, Ref] = _NONE,
        closes: int | None = None,
        finite: bool = True,
        shares: bool = False,
        order: Sequence[str] | None = None,
        submit: Callable[..., None] | None = None,
        process: str = "",
    ) -> None:
        actor = optimizer_actor(optimizer)
        check_joint(actor.joint, shards)
        self.shard = shard
        self.participant = Participant(shard)
        self.contributions = Contributions(variables, fresh)
        self.staleness = StalenessRecord()
        self._variables = dict(variables)
        self._all = {**self._variables, **frozen}
        self._bound = actor.bind(self._variables, Source(f"shard{shard}"), submit, order)
        self._recover = recover
        self._quorum = None if closes is None else PerShardQuorum(closes)
        self._finite = finite
        self._shares = shares
        self._process = process
        self._submit = submit
        self._spares: Spares = {}  # as large as its variables, where several workers have dense gradients
        self._told: set[str] = set()  # whose rows became dense, of which a word has been said
        self._steady = Lock()  # whoever reads or changes all variables as one
        self._update: PendingUpdate | None = None
        self._pulls = PullWaiters()
        self._peers = PeerShards(shard, shards)
        self._leading = 0  # the term under which it leads the others, while it does
        self._ending = self._over = False
        self._error: ActorflowError | None = None

    @property
    def version(self) -> int:
        """Updates applied."""
        return self.participant.version

    @property
    def optimizer(self) -> OptimizerActor:
        """The optimizer of its variables, for whoever looks on."""
        return self._bound

    @property
    def is_over(self) -> bool:
        """Whether it has heard that the run has ended."""
        return self._over

    @property
    def pulls(self) -> int:
        """Pulls that wait for a version which is not here yet."""
        return len(self._pulls)

    def validate(self) -> None:
        """Raises InternalError where an invariant does not hold."""
        update, participant, kept = self._update, self.participant, self.contributions
        decided = participant.phase in (ShardPhase.READY, ShardPhase.COMMITTING)
        participant.story.check(
            self,
            {
                "the update is that of the set that is staged": update is None
                or update.stage is participant.stage,
                "what was promised is prepared": not decided or (update is not None and update.ready.done()),
                "fresh contributions are of the version here": not kept.fresh
                or all(each.base == self.version for each in kept.open.values()),
                "what is over is ending": self._ending or not self._over,
            },
        )

    def on_dump(self) -> tuple[str, ...]:
        """Returns the stories of its part in the commit, of the contributions, and of those it has met."""
        stories = {
            "commit": self.participant.story,
            "contributions": self.contributions.story,
            "peers": self._peers.story,
        }
        return tuple(f"{name}: {story}" for name, story in stories.items())

    def on_start(self) -> None:
        """Starts the optimizer."""
        self._optimizer = self.system.spawn(lambda: self._bound, name=f"{self.ref.name}/optimizer")

    async def on_stop(self, reason: BaseException | None) -> None:
        """Stops the optimizer; what is staged goes with it."""
        await self.system.stop(self._optimizer)

    def receive(self, message: Any) -> Any:  # noqa: C901  one line for each kind of message
        """Obeys; what has to wait is a coroutine."""
        match message:
            case Pull():
                return self._pull(message)
            case Contribute():
                return self._contribute(message)
            case PrepareUpdate():
                return self._stage(message)
            case Commit():
                return self._commit(message)
            case Discard():
                self._discard(self.participant.forget(message))
            case DropContributions(term, numbers):
                if self.participant.hears(term):
                    self._drop(numbers)
            case Enough(term):
                if self._quorum is not None and self.participant.hears(term):
                    self._quorum.enough = message
                    self._may_close()
            case Fence():
                return self._fence(message)
            case RunEnded():
                return self._end(message)
            case _CloseUpdate():
                return self._close()
            case Introduction():
                self._peers.meet(message, self.ref)
            case MakeState():
                return self._make_state(message)
            case Terminated():
                return self._lost(message)
            case ReadStats():
                return stats(self.participant, self.contributions, self.staleness)
            case _:
                what = f"a shard takes no {type(message).__name__}"
                raise self.participant.story.broken(what)
        return None

    # -- workers ----------------------------------------------------------------------------------------

    async def _pull(self, pull: Pull) -> Pulled | Never:
        self._check_coming(pull.version)
        while pull.version > self.version:
            try:
                await self._pulls.wait_for(pull.version, self.system.create_future())
                self._check_coming(pull.version)
            except ActorflowError as error:  # who asked may have gone since, and that must not end the shard
                return Never(error.at(Where(actor=self.ref.name)))
        async with self._steady:
            values = {
                name: await ref.ask(ReadRows(pull.rows[name]))
                if name in pull.rows
                else (await ref.ask(Read()))[0]
                for name, ref in self._all.items()
                if pull.names is None or name in pull.names
            }
            return Pulled(self.version, values)

    def _check_coming(self, version: int) -> None:
        """Raises when a version is not here and will not come."""
        self._check_whole()
        if self._over and version > self.version:
            message = f"the run is over at version {self.version}, version {version} will not come"
            raise CoordinationError(message)

    def _contribute(self, offered: Contribute) -> Stored | Refused:
        self._check_whole()
        if self._over:
            return Refused(offered.number, "late")
        answer = self.contributions.offer(offered, self.participant.term, self.version)
        self._may_close()
        return answer

    def _check_whole(self) -> None:
        error = self._peers.lost or self._error
        if error is not None:
            raise error.copy()

    async def _make_state(self, asked: MakeState) -> None:
        """Has the optimizer make its state, so that the first update need not."""
        try:
            await self._optimizer.ask(asked, asked.limit_s)
        except Exception as error:  # a user's rule may raise anything
            raise preparation_error(
                error, self._bound.rule, self._process or f"shard {self.shard}", None
            ) from error

    # -- updates ----------------------------------------------------------------------------------------

    async def _stage(self, stage: PrepareUpdate) -> None:
        try:
            do = self._hear_stage(stage)
        except CoordinationError as error:
            self._peers.say(Unstaged(stage.term, self.shard, stage.version, error))
            return
        if do is Do.PREPARE:
            await self._prepare(stage)
        elif do is Do.SAY_STAGED:
            self._peers.say(Staged(self.participant.term, self.shard, stage.version))
        elif do is Do.SAY_COMMITTED:
            self._peers.say(Committed(self.participant.term, self.shard, stage.version))
        elif do is Do.SAY_UNSTAGED:
            assert self.participant.error is not None
            self._peers.say(
                Unstaged(self.participant.term, self.shard, stage.version, self.participant.error)
            )

    def _hear_stage(self, stage: PrepareUpdate) -> Do:
        if self._ending:
            message = f"the run is over at version {self.version}, got Stage of version {stage.version}"
            raise CoordinationError(message)
        return self.participant.hear_stage(stage)

    async def _prepare(self, stage: PrepareUpdate) -> None:
        """Folds the contributions and has the optimizer stage the update; says how that went."""
        try:
            ready = await self._await_prepared(stage)
        except Exception as error:  # noqa: BLE001  no memory, say: nothing has changed, and the others must hear
            place = self._process or f"shard {self.shard}"
            self._unstaged(stage, preparation_error(error, self._bound.rule, place, stage.version))
        else:
            if not ready or not self.participant.ready(stage):
                return  # it has been let go meanwhile
            if self._quorum is None and not stage.commits:
                self._peers.say(Staged(self.participant.term, self.shard, stage.version))
            else:
                await self._commit(Commit(self.participant.term, stage.version))

    async def _await_prepared(self, stage: PrepareUpdate) -> bool:
        taken = self.contributions.take(stage.chosen)
        bases = tuple(each.base for each in taken)
        parts: list[Part] = [(each.rank, each.gradients) for each in taken]
        gradients = await self._mean_gradients(parts)
        if self.participant.stage is not stage:
            return False
        self._update = update = PendingUpdate(
            stage, bases, self.system.loop, tuple(each.bases for each in taken)
        )
        stale = staleness(self.version, min(bases))
        given = tuple(gradients[name] for name in self._variables)
        most = 0 if self._finite else None
        shares = stale + 1 if self._shares else 1
        asked = ApplyGradients(given, update.decision, stale, most, looked=len(parts) == 1, shares=shares)
        self._optimizer.put(Call(update, asked), self.system.nobody)
        return await update.ready

    async def _mean_gradients(self, parts: list[Part]) -> dict[str, Any]:
        for name, (sparse, dense) in find_mixed(parts).items():
            if name not in self._told:
                self._told.add(name)
                warnings.warn(dense_rows(name, sparse, dense), stacklevel=1)
        large = sum(arrays.content_bytes(dict(gradients)) for _, gradients in parts) >= OFFLOAD_BYTES
        if self._submit is None or not large or len(parts) == 1:
            return mean_gradients(parts, self._spares)
        found: dict[str, Any] = await offload(self._submit, mean_gradients, parts, self._spares)
        return found

    def _unstaged(self, stage: PrepareUpdate, error: ActorflowError) -> None:
        placed = error.at(Where(actor=self.ref.name))
        if self.participant.failed(stage, placed):
            self._update = None
            chose = () if self._quorum is None else tuple(stage.chosen)
            self._peers.say(Unstaged(self.participant.term, self.shard, stage.version, placed, chose))
            if self._quorum is not None:
                self._quorum.enough = None  # the run ends with this
                self._discard(self.participant.forget(Discard(self.participant.term, stage.version)))

    async def _commit(self, commit: Commit) -> None:
        """Applies what is staged. Cannot fail."""
        do = self.participant.obey(commit)
        update = self._update
        if do is Do.COMMIT:
            assert update is not None
            async with self._steady:
                await update.commit()
                self._applied(update)
        if do is not Do.NOTHING:
            told = Committed(self.participant.term, self.shard, commit.version)
            if self._quorum is not None and update is not None:
                told = replace(told, chosen=update.stage.chosen, bases=update.pulled)
            self._peers.say(told)
            self._may_close()

    def _applied(self, update: PendingUpdate) -> None:
        before = self.version
        self._update = None
        self.participant.committed()
        self.staleness = self.staleness.with_update(before, update.bases)
        self.contributions.move_on(self.version)
        self._pulls.wake(self.version)

    def _discard(self, do: Do) -> None:
        if do is Do.DISCARD:
            update, self._update = self._update, None
            if update is not None:
                update.discard()
            self._may_close()

    # -- shards that agree on nothing -------------------------------------------------------------------

    def _may_close(self) -> None:
        if self._quorum is not None and self.participant.phase is ShardPhase.IDLE:
            self.ref.signal(_CloseUpdate())

    async def _close(self) -> None:
        assert self._quorum is not None
        chosen = self._quorum.choose(self.contributions, self.version)
        if chosen and self.participant.phase is ShardPhase.IDLE and not self._over and self._error is None:
            stage = PrepareUpdate(self.participant.term, self.version, chosen)
            self.participant.hear_stage(stage)
            await self._prepare(stage)

    def _drop(self, numbers: Sequence[int]) -> None:
        self.contributions.drop(numbers)
        if self._quorum is not None:
            unused = self.participant.unused_of(numbers)
            self._peers.say(Dropped(self.participant.term, self.shard, unused))

    # -- how it ends ------------------------------------------------------------------------------------

    async def _fence(self, fence: Fence) -> ShardStatus:
        self.participant.obey_term(fence.term)  # ORDER: what is old is not obeyed from now on
        await self._at_rest()
        standing, do = self.participant.fence(fence)
        self.contributions.forget(before=fence.term)  # a coordinator knows of its own
        self._discard(do)
        if self._quorum is not None:  # what was given in an earlier term is nobody's any more
            self._quorum.enough = None
        self._over = self._ending = False  # the next run begins
        self._error = None
        return standing

    async def _at_rest(self) -> None:
        """Waits until no commit is under way."""
        while self.participant.phase is ShardPhase.COMMITTING:
            async with self._steady:
                pass

    async def _end(self, end: RunEnded) -> None:
        if not self.participant.hears(end.term):
            return
        self._ending = True
        await self._at_rest()
        if self._over or not self.participant.hears(end.term):  # a newer leader has fenced it meanwhile
            return
        self._over = True
        self._error = end.error
        self.contributions.forget(before=end.term + 1)
        self._discard(self.participant.drop())
        self._pulls.wake()

    async def _lost(self, notice: Terminated) -> None:
        """Hears that somebody is gone."""
        if self._peers.gone(notice, over=self._over):
            self._pulls.wake()
        if not self._ending:
            await self._succeed(notice)

    async def _succeed(self, notice: Terminated) -> None:
        """Leads the others to one version, or tells the one that has to; if the coordinator is lost."""
        term, leader = self._peers.leads(self.participant.term), self._peers.leader
        if term is None or self._leading:
            return
        if leader is not None:
            assert self._peers.coordinator is not None
            leader.signal(Terminated(self._peers.coordinator.name, notice.reason))
            return
        self._leading = term
        try:
            await self._lead(term, notice.reason)
        finally:
            self._leading = 0

    async def _lead(self, term: int, reason: BaseException | None) -> None:
        others = dict(self._peers.others)
        try:
            own = await self._fence(Fence(term))
            verdict = await resolve(term, own, others, self._recover)
        except Fenced:  # a newer one leads
            return
        verdict.announce({**others, self.shard: self.ref}, term, self._peers.lost, reason)
