"""The batches of an epoch, whatever they come from: opened, taken one by one, timed and closed.

A pipeline is opened here and left when the epoch ends or is broken off; a generator is closed. Its
errors reach the caller as they are, those of the program's own code as a ProgramError at its line.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    Callable,
    Generator,
    Iterable,
    Iterator,
    Mapping,
    Sized,
)
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any, Self

from actorflow.data.pipeline import Pipeline
from actorflow.data.run.stream import Stream
from actorflow.data.stages.stats import StageStats, Stats, combine_stats
from actorflow.errors import InputError, ProgramError
from actorflow.runtime import input_waits
from actorflow.runtime.call_site import line_at
from actorflow.runtime.clock import Clock, Entropy
from actorflow.runtime.input_waits import InputEntry
from actorflow.runtime.reader_thread import ReaderThread, ThreadCall
from actorflow.runtime.user_code import blame_user_code
from actorflow.training.position import TrainingPosition

Feeds = Mapping[Any, Any]
"""Placeholder, or its name → array: what one step is fed."""

Source = Pipeline | Stream | Iterable[Feeds] | AsyncIterable[Feeds]
"""What the batches of an epoch may come from."""

BOUND = 0.2
"""The share of its time that a run may wait for input before the input is what it is said to be bound by."""

_END = object()

_QUICK = (list, tuple, dict)
"""What no code of the program's reads."""


def _none() -> Stats | None:
    return None


@dataclass(frozen=True, slots=True)
class InputStats:
    """How long steps have waited for their batches, and what the stages of the pipeline did meanwhile.

    Attributes:
        waited_s: Seconds between steps in which the next batch was not there; opening and closing count.
        seconds: Seconds that it is a part of.
        look: Returns what the pipeline has done by then, None where there is none: to look after every
            step would take longer than many a step.
    """

    waited_s: float
    seconds: float
    look: Callable[[], Stats | None] = _none

    @property
    def stats(self) -> Stats | None:
        """What the pipeline has done by now, if the epoch is not over; None where there is none."""
        return self.look()

    @property
    def waiting(self) -> float:
        """Share of the time in which steps waited for input; 0 before any has passed."""
        return self.waited_s / self.seconds if self.seconds > 0 else 0.0

    @property
    def bound(self) -> bool:
        """Whether input is what limits: steps wait for it for more than a fifth of the time."""
        return self.waiting > BOUND

    @property
    def stages(self) -> tuple[StageStats, ...]:
        """What each stage of the pipeline did; empty without one."""
        stats = self.stats
        return () if stats is None else stats.stages

    @property
    def bottleneck(self) -> str | None:
        """The busiest stage and how busy it is: "map 'augment' 93 %"; None where nobody knows.

        So it is where all stages together worked for less than half the time that steps waited: then
        they waited for something else, such as processes that start or a source that waits itself.
        """
        stats = self.stats
        stage = None if stats is None else stats.bottleneck
        if stats is None or stage is None or 2 * sum(each.busy for each in stats.stages) < self.waiting:
            return None
        return describe_stage(stage)

    def __str__(self) -> str:
        """One line for a progress view; empty where the input keeps up."""
        if not self.bound:
            return ""
        return f"input-bound: {self.bottleneck or f'batches {100 * self.waiting:.0f} %'}"

    def __add__(self, later: InputStats) -> InputStats:
        """Returns both as one, the later one behind the other."""
        first, second = self.stats, later.stats
        stats = second or first if first is None or second is None else combine_stats(first, second)
        return InputStats(self.waited_s + later.waited_s, self.seconds + later.seconds, lambda: stats)


def describe_stage(stage: StageStats) -> str:
    """Returns a stage and how busy it is."""
    return f"{stage.label} {100 * stage.busy:.0f} %"


