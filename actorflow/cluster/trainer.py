"""Trains a program on a cluster, under a policy, and tells what happened."""

from __future__ import annotations

import warnings
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import partial
from math import nan
from typing import Any
from weakref import ReferenceType, ref

from actorflow.cluster.cluster import Cluster
from actorflow.cluster.loss_trend import LossTrend
from actorflow.cluster.process.messages import SHARD
from actorflow.cluster.training_run import TrainingRun
from actorflow.coord.actors.peer_shards import ShardStats
from actorflow.coord.rules.messages import Batch, Updated
from actorflow.coord.rules.policy import Policy, Sync, full
from actorflow.coord.rules.policy_checks import check_policy, has_enough
from actorflow.coord.rules.run_health import dropped_of, kind
from actorflow.coord.rules.run_settings import Agreement, RunSettings
from actorflow.errors import ActorflowError, ConfigError, CoordinationError, InputError, NoBetter
from actorflow.runtime import environment
from actorflow.runtime.call_site import users_level
from actorflow.training.batches import InputStats
from actorflow.training.events import EpochDone, RunDone, StepDone
from actorflow.training.loop import TrainingLoop
from actorflow.training.position import TrainingPosition
from actorflow.training.throughput_meter import ThroughputMeter
from actorflow.training.training_counts import EpochSums, TrainingCounts, TrainingLimits, TrainingUpdate


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class UpdateDone(StepDone):
    """An update is committed on all shards; loss and metrics are means over its contributions.

    They are NaN where all workers that made it were lost before they could tell (agreement="per_shard").

    Attributes:
        update: What it was made of, what was dropped, how stale it was, and how many workers live.
    """

    update: Updated


