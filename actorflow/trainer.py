"""Drives a training run: steps through the batches, epoch by epoch, and tells what happened.

A `Program` says what to train; `train` runs it on an open session and yields one event a step, one
an epoch and a last one for the run. Whoever iterates shows them, stores them or stops; nothing here
prints.

The session is whatever runs steps: this module knows two of its verbs, `run` and `stats`.
"""

from __future__ import annotations

import math
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
    Sized,
)
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, field
from inspect import isawaitable
from traceback import walk_tb
from typing import Any, Protocol

from actorflow import setting
from actorflow.clock import Clock
from actorflow.errors import ActorflowError, NumericError, ProgramError, SpecError, Where
from actorflow.graph.builder import Tensor, is_users, line_at
from actorflow.graph.graph import Graph
from actorflow.spec import show

Feeds = Mapping[Any, Any]
"""Placeholder → array: what one step is fed."""

Scores = Mapping[str, float]
"""What an evaluation found, by name."""


class Stats(Protocol):
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

    def stats(self) -> Stats:
        """Returns the counts so far."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """What `actorflow train FILE` trains: the value of the file's `build(seed)`.

    Attributes:
        graph: The graph, built with `Graph(seed=seed)`.
        loss: A scalar tensor, fetched at every step and shown.
        train: What to fetch for its effect: the update from `minimize`.
        batches: Epoch (0, 1, …) → the feeds of its steps, in order. Where they have a length, the
            time left is known from the first step on.
        epochs: How often to go through the batches, unless the caller says otherwise.
        metrics: More scalar tensors to fetch at every step and show, by name.
        evaluate: Called with the session after every epoch; returns scores by name, on data held out
            for choosing between programs. Time spent there is not training time.
        test: Called with the session once, after the last epoch, so that the test set is read once;
            returns scores by name. A run that fails or is stopped does not test.
    """

    graph: Graph
    loss: Tensor
    train: Any
    batches: Callable[[int], Iterable[Feeds] | AsyncIterable[Feeds]]
    epochs: int
    metrics: Mapping[str, Tensor] = field(default_factory=dict)
    evaluate: Callable[[Any], Awaitable[Scores]] | None = None
    test: Callable[[Any], Awaitable[Scores]] | None = None

    def __post_init__(self) -> None:
        _check_program(self)
        scalars: dict[str, Any] = {"loss": self.loss, **self.metrics}
        for name, tensor in scalars.items():
            if not isinstance(tensor, Tensor) or tensor.graph is not self.graph:
                message = f"{name} must be a tensor of the program's graph, got {tensor!r}"
                raise ProgramError(message)
            if tensor.shape != ():
                message = f"{name} must be a scalar, got shape {show(tensor.shape)}"
                raise SpecError(message, where=tensor.node.where, hint="take its mean")


def _check_program(program: Any) -> None:
    """Raises ProgramError for what a program file easily gets wrong, before a step has run."""
    if not isinstance(program.epochs, int) or program.epochs < 1:
        message = f"a program trains for at least one epoch, got {program.epochs!r}"
        raise ProgramError(message)
    if program.train is None:
        message = "train must be what to fetch for an update, got None"
        raise ProgramError(message, hint="pass what minimize(...) returned")
    for name in ("batches", "evaluate", "test"):
        function = getattr(program, name)
        if not callable(function) and (function is not None or name == "batches"):
            message = f"{name} must be a function, got {function!r:.60}"
            raise ProgramError(message)


@dataclass(frozen=True, slots=True, kw_only=True)
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
    """

    epoch: int
    step: int
    total: int | None
    loss: float
    metrics: Mapping[str, float]
    train_s: float
    messages: int

    @property
    def steps_per_s(self) -> float:
        """Steps a second since the run began; 0 before any time has passed."""
        return self.step / self.train_s if self.train_s > 0 else 0.0

    @property
    def messages_per_s(self) -> float:
        """Messages a second since the run began; 0 before any time has passed."""
        return self.messages / self.train_s if self.train_s > 0 else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class StepDone(Progress):
    """A step ended; loss and metrics are its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochDone(Progress):
    """An epoch ended, or the run did in the middle of one; loss and metrics are means over its steps.

    Attributes:
        scores: What `evaluate` returned; empty without one.
    """

    scores: Scores


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDone(Progress):
    """The run ended; loss and metrics are those of its last epoch.

    Attributes:
        scores: What `evaluate` returned after the last epoch; empty without one.
        test: What `test` returned; empty without one.
    """

    scores: Scores
    test: Scores


Event = StepDone | EpochDone | RunDone
"""What `train` tells."""


async def train(
    program: Program,
    session: Runner,
    *,
    epochs: int | None = None,
    steps: int | None = None,
    clock: Clock | None = None,
) -> AsyncGenerator[Event, None]:
    """Yields a StepDone after every step, an EpochDone after every epoch, and one RunDone, last.

    Args:
        program: What to train.
        session: An open session on the program's graph.
        epochs: Stop after so many epochs; the program's number when neither limit is given.
        steps: Stop after so many steps, in the middle of an epoch if need be.
        clock: Tells how long it took; the machine's when None.

    Raises:
        NumericError: when the loss is no longer finite; no later step could repair it.
        ProgramError: when an epoch has no batch, `evaluate` or `test` does not return scores, or one
            of the three fails.
    """
    if epochs is None and steps is None:
        epochs = program.epochs
    run = _Run(program, session, epochs, steps, clock or setting.clock())
    while not run.over:
        async with aclosing(run.steps()) as events:
            async for event in events:
                yield event
        yield await run.end_epoch()
    yield await run.end()


class _Run:
    """The state of one run: where it is, and the sums of the current epoch."""

    def __init__(
        self, program: Program, session: Runner, epochs: int | None, steps: int | None, clock: Clock
    ) -> None:
        self._program = program
        self._session = session
        self._epochs = epochs
        self._steps = steps
        self._fetches = [program.loss, *program.metrics.values(), program.train]
        self._meter = _Meter(session, clock)
        self._epoch = 0
        self._step = 0
        self._first = 0  # steps before this epoch
        self._sums: list[float] = []
        self._last: EpochDone

    @property
    def over(self) -> bool:
        """Tells whether a limit is reached; asked between epochs."""
        return self._epoch == self._epochs or self._step == self._steps

    async def steps(self) -> AsyncGenerator[StepDone, None]:
        """Begins the next epoch and yields its steps."""
        made = f"batches({self._epoch})"
        with _users_code(made):
            feeds_of_epoch: Any = self._program.batches(self._epoch)
        if not isinstance(feeds_of_epoch, Iterable | AsyncIterable):
            message = f"{made} must return an iterable of feeds, got {feeds_of_epoch!r:.60}"
            raise ProgramError(message)
        size = len(feeds_of_epoch) if isinstance(feeds_of_epoch, Sized) else None
        self._epoch += 1
        self._first = self._step
        self._sums = [0.0] * (len(self._fetches) - 1)
        total = self._total(size)
        async with aclosing(_each(feeds_of_epoch, made)) as each:
            async for feeds in each:
                *values, _ = await self._session.run(self._fetches, feeds)
                numbers = [float(v) for v in values]
                self._step += 1
                self._require_finite(numbers[0])
                self._sums = [a + b for a, b in zip(self._sums, numbers, strict=True)]
                yield StepDone(**self._progress(numbers, total))
                if self._step == self._steps:
                    return

    async def end_epoch(self) -> EpochDone:
        """Evaluates, off the meter, and returns the means of the epoch."""
        size = self._step - self._first
        if size == 0:
            message = f"every epoch needs a batch, but batches({self._epoch - 1}) gave none"
            hint = "an iterator is used up after one epoch: make a new one at each call"
            raise ProgramError(message, hint=hint)
        scores = await self._scores("evaluate", self._program.evaluate)
        means = [total / size for total in self._sums]
        self._last = EpochDone(**self._progress(means, self._total(size)), scores=scores)
        return self._last

    async def end(self) -> RunDone:
        """Tests, off the meter, and returns the figures of the last epoch with what the test found."""
        test = await self._scores("test", self._program.test)
        last = self._last
        numbers = [last.loss, *last.metrics.values()]
        return RunDone(**self._progress(numbers, self._step), scores=last.scores, test=test)

    async def _scores(self, name: str, call: Callable[[Any], Awaitable[Scores]] | None) -> Scores:
        if call is None:
            return {}
        with self._meter.paused(), _users_code(name):
            scores: Any = call(self._session)
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

    def _total(self, size: int | None) -> int | None:
        """Steps of the whole run when every epoch from this one on has `size`."""
        if self._epochs is None or size is None:
            return self._steps
        all_epochs = self._first + size * (self._epochs - self._epoch + 1)
        return all_epochs if self._steps is None else min(all_epochs, self._steps)

    def _progress(self, numbers: Sequence[float], total: int | None) -> dict[str, Any]:
        return {
            "epoch": self._epoch,
            "step": self._step,
            "total": total,
            "loss": numbers[0],
            "metrics": dict(zip(self._program.metrics, numbers[1:], strict=True)),
            "train_s": self._meter.seconds(),
            "messages": self._meter.messages(),
        }

    def _require_finite(self, loss: float) -> None:
        if not math.isfinite(loss):
            node = self._program.loss.node
            message = f"the loss must stay finite, got {loss}"
            where = Where(node=node.name, op=node.op, step=self._step, defined_at=node.defined_at)
            raise NumericError(message, where=where, hint="lower the learning rate")


class _Meter:
    """Seconds and messages since it was made, without those while it was paused."""

    def __init__(self, session: Runner, clock: Clock) -> None:
        self._session = session
        self._clock = clock
        self._began = clock.now()
        self._before = session.stats().messages

    def seconds(self) -> float:
        return self._clock.now() - self._began

    def messages(self) -> int:
        return self._session.stats().messages - self._before

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Leaves what happens inside the block out of both."""
        seconds, messages = self.seconds(), self.messages()
        yield
        self._began = self._clock.now() - seconds
        self._before = self._session.stats().messages - messages


async def _each(batches: Iterable[Feeds] | AsyncIterable[Feeds], name: str) -> AsyncGenerator[Feeds, None]:
    """Yields the feeds of either kind of iterable; `name` is what errors call it."""
    with _users_code(name):  # whoever takes the feeds fails outside: nothing is thrown in here
        if isinstance(batches, AsyncIterable):
            async for feeds in batches:
                yield feeds
        else:
            for feeds in batches:
                yield feeds


@contextmanager
def _users_code(name: str) -> Iterator[None]:
    """Turns what fails in the program's own code into a ProgramError at its line."""
    try:
        yield
    except ActorflowError:
        raise
    except Exception as error:
        message = f"{name} must not fail"
        raise ProgramError(message, where=_place(error)) from error


def _place(error: Exception) -> Where | None:
    """The innermost line of the first file that is not ours."""
    told = [(f.f_code.co_filename, line) for f, line in walk_tb(error.__traceback__) if is_users(f)]
    lines = [line for file, line in told if file == told[0][0]]
    return Where(defined_at=line_at(told[0][0], lines[-1])) if told else None