class Batches:
    """The batches of one epoch: `async with` it, and `take` them.

    Args:
        source: What the program gave.
        name: What errors call it.
        clock: Tells how long it takes.
        at: Where to begin: that many were taken before.
        made: The function that gave it, for reports; None where it is not known.
        thread: Where its plain code runs; None for the thread of the loop.

    Attributes:
        size: How many there are in the whole epoch; None where nobody knows.
        taken: How many were taken, those before included.
        waited_s: Seconds in which somebody waited for them.

    Raises:
        ProgramError: it is nothing to iterate over, or cannot go on there.
    """

    def __init__(
        self,
        source: Any,
        name: str,
        clock: Clock,
        at: TrainingPosition,
        made: Callable[[int], Any] | None = None,
        thread: ReaderThread | None = None,
    ) -> None:
        if not isinstance(source, Iterable | AsyncIterable):
            message = f"{name} must return an iterable of feeds, got {source!r:.60}"
            raise ProgramError(message)
        self.size = _size(source)
        self.taken = 0
        self.waited_s = 0.0
        self._source: Any = source
        self._name = name
        self._clock = clock
        self._at = at
        self._stream: Stream | None = None
        self._ours = False  # whether we entered the stream
        self._awaits = isinstance(source, AsyncIterable)
        self._iterator: Any = None
        self._unfixed: InputError | None = None
        self._made = made
        self._thread = None if self._awaits or type(source) in _QUICK else thread
        self._call: ThreadCall | None = None  # the last one there
        self._since: float | None = None  # since when somebody waits

    def waiting_for(self) -> InputEntry | None:
        """Returns for which batch somebody waits; None where nobody does, or a stream says so itself."""
        if self._since is None or self._stream is not None:
            return None
        what = describe_source(self._made or type(self._source), self._source)
        return InputEntry(f"batch {self.taken} of {self._name}, of {what}", self._clock.now() - self._since)

    async def __aenter__(self) -> Self:
        input_waits.register(self, asyncio.get_running_loop())
        with self._waiting():
            if isinstance(self._source, Pipeline | Stream):
                await self._enter(self._source)
            else:
                try:
                    await self._pass_over()
                except BaseException:
                    await self._close()
                    raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        input_waits.unregister(self)
        with self._waiting():
            if self._stream is not None:
                if self._ours:
                    await self._stream.__aexit__(kind, error, trace)
            else:
                await self._close()

    async def take(self) -> Feeds | None:
        """Returns the next batch; None when there is none.

        Raises:
            InputError: the pipeline failed at an element.
            ProgramError: the program's own code failed, or what it gave is no batch.
        """
        began = self._since = self._clock.now()
        try:
            feeds = await self._next()
        finally:
            self.waited_s += self._clock.now() - began
            self._since = None
        if feeds is _END:
            return None
        if not isinstance(feeds, Mapping):
            message = f"{self._name} must give feeds, placeholder → array, got {type(feeds).__name__}"
            hint = None
            if self._stream is not None:
                hint = 'map elements to dicts by the name of a placeholder: {"images": ..., "labels": ...}'
            raise ProgramError(message, hint=hint)
        self.taken += 1
        return feeds

    def stats(self) -> Stats | None:
        """Returns what the stages of the pipeline have done; None without one."""
        return None if self._stream is None else self._stream.stats()

    def position(self) -> tuple[Mapping[str, Any] | None, InputError | None]:
        """Returns the position of the pipeline, and why it has none; twice None without a pipeline."""
        if self._stream is None or self._unfixed is not None:
            return None, self._unfixed
        return self._stream.position(), None

    # -- pipelines ---------------------------------------------------------------------------------

    async def _enter(self, source: Pipeline | Stream) -> None:
        """Opens what is not open yet, at the position."""
        at = self._at
        stream = source if isinstance(source, Stream) else None
        if at.taken and (at.stream is None or (stream is not None and stream.position() != at.stream)):
            kind = "batches that were no pipeline" if at.stream is None else "another place in its pipeline"
            message = f"{self._name} cannot go on: the position is of {kind}"
            hint = 'return the pipeline itself, or one opened at position["stream"]'
            raise ProgramError(message, hint=hint)
        if stream is None:
            assert isinstance(source, Pipeline)
            stream = source.open(at.stream)
        if not stream.is_open:
            await stream.__aenter__()
            self._ours = True
        self._stream = stream
        self.taken = at.taken
        try:
            stream.position()
        except InputError as error:
            self._unfixed = error

    # -- other iterables ---------------------------------------------------------------------------

    async def _pass_over(self) -> None:
        """Begins to iterate, and leaves out what was taken before."""
        if self._at.stream is not None:
            message = f"{self._name} cannot go on: the position is of a pipeline, got {self._source!r:.60}"
            raise ProgramError(message)
        with blame_user_code(self._name):
            if self._awaits:
                self._iterator = aiter(self._source)
            else:
                self._iterator = await self._plain(partial(iter, self._source))
        self._next_of = partial(next, self._iterator, _END)
        while self.taken < self._at.taken:
            if await self._next() is _END:
                message = (
                    f"{self._name} cannot go on after {self._at.taken} batches: it gave only {self.taken}"
                )
                raise ProgramError(message, hint="it must give the same batches whenever it is called")
            self.taken += 1

    async def _next(self) -> Any:
        """Returns the next element, or _END."""
        if self._stream is not None:
            return await anext(self._stream, _END)
        with blame_user_code(self._name):
            return await anext(self._iterator, _END) if self._awaits else await self._plain(self._next_of)

    async def _plain(self, function: Callable[[], Any]) -> Any:
        """Calls plain code of the program's, beside the loop where it has a thread."""
        if self._thread is None:
            return function()
        self._call = call = self._thread.hand_over(function)
        await self._thread.until_over(call)
        return call.result()

    async def _close(self) -> None:
        """Ends a generator where it stands, so that its `finally` runs now, or when it gives the next one."""
        with blame_user_code(self._name):
            if isinstance(self._iterator, AsyncGenerator):
                await self._iterator.aclose()
            elif isinstance(self._iterator, Generator):
                if self._thread is not None and self._call is not None and not self._call.over:
                    self._thread.after(self._call, self._iterator.close)
                else:
                    await self._plain(self._iterator.close)

    @contextmanager
    def _waiting(self) -> Iterator[None]:
        began = self._clock.now()
        try:
            yield
        finally:
            self.waited_s += self._clock.now() - began


