"""The trainer of one session: steps through the batches, epoch by epoch, and tells what happened.

A `Program` says what to train; `train` runs it on an open session and yields one event a step, one
an epoch and a last one for the run. Whoever iterates shows them, stores them or stops; nothing here
prints. The loop over epochs is that of every run, in `training.loop`; here stands what only a session knows:
its batches, and where they are.

The session is whatever runs steps: this module knows two of its verbs, `run` and `stats`.
"""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Protocol

from actorflow.errors import NumericError, ProgramError, Where
from actorflow.runtime import environment
from actorflow.runtime.clock import Clock
from actorflow.runtime.user_code import blame_user_code
from actorflow.training.batches import Batches, Feeds, InputStats
from actorflow.training.events import Event, StepDone
from actorflow.training.loop import TrainingLoop
from actorflow.training.position import TrainingPosition
from actorflow.training.program import Program
from actorflow.training.throughput_meter import ThroughputMeter
from actorflow.training.training_counts import EpochSums, TrainingCounts, TrainingLimits, TrainingUpdate


class StepStats(Protocol):
    """What a session counts."""

    @property
    def messages(self) -> int:
        """Messages delivered since the session was opened."""
        ...


class Runner(Protocol):
    """Runs steps: an open session, or whatever stands in for one."""

    async def run(self, fetches: Sequence[Any], feeds: Feeds) -> Any:
        """Runs one step and returns the value of each fetch, None where it has none."""
        ...

    def stats(self) -> StepStats:
        """Returns the counts so far."""
        ...


async def train(
    program: Program,
    session: Runner,
    *,
    epochs: int | None = None,
    steps: int | None = None,
    clock: Clock | None = None,
    position: Mapping[str, Any] | None = None,
) -> AsyncGenerator[Event, None]:
    """Yields a StepDone after every step, an EpochDone after every epoch, and one RunDone, last.

    Args:
        program: What to train.
        session: An open session on the program's graph.
        epochs: Stop after so many epochs; the program's number when neither limit is given.
        steps: Stop after so many steps, in the middle of an epoch if need be.
        clock: Tells how long it took; the machine's when None.
        position: Of an event of another run: goes on with the batch that would have come next there,
            in the middle of an epoch if need be. Steps and times count on, limits count from the start
            of the first run. A pipeline goes on at its position, other batches are gone through again.

    Raises:
        NumericError: when the loss or a gradient is no longer finite, with the batch; no later step could
            repair it. Not where `minimize` was told to drop such updates: means leave those steps out.
        InputError: when a pipeline fails at an element.
        ProgramError: when an epoch has no batch, `evaluate` or `test` does not return scores, or one
            of the three fails.
        ConfigError: when there is nothing to go on with at the position.
    """
    if epochs is None and steps is None:
        epochs = program.epochs
    figures = 1 + len(program.metrics)
    at = TrainingPosition.of(position, figures)
    clock = clock or environment.clock()
    meter = ThroughputMeter(lambda: session.stats().messages, clock, at)
    limits = TrainingLimits(epochs, steps)
    sums = EpochSums(list(at.loss_sums), at.taken, at.dropped) if at.taken else EpochSums.of(figures)
    counts = TrainingCounts(sums, at.epoch, at.step)
    source = _SessionUpdates(program, session, limits, meter, clock, at)
    loop = TrainingLoop(program, session, source, limits, meter, counts)
    async with aclosing(loop.events()) as events:
        async for event in events:
            yield event
    yield await loop.end()