class Trainer:
    """Trains the program of a cluster.

    The shards, and with them the state of the optimizer, stay from one `run` to the next. Those of another
    trainer on the same cluster take their place: with the variables as they are, and a new optimizer.

    Args:
        cluster: Open.
        policy: Who may start, and what makes an update.
        exactly_once: Whether a batch whose contribution was not used is computed again; by default as
            `settings` say.
        agreement: "all": an update is made of the same contributions on all shards. "per_shard": each shard
            takes the first that it has; cheaper, and weaker. By default as `settings` say.
        settings: Further limits and times; those of `run` are told there.

    Attributes:
        record: Every update that `run` has told, of all runs. It grows by one an update: clear it when a
            long run does not need it.
        policy: That of the next run: one that learns goes on from there. May be set between runs.

    Raises:
        ConfigError: the policy does not fit so many workers, or cannot leave updates to shards; or the
            settings have what is told to `run`.
        PolicyError: the policy raises, or an attribute of it cannot mean anything.
    """

    def __init__(
        self,
        cluster: Cluster,
        policy: Policy | None = None,
        *,
        exactly_once: bool | None = None,
        agreement: Agreement | None = None,
        settings: RunSettings | None = None,
    ) -> None:
        _check_given(cluster, settings)
        self.cluster = cluster
        given = RunSettings() if settings is None else _settings(settings)
        self.settings = replace(
            given,
            exactly_once=given.exactly_once if exactly_once is None else exactly_once,
            agreement=given.agreement if agreement is None else agreement,
        )
        self.record: list[Updated] = []
        self._policy = self._fitting(Sync() if policy is None else policy)
        self._training: TrainingRun | None = None
        self._turn: _Turn | None = None

    @property
    def policy(self) -> Policy:
        """Who may start in the next run, and what makes an update."""
        return self._policy if self._training is None else self._training.policy

    @policy.setter
    def policy(self, policy: Policy) -> None:
        self.cluster.check_here()
        fitting = self._fitting(policy)
        if self._runs():
            message = f"a policy is set between runs, got {fitting} while {self.policy} governs one"
            raise ConfigError(message, hint="a policy may change itself after every update: Policy.after")
        if self._training is not None:
            if fitting.fresh is not self.policy.fresh:
                message = f"shards keep what `fresh` says, {self.policy} and {fitting} say different things"
                raise ConfigError(message, hint="make a new Trainer for it")
            if fitting.rate != self.policy.rate:
                message = f"shards keep what `rate` says, {self.policy} and {fitting} say different things"
                raise ConfigError(message, hint="make a new Trainer for it")
            self._training.policy = fitting
        self._policy = fitting

    def _runs(self) -> bool:
        """Whether a run is open; one that somebody has let go of ends by itself."""
        return self._turn is not None and self._turn.events is not None and self._turn.events() is not None

    def _fitting(self, policy: Policy) -> Policy:
        seats = len(self.cluster.workers)
        fitting = check_policy(_policy(policy), seats)
        if self.settings.agreement == "per_shard":
            has_enough(fitting, full(seats))
        return fitting

    def run(
        self, *, steps: int | None = None, epochs: int | None = None
    ) -> AsyncGenerator[UpdateDone | EpochDone | RunDone, None]:
        """Yields an UpdateDone after every update, an EpochDone after every epoch, and one RunDone, last.

        An update belongs to the earliest epoch that it has a batch of, or to that of the update before, if
        that is later. So epochs that no update belongs to, because they are short, end together with the
        one before.

        Where the program evaluates, the workers rest between epochs. Leave the loop early with
        `contextlib.aclosing`, as any asynchronous generator.

        Every run begins with the first batch of the first epoch, whatever was computed before. One run at a
        time: the next one begins when this one has ended.

        Args:
            steps: Stop after so many updates.
            epochs: Stop after so many epochs; the program's number when neither limit is given.

        Raises:
            SessionClosed: the cluster is not open, or was closed meanwhile.
            ConfigError: a limit is no whole number above 0, a run of this trainer is open, or another trainer
                has trained on the cluster since.
            QuorumLost, ShardLost, CoordinatorLost: the run cannot go on.
            ActorflowError: what the program, or its optimizer, raised; nothing of that update was applied.
        """
        turn = _Turn()
        events = self._events(turn, steps, epochs)
        turn.events = ref(events)
        return events

    async def _events(
        self, turn: _Turn, steps: int | None, epochs: int | None
    ) -> AsyncGenerator[UpdateDone | EpochDone | RunDone, None]:
        if epochs is None and steps is None:
            epochs = self.cluster.program.epochs
        self.cluster.open_session_of()
        replace(self.settings, steps=steps, epochs=epochs)  # says what is wrong with them
        if self._runs():
            message = "a trainer runs once at a time, and a run of this one is open"
            raise ConfigError(
                message, hint="leave it with contextlib.aclosing(trainer.run()), or wait for its end"
            )
        self._turn = turn
        try:
            program, limits = self.cluster.program, TrainingLimits(epochs, steps)
            source = _ClusterUpdates(self, limits)
            meter = ThroughputMeter(lambda: self.cluster.messages, environment.clock(), TrainingPosition())
            counts = TrainingCounts(EpochSums.of(1 + len(program.metrics)))
            loop = TrainingLoop(program, self.cluster, source, limits, meter, counts)
            async with aclosing(loop.events()) as events:
                async for event in events:
                    yield event
            last = await loop.end()
            source.warn_of_trend()
        finally:
            if self._turn is turn:
                self._turn = None
        yield last

    async def shards(self) -> list[ShardStats]:
        """Returns what each shard has done: its version, the staleness of its updates, what it refused.

        Raises:
            ConfigError: no run has begun, or another trainer has trained on the cluster since.
            SessionClosed: the cluster is not open.
            ShardLost: one cannot be reached.
        """
        self.cluster.check_here()
        if self._training is None:
            raise ConfigError("shards are opened by the first run", hint="trainer.run(steps=1)")
        self.cluster.open_session_of()
        self._check_present(self._training)
        found: list[ShardStats] = await self.cluster.at_home(self._training.stats())
        return found

    async def begin_run(self, settings: RunSettings) -> TrainingRun:
        """Begins a run of a coordinator; opens the shards before the first."""
        cluster = self.cluster
        cluster.check_here()
        if self._training is None:
            self._training = await self._open_shards()
        training = self._training
        self._check_present(training)
        try:
            await cluster.at_home(training.begin(settings))
        except BaseException:  # it may have begun when the wait for that was cancelled
            await cluster.at_home(training.end())
            raise
        return training

    def _check_present(self, training: TrainingRun) -> None:
        """Raises ConfigError unless these are the shards that are open on the cluster."""
        if training is not self.cluster.training:
            since = "another has trained on the cluster since"
            if self.cluster.training is None:
                since = "the cluster was closed, and opened again"
            message = f"the shards of this trainer are closed: {since}"
            raise ConfigError(message, hint="make a new Trainer: it begins with the variables as they are")

    async def _open_shards(self) -> TrainingRun:
        """Opens the shards, in place of those of a trainer before."""
        cluster = self.cluster
        attendance, before = cluster.availability, cluster.training
        assert attendance is not None, "the cluster is open"
        if before is not None:
            await cluster.at_home(before.close())
        numbers = cluster.run_numbers
        training = TrainingRun(cluster.chief, attendance, cluster.layout, self.policy, self.settings, numbers)
        cluster.training = training
        await cluster.at_home(training.open())
        return training


