"""The loop of every training run, on one session or on a cluster: its epochs, its means and its events.

Where the updates come from, a source knows: `training.trainer` takes one batch a step on a session,
`cluster.trainer` hears of updates from a coordinator. What is counted stands in `training_counts`, without a
session, a clock or an await.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from inspect import isawaitable
from typing import Any, Generic, Protocol

from actorflow.errors import ConfigError, ProgramError
from actorflow.runtime.user_code import blame_user_code
from actorflow.training.batches import InputStats
from actorflow.training.events import EpochDone, RunDone
from actorflow.training.position import TrainingPosition
from actorflow.training.program import Program, Scores
from actorflow.training.throughput_meter import ThroughputMeter
from actorflow.training.training_counts import StepT, TrainingCounts, TrainingLimits, TrainingUpdate


class UpdateSource(Protocol[StepT]):
    """Where the updates of a run come from.

    One run asks it: `updates` again and again, one after the other, and the rest for the events in between.
    """

    def updates(self, counts: TrainingCounts) -> AsyncGenerator[TrainingUpdate[StepT], None]:
        """Goes on where the run is, and yields updates, until an epoch is over or a limit is reached.

        It may go on over several epochs. What comes to nothing after the last update it adds to the counts.

        Raises:
            ActorflowError: there was no update, or there cannot be one.
        """
        ...

    @property
    def ended(self) -> bool:
        """Whether `updates`, which has ended, was the last there is, whatever the limits say."""
        ...

    def total(self) -> int | None:
        """Returns the steps that the whole run will take; None while nobody can know."""
        ...

    def input(self, train_s: float, *, whole: bool) -> InputStats:
        """Returns how long steps waited for input, by now: in this epoch, or in the whole run."""
        ...

    def position(self, counts: TrainingCounts, train_s: float, messages: int) -> TrainingPosition:
        """Returns where the run is."""
        ...


class TrainingLoop(Generic[StepT]):
    """One run: takes the updates of a source, epoch by epoch, and tells what happened.

    Args:
        program: What is trained.
        session: What `evaluate` and `test` of the program are called with.
        source: Where the updates come from.
        limits: Where the run ends.
        meter: Of the run; it rests during evaluation and test.
        counts: Where the run begins.

    Raises:
        ConfigError: it is over where it begins.
    """

    def __init__(
        self,
        program: Program,
        session: Any,
        source: UpdateSource[StepT],
        limits: TrainingLimits,
        meter: ThroughputMeter,
        counts: TrainingCounts,
    ) -> None:
        self._program = program
        self._session = session
        self._source = source
        self._limits = limits
        self._meter = meter
        self._counts = counts
        self._last: EpochDone
        epoch, step = counts.epoch, counts.step
        if limits.reached(epoch, step) or limits.passed(epoch, step):
            message = f"nothing is left to train: {epoch} epochs and {step} steps are done"
            hint = (
                f"the limits are epochs={limits.epochs} and steps={limits.steps}, counted from the start: "
                "set higher ones"
            )
            raise ConfigError(message, hint=hint)

    async def events(self) -> AsyncGenerator[StepT | EpochDone, None]:
        """Yields an event after every step, and one after every epoch, until the run is over."""
        counts, source, over = self._counts, self._source, False
        while not over:
            async with aclosing(source.updates(counts)) as updates:
                async for update in updates:
                    if (ended := counts.ended_by(update)) is not None:
                        yield await self._end_epoch(ended)
                    counts.add(update)
                    yield update.event(**self._progress(update.numbers, self._meter.seconds()))
            yield await self._end_epoch(counts.after)
            over = source.ended or self._limits.reached(counts.epoch, counts.step)

    async def end(self) -> RunDone:
        """Tests, off the meter, and returns the figures of the last epoch with what the test found."""
        with self._meter.pause():
            test = await score("test", self._program.test, self._session)
        last, train_s, dropped = self._last, self._meter.seconds(), dict(self._counts.dropped)
        told = self._progress([last.loss, *last.metrics.values()], train_s)
        told |= {"epoch": last.epoch, "input": self._source.input(train_s, whole=True)}
        return RunDone(**told, scores=last.scores, test=test, dropped=sum(dropped.values()), reasons=dropped)

    async def _end_epoch(self, over: int) -> EpochDone:
        """Evaluates, off the meter, and returns the means of the epoch at hand; then so many are over."""
        with self._meter.pause():
            scores = await score("evaluate", self._program.evaluate, self._session)
        self._counts.epoch = over - 1  # those that it passes over, because they are short, end with it
        told = self._progress(self._counts.sums.means(), self._meter.seconds())
        self._last = EpochDone(**told, scores=scores)
        self._counts.end_epoch(over)
        return self._last

    def _progress(self, numbers: Sequence[float], train_s: float) -> dict[str, Any]:
        counts, messages = self._counts, self._meter.messages()
        return {
            "epoch": counts.epoch + 1,
            "step": counts.step,
            "total": self._source.total(),
            "loss": numbers[0],
            "metrics": dict(zip(self._program.metrics, numbers[1:], strict=True)),
            "train_s": train_s,
            "messages": messages,
            "input": self._source.input(train_s, whole=False),
            "training_position": self._source.position(counts, train_s, messages),
        }


async def score(name: str, call: Callable[[Any], Awaitable[Scores]] | None, session: Any) -> Scores:
    """Returns what `evaluate` or `test` of a program found; nothing without one.

    Raises:
        ProgramError: it does not return numbers by name, or fails.
    """
    if call is None:
        return {}
    with blame_user_code(name):
        scores: Any = call(session)
        if isawaitable(scores):
            scores = await scores
        else:
            message = f"{name} must be an async function, got one that returns {scores!r:.60}"
            raise ProgramError(message)
    try:
        return {k: float(v) for k, v in scores.items()}
    except (AttributeError, TypeError, ValueError) as error:
        message = f"{name} must return numbers by name, got {scores!r}"
        raise ProgramError(message, hint='for example {"accuracy": 0.97}') from error
