"""Drives a training run: steps through the batches, epoch by epoch, and tells what happened.

A `Program` says what to train; `train` runs it on an open session and yields one event a step, one
an epoch and a last one for the run. Whoever iterates shows them, stores them or stops; nothing here
prints.

The session is whatever runs steps: this module knows two of its verbs, `run` and `stats`.
"""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, field
from inspect import isawaitable
from typing import Any, Protocol

from actorflow.errors import ConfigError, NumericError, ProgramError, Where
from actorflow.runtime import environment
from actorflow.runtime.clock import Clock
from actorflow.runtime.user_code import blame_user_code
from actorflow.training.batches import Batches, Feeds, InputStats
from actorflow.training.position import TrainingPosition
from actorflow.training.program import Program, Scores


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


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Progress:
    """How far a run has come.

    Attributes:
        epoch: The current epoch, from 1.
        step: Steps taken since the run began.
        total: Steps that the whole run will take; None while nobody can know.
        loss: The loss.
        metrics: The program's metrics.
        train_s: Seconds spent so far, evaluation and test left out.
        messages: Messages delivered in that time.
        input: How long steps waited for their batches, and why: in the current epoch so far.
        training_position: Where the run is.
    """

    epoch: int
    step: int
    total: int | None
    loss: float
    metrics: Mapping[str, float]
    train_s: float
    messages: int
    input: InputStats
    training_position: TrainingPosition

    def position(self) -> dict[str, Any]:
        """Returns where the run is, as plain data from which `train` goes on with the next batch.

        It says where the batches are. The variables are the session's, which must be the same one, or
        hold the same values.

        Raises:
            InputError: the batches come from a pipeline that gives no fixed order.
        """
        return self.training_position.data()

    @property
    def steps_per_s(self) -> float:
        """Steps a second since the run began; 0 before any time has passed."""
        return self.step / self.train_s if self.train_s > 0 else 0.0

    @property
    def messages_per_s(self) -> float:
        """Messages a second since the run began; 0 before any time has passed."""
        return self.messages / self.train_s if self.train_s > 0 else 0.0

    def __repr__(self) -> str:
        """One short line, for people; all that is known is in the attributes."""
        step = f"{self.step}" if self.total is None else f"{self.step}/{self.total}"
        found = {"loss": self.loss, **self.metrics, **getattr(self, "scores", {})}
        found |= {f"test {name}": value for name, value in getattr(self, "test", {}).items()}
        facts = [
            f"epoch {self.epoch}",
            f"step {step}",
            *(f"{name} {value:.4g}" for name, value in found.items()),
        ]
        if dropped := getattr(self, "dropped", 0):
            facts.append(f"{dropped} dropped")
        return f"<{type(self).__name__} {', '.join(facts)}, {self.train_s:.1f} s>"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class StepDone(Progress):
    """A step ended; loss and metrics are its own."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class EpochDone(Progress):
    """An epoch ended, or the run did in the middle of one; loss and metrics are means over its steps.

    Attributes:
        scores: What `evaluate` returned; empty without one.
    """

    scores: Scores


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RunDone(Progress):
    """The run ended; loss and metrics are those of its last epoch, input is that of the whole run.

    Attributes:
        scores: What `evaluate` returned after the last epoch; empty without one.
        test: What `test` returned; empty without one.
        dropped: Contributions of a cluster that no update was made of; of one session, steps that made no
            update, from the position on where it began.
        reasons: How many of these, by why, such as "late" or "not finite".
    """

    scores: Scores
    test: Scores
    dropped: int = 0
    reasons: Mapping[str, int] = field(default_factory=dict)


Event = StepDone | EpochDone | RunDone
"""What `train` tells."""


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
    at = TrainingPosition.of(position, 1 + len(program.metrics))
    run = _EpochRun(program, session, epochs, steps, clock or environment.clock(), at)
    while not run.over:
        async with aclosing(run.steps()) as events:
            async for event in events:
                yield event
        yield await run.end_epoch()
    yield await run.end()


class _EpochRun:
    """The state of one run: where it is, and the sums of the current epoch."""

    def __init__(
        self,
        program: Program,
        session: Runner,
        epochs: int | None,
        steps: int | None,
        clock: Clock,
        at: TrainingPosition,
    ) -> None:
        self._program = program
        self._session = session
        self._epochs = epochs
        self._steps = steps
        self._clock = clock
        self._fetches = [program.loss, *program.metrics.values(), program.train]
        self._meter = ThroughputMeter(lambda: session.stats().messages, clock, at)
        self._at = at  # where the next epoch begins
        self._batches: Batches | None = None  # of the epoch that is not over
        self._epoch = at.epoch
        self._step = at.step
        self._first = 0  # steps before this epoch
        self._loss_sums: list[float] = []
        self._drops = _drops(program.train)
        self._count = -1  # updates that had been made at the last step
        self._dropped = 0  # steps of this epoch that made no update, which its means leave out
        self._dropped_here = 0  # of all epochs of this run
        self._now = self._whole = InputStats(0.0, 0.0)  # of this epoch, and of all so far
        self._last: EpochDone
        if self.over or (steps is not None and at.step > steps) or (epochs is not None and at.epoch > epochs):
            message = f"nothing is left to train: {at.epoch} epochs and {at.step} steps are done"
            hint = (
                f"the limits are epochs={epochs} and steps={steps}, counted from the start: set higher ones"
            )
            raise ConfigError(message, hint=hint)

    @property
    def over(self) -> bool:
        """Tells whether a limit is reached; asked between epochs."""
        return self._epoch == self._epochs or self._step == self._steps

    async def steps(self) -> AsyncGenerator[StepDone, None]:
        """Begins the next epoch and yields its steps."""
        made = f"batches({self._epoch})"
        with blame_user_code(made):
            source: Any = self._program.batches(self._epoch)
        at, self._at = self._at, TrainingPosition()
        batches = Batches(source, made, self._clock, at, self._program.batches)
        self._epoch += 1
        began_s = self._meter.seconds()
        self._first = self._step - at.taken
        self._dropped = at.dropped
        self._loss_sums = list(at.loss_sums) if at.taken else [0.0] * (len(self._fetches) - 1)
        total = self._total(batches.size)
        self._batches = batches
        async with batches:
            while (feeds := await batches.take()) is not None:
                numbers = await self._one(feeds, batches.taken - 1)
                train_s = self._meter.seconds()
                waited = InputStats(batches.waited_s, train_s - began_s, batches.stats)
                yield StepDone(**self._progress(numbers, total, train_s, waited))
                if self._step == self._steps:
                    break
            else:
                self._batches = None
        stats = batches.stats()
        self._now = InputStats(batches.waited_s, self._meter.seconds() - began_s, lambda: stats)
        self._whole += self._now

    async def _one(self, feeds: Feeds, index: int) -> list[float]:
        """Runs the step of one batch, and returns its loss and metrics."""
        try:
            *values, count = await self._session.run(self._fetches, feeds)
        except NumericError as error:
            what = f"{error.what}; at batch {index} of epoch {self._epoch - 1}"
            placed = NumericError(what, where=error.where, hint=error.hint)
            raise placed from error.__cause__
        numbers = [float(v) for v in values]
        self._step += 1
        if self._drops and int(count) in (0, self._count):
            self._dropped += 1
            self._dropped_here += 1
            return numbers
        self._count = int(count) if self._drops else 0
        self._require_finite(numbers[0])
        self._loss_sums = [a + b for a, b in zip(self._loss_sums, numbers, strict=True)]
        return numbers

    async def end_epoch(self) -> EpochDone:
        """Evaluates, off the meter, and returns the means of the epoch."""
        size = self._step - self._first
        if size == 0:
            message = f"every epoch needs a batch, but batches({self._epoch - 1}) gave none"
            hint = "an iterator is used up after one epoch: make a new one at each call"
            raise ProgramError(message, hint=hint)
        with self._meter.pause():
            scores = await score("evaluate", self._program.evaluate, self._session)
        made = size - self._dropped
        means = [total / made if made else math.nan for total in self._loss_sums]
        told = self._progress(means, self._total(size), self._meter.seconds(), self._now)
        self._last = EpochDone(**told, scores=scores)
        return self._last

    async def end(self) -> RunDone:
        """Tests, off the meter, and returns the figures of the last epoch with what the test found."""
        with self._meter.pause():
            test = await score("test", self._program.test, self._session)
        last = self._last
        numbers = [last.loss, *last.metrics.values()]
        told = self._progress(numbers, self._step, self._meter.seconds(), self._whole)
        dropped = self._dropped_here
        reasons = {"not finite": dropped} if dropped else {}
        return RunDone(**told, scores=last.scores, test=test, dropped=dropped, reasons=reasons)

    def _total(self, size: int | None) -> int | None:
        """Steps of the whole run when every epoch from this one on has `size`."""
        if self._epochs is None or size is None:
            return self._steps
        all_epochs = self._first + size * (self._epochs - self._epoch + 1)
        return all_epochs if self._steps is None else min(all_epochs, self._steps)

    def _progress(
        self, numbers: Sequence[float], total: int | None, train_s: float, waited: InputStats
    ) -> dict[str, Any]:
        messages = self._meter.messages()
        return {
            "epoch": self._epoch,
            "step": self._step,
            "total": total,
            "loss": numbers[0],
            "metrics": dict(zip(self._program.metrics, numbers[1:], strict=True)),
            "train_s": train_s,
            "messages": messages,
            "input": waited,
            "training_position": self._position(train_s, messages),
        }

    def _position(self, train_s: float, messages: int) -> TrainingPosition:
        batches = self._batches
        if batches is None:
            return TrainingPosition(epoch=self._epoch, step=self._step, train_s=train_s, messages=messages)
        stream, unfixed = batches.position()
        return TrainingPosition(
            epoch=self._epoch - 1,
            step=self._step,
            taken=batches.taken,
            loss_sums=tuple(self._loss_sums),
            dropped=self._dropped,
            train_s=train_s,
            messages=messages,
            stream=stream,
            unfixed=unfixed,
        )

    def _require_finite(self, loss: float) -> None:
        if not math.isfinite(loss):
            node = self._program.loss.node
            message = f"the loss must stay finite, got {loss}"
            where = Where(node=node.name, op=node.op, step=self._step, defined_at=node.defined_at)
            raise NumericError(message, where=where, hint="lower the learning rate")


def _drops(train: Any) -> bool:
    """Whether the update may be dropped at a step, which tells by its count."""
    node = getattr(train, "node", None)
    return node is not None and node.op == "apply_gradients" and bool(node.attrs.get("max_not_finite", 0))


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


class ThroughputMeter:
    """Seconds and messages since it was made, and before; without those while it was paused.

    Args:
        count: Says how many messages there have been.
        clock: Tells the time.
        at: Where the run goes on from.
    """

    def __init__(self, count: Callable[[], int], clock: Clock, at: TrainingPosition) -> None:
        self._count = count
        self._clock = clock
        self._began = clock.now() - at.train_s
        self._before = count() - at.messages

    def seconds(self) -> float:
        """Returns the seconds so far."""
        return self._clock.now() - self._began

    def messages(self) -> int:
        """Returns the messages so far."""
        return self._count() - self._before

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Leaves what happens inside the block out of both."""
        seconds, messages = self.seconds(), self.messages()
        yield
        self._began = self._clock.now() - seconds
        self._before = self._count() - messages