def opening(clock: Clock, seed: int, thread: ReaderThread | None = None) -> Callable[[Any, int], Batches]:
    """Returns how the workers of a run open an epoch: (source, epoch) -> the same batches for each of them.

    Where a pipeline would draw a seed when it is opened, it is given one that depends on `seed` and epoch
    alone.

    Args:
        clock: Tells how long batches take.
        seed: Of the run; the same for all workers.
        thread: Where plain code of the program's that gives batches runs; None for the thread of the loop.
    """

    def opened(source: Any, epoch: int) -> Batches:
        name = f"batches({epoch})"
        at = TrainingPosition()
        if isinstance(source, Stream):
            message = f"{name} must return what each worker can open by itself, got a stream that is open"
            raise ProgramError(message, hint="return the pipeline itself")
        if isinstance(source, Pipeline):
            drawn = Entropy(seed * 1_000_003 + epoch).below(2**63)
            at = TrainingPosition(stream={**source.open().position(), "seed": drawn})
        return Batches(source, name, clock, at, thread=thread)

    return opened


def describe_source(batches: Callable[[int], Any], source: Any = None) -> str:
    """Returns what batches come from, in the user's words and with its line.

    A pipeline by its stages, where its source was written; a generator where it stands; anything else by the
    function that gave it.

    Args:
        batches: The program's.
        source: What it returned; None before it has.
    """
    if isinstance(source, Pipeline):
        return source.describe()
    for kind, at in (("async generator", "ag"), ("generator", "gi")):
        frame, code = getattr(source, f"{at}_frame", None), getattr(source, f"{at}_code", None)
        if code is not None:
            line = code.co_firstlineno if frame is None else frame.f_lineno
            return f"{kind} '{code.co_qualname}' at {line_at(code.co_filename, line)}"
    function: Any = batches
    while isinstance(function, partial):
        function = function.func
    function = inspect.unwrap(function)
    code = getattr(function, "__code__", None) or getattr(type(function).__call__, "__code__", None)
    line = "" if code is None else f" at {line_at(code.co_filename, code.co_firstlineno)}"
    name = getattr(function, "__qualname__", type(function).__name__)
    gave = "" if source is None else f"the {type(source).__name__} of "
    return f"{gave}function '{name}'{line}"


def _size(source: Any) -> int | None:
    """How many batches there are, where it is known beforehand."""
    if not isinstance(source, Sized):
        return None
    try:
        return len(source)
    except InputError:  # a pipeline that does not know
        return None