def _check_given(cluster: Any, settings: Any) -> None:
    """Raises ConfigError for what is no cluster, or are no settings."""
    if not isinstance(cluster, Cluster):
        message = f"a trainer trains on a cluster, got {cluster!r:.60}"
        raise ConfigError(message, hint="async with af.Cluster.simulated(program) as cluster: ...")
    if not isinstance(settings, RunSettings | None):
        message = f"settings are RunSettings, got {settings!r:.60}"
        raise ConfigError(message, hint="actorflow.coord.rules.run_settings.RunSettings(lease_s=30.0)")


def _settings(given: RunSettings) -> RunSettings:
    """Returns them; raises ConfigError for those that have what `run` is told."""
    plain = RunSettings()
    for name in ("steps", "epochs", "start", "before", "not_finite"):
        value = getattr(given, name)
        if value != getattr(plain, name):
            hint = f"trainer.run({name}={value!r})" if name in ("steps", "epochs") else None
            message = (
                f"a trainer counts batches and updates itself, its settings may not have {name}={value!r}"
            )
            raise ConfigError(message, hint=hint)
    return given


def _policy(given: Any) -> Policy:
    """Returns it; raises ConfigError for what is no policy, such as the text or the class of one."""
    if isinstance(given, Policy):
        return given
    message = f"a trainer takes a policy, such as af.Sync(), got {given!r:.60}"
    raise ConfigError(message, hint=f"af.Policy.parse({given!r})" if isinstance(given, str) else None)


@dataclass(slots=True)
class _Turn:
    """One call of `run`, and what it gave, as long as somebody has that."""

    events: ReferenceType[AsyncGenerator[Any, None]] | None = None