class _SessionUpdates:
    """The updates of one session: each batch is a step."""

    def __init__(
        self,
        program: Program,
        session: Runner,
        limits: TrainingLimits,
        meter: ThroughputMeter,
        clock: Clock,
        at: TrainingPosition,
    ) -> None:
        self._program = program
        self._session = session
        self._limits = limits
        self._meter = meter
        self._clock = clock
        self._at = at  # where the next epoch begins
        self._fetches = [program.loss, *program.metrics.values(), program.train]
        self._drops = _drops(program.train)
        self._made = -1  # updates that had been made at the last step
        self._epoch = at.epoch  # the one at hand, or that was the last
        self._batches: Batches | None = None  # of the epoch that is not over
        self._total: int | None = None
        self._began_s = 0.0  # when the epoch at hand did, by the meter
        self._over: InputStats | None = None  # of an epoch that is over, until the next one begins
        self._whole = InputStats(0.0, 0.0)  # of all epochs that are over

    @property
    def ended(self) -> bool:
        """There are always more: `batches` is asked for each epoch."""
        return False

    async def updates(self, counts: TrainingCounts) -> AsyncGenerator[TrainingUpdate[StepDone], None]:
        """Runs a step with each batch of the next epoch."""
        epoch, first = counts.epoch, counts.first
        made = f"batches({epoch})"
        with blame_user_code(made):
            source: Any = self._program.batches(epoch)
        at, self._at = self._at, TrainingPosition()
        batches = Batches(source, made, self._clock, at, self._program.batches)
        self._began_s = self._meter.seconds()
        self._epoch, self._batches, self._over = epoch, batches, None
        self._total = self._limits.total(epoch, first, batches.size)
        async with batches:
            while (feeds := await batches.take()) is not None:
                yield await self._step(feeds, batches.taken - 1, counts)
                if counts.step == self._limits.steps:  # without a look at whether there is another batch
                    break
            else:
                self._batches = None
        stats = batches.stats()
        self._over = InputStats(batches.waited_s, self._meter.seconds() - self._began_s, lambda: stats)
        self._whole += self._over
        if counts.taken == 0:
            message = f"every epoch needs a batch, but {made} gave none"
            hint = "an iterator is used up after one epoch: make a new one at each call"
            raise ProgramError(message, hint=hint)
        self._total = self._limits.total(epoch, first, counts.taken)

    async def _step(self, feeds: Feeds, index: int, counts: TrainingCounts) -> TrainingUpdate[StepDone]:
        """Runs the step of one batch."""
        epoch = self._epoch
        try:
            *values, count = await self._session.run(self._fetches, feeds)
        except NumericError as error:
            what = f"{error.what}; at batch {index} of epoch {epoch}"
            placed = NumericError(what, where=error.where, hint=error.hint)
            raise placed from error.__cause__
        numbers = [float(v) for v in values]
        if self._drops and int(count) in (0, self._made):  # no update was made of it
            return TrainingUpdate(numbers, epoch, epoch, StepDone, False, ("not finite",))
        self._made = int(count) if self._drops else 0
        self._require_finite(numbers[0], counts.step + 1)
        return TrainingUpdate(numbers, epoch, epoch, StepDone)

    def _require_finite(self, loss: float, step: int) -> None:
        if not math.isfinite(loss):
            node = self._program.loss.node
            message = f"the loss must stay finite, got {loss}"
            where = Where(node=node.name, op=node.op, step=step, defined_at=node.defined_at)
            raise NumericError(message, where=where, hint="lower the learning rate")

    def total(self) -> int | None:
        """Returns the steps of the run when every epoch from this one on is as long as this one."""
        return self._total

    def input(self, train_s: float, *, whole: bool) -> InputStats:
        """Returns how long steps have waited for their batches."""
        if whole:
            return self._whole
        if self._over is not None:
            return self._over
        batches = self._batches
        assert batches is not None, "an epoch is at hand"
        return InputStats(batches.waited_s, train_s - self._began_s, batches.stats)

    def position(self, counts: TrainingCounts, train_s: float, messages: int) -> TrainingPosition:
        """Returns where the batches are, and what has been counted of an epoch that is not over."""
        batches = self._batches
        if batches is None:
            return TrainingPosition(
                epoch=self._epoch + 1, step=counts.step, train_s=train_s, messages=messages
            )
        stream, unfixed = batches.position()
        return TrainingPosition(
            epoch=self._epoch,
            step=counts.step,
            taken=batches.taken,
            loss_sums=tuple(counts.sums.totals),
            dropped=counts.sums.left_out,
            train_s=train_s,
            messages=messages,
            stream=stream,
            unfixed=unfixed,
        )


def _drops(train: Any) -> bool:
    """Whether the update may be dropped at a step, which tells by its count."""
    node = getattr(train, "node", None)
    return node is not None and node.op == "apply_gradients" and bool(node.attrs.get("max_not_finite", 0))