class _ClusterUpdates:
    """The updates of a cluster: those that runs of its coordinator commit, one run after the other."""

    def __init__(self, trainer: Trainer, limits: TrainingLimits) -> None:
        self._trainer = trainer
        self._cluster = trainer.cluster
        self._program = trainer.cluster.program
        self._limits = limits
        self._batches = 0  # computed by workers, by the latest update
        self._not_finite = 0  # contributions that were dropped for that
        self._unknown = [nan] * (1 + len(self._program.metrics))
        fresh = trainer.policy.fresh
        self._trend = LossTrend(
            1 if fresh else len(trainer.cluster.workers)
        )  # whose base is the first version
        self._goes_on = trainer.cluster.training is not None  # with what another run has made

    @property
    def ended(self) -> bool:
        """A run of a coordinator goes over all epochs, unless workers rest while the program evaluates."""
        return self._program.evaluate is None

    async def updates(self, counts: TrainingCounts) -> AsyncGenerator[TrainingUpdate[UpdateDone], None]:
        """Begins one run of a coordinator, over one epoch if the program evaluates, and yields what comes."""
        steps = self._limits.steps
        settings = replace(
            self._trainer.settings,
            steps=None if steps is None else steps - counts.step,
            epochs=self._limits.epochs if self.ended else counts.epoch + 1,
            start=Batch(counts.epoch, 0),
            before=self._batches,
            not_finite=self._not_finite,
        )
        training = await self._trainer.begin_run(settings)
        home, number = self._cluster.at_home, training.number
        try:
            while isinstance(heard := await home(training.next()), Updated):
                self._cluster.open_session_of()
                yield self._update(heard)
            self._cluster.open_session_of()
            counts.drop(self._kinds(heard.dropped))  # the next epoch goes on counting from there
            if heard.error is not None:
                raise self._locate(heard.error)
        finally:
            if training is self._cluster.training:  # else it has ended already
                await home(training.end(number))
        if counts.taken == 0:
            message = "no update was made: all contributions came to nothing, and no batch is left"
            raise CoordinationError(message, hint="exactly_once=True computes the batches of lost ones again")

    def _update(self, heard: Updated) -> TrainingUpdate[UpdateDone]:
        self._batches = max(self._batches, *heard.steps)
        numbers: Sequence[float] = heard.scalars
        if numbers:
            self._trend.add(numbers[0])
        epochs = [batch.epoch for _, _, batch, _ in heard.chosen]
        dropped = self._kinds(heard.dropped)
        event = partial(self._update_done, heard)
        return TrainingUpdate(
            numbers or self._unknown, min(epochs), max(epochs), event, bool(numbers), dropped
        )

    def _update_done(self, heard: Updated, **progress: Any) -> UpdateDone:
        self._trainer.record.append(heard)
        return UpdateDone(**progress, update=heard)

    def _kinds(self, dropped: Iterable[tuple[Any, str]]) -> list[str]:
        """Returns of what kind the reasons are for which contributions were dropped, and counts some."""
        reasons = [why for _, why in dropped]
        self._not_finite += dropped_of(reasons)
        return [kind(reason) for reason in reasons]

    def total(self) -> int | None:
        """Returns the limit: how many updates there are in an epoch is known when it is over."""
        return self._limits.steps

    def input(self, train_s: float, *, whole: bool) -> InputStats:
        """Returns that updates wait for no input: workers read it."""
        return InputStats(0.0, train_s)

    def position(self, counts: TrainingCounts, train_s: float, messages: int) -> TrainingPosition:
        """Returns how far the run is; nothing can go on from there."""
        return TrainingPosition(epoch=counts.epoch, step=counts.step, unfixed=_no_position())

    def warn_of_trend(self) -> None:
        """Warns when the run ended no better than it began, unless it began where another had ended."""
        found = None if self._goes_on else self._trend.no_better()
        if found is None:
            return
        first, most, end = found
        policy, workers = self._trainer.policy, len(self._cluster.workers)
        message = (
            f"the run ended no better than it began: its loss was {first:.4g} at first, up to {most:.4g} on "
            f"the way and {end:.4g} at the end, under {policy} with {workers} worker{'s' * (workers > 1)}. "
        )
        if workers > 1 and not policy.fresh and policy.rate == "each":
            message += "Let updates that are computed at once share the rate: rate='shared' of the policy"
        else:
            message += "A lower rate may help"
        warnings.warn(NoBetter(message), stacklevel=users_level())

    def _locate(self, error: ActorflowError) -> ActorflowError:
        """Returns an error; one that an optimizer raised on its shard with the node of the update."""
        where, node = error.where, self._program.train.node
        at_shard = where is not None and (where.actor or "").partition("/")[0] == SHARD and not where.node
        return error.at(node.where) if at_shard and not isinstance(error, CoordinationError) else error


def _no_position() -> InputError:
    message = "a run on a cluster has no position to go on from"
    return InputError(message)
