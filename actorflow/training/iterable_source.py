"""The iterable source of a queue: it puts elements in, with backpressure, and says what is wrong."""

from __future__ import annotations

import asyncio
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    Awaitable,
    Callable,
    Generator,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from functools import partial
from types import AsyncGeneratorType, GeneratorType
from typing import Any

from actorflow.dataflow.state.queue import Enqueue, EnqueueMany
from actorflow.errors import (
    ActorflowError,
    ConfigError,
    FeedError,
    InputError,
    OutOfRange,
    QueueClosed,
    SpecError,
    Where,
    describe,
)
from actorflow.graph.builder import Tensor
from actorflow.plan.fetches import fit_feed
from actorflow.runtime import input_waits
from actorflow.runtime.cancellation import FAILURES, is_cancellation
from actorflow.runtime.input_waits import InputEntry
from actorflow.session.session import Session
from actorflow.values import arrays
from actorflow.values.spec import Spec

ENDS = (OutOfRange, QueueClosed)
"""What says that there is no more to take, or nowhere to put it."""

Elements = Iterable[Any] | AsyncIterable[Any]


class IterableSource:
    """One source of a queue, and how far it has come.

    Args:
        queue: The queue.
        elements: Its elements, as `queue.enqueue` takes them.
        batch: How many of them go in together, where they can be stacked.
        line: Where the user asked for it.

    Attributes:
        elements: How many are in.
        ended: Whether it has ended, however it did.

    Raises:
        ConfigError: for what cannot be iterated over, or a generator that has ended.
    """

    def __init__(self, queue: Any, elements: Elements, batch: int, line: str) -> None:
        self.elements = 0
        self.ended = False
        self._queue = queue
        self._specs: tuple[Spec, ...] = queue.components
        self._stacks = all(spec.is_static for spec in queue.components)
        self._source = elements
        self._batch = batch
        self._where = Where(defined_at=line)
        self._told = f"what feeds queue {queue.name!r}"
        self._line = line
        self._since: float | None = None  # since when it waits for an element
        self._now: Callable[[], float] = float
        given: Any = elements
        if isinstance(given, str | bytes | Mapping | Tensor) or not isinstance(
            given, Iterable | AsyncIterable
        ):
            message = f"a queue is fed from an iterable of elements, got {given!r:.60}"
            raise ConfigError(message, hint="one element is a list of one: [element]")
        if _is_used_up(given):
            message = f"{self._told} has no element left, got {given!r:.60}"
            raise ConfigError(message, hint="a generator can be gone through once: make a new one")

    def __repr__(self) -> str:
        state = ", ended" if self.ended else ""
        return f"<IterableSource of queue {self._queue.name!r}, {self.elements} elements{state}>"

    def waiting_for(self) -> InputEntry | None:
        """Returns for which element it waits; None where it does not."""
        if self._since is None:
            return None
        what = f"element {self.elements} of {self._told}, at {self._line}"
        return InputEntry(what, self._now() - self._since)

    async def pour(self, session: Session) -> None:
        """Puts elements in, `batch` at a time, until they end or the queue is closed.

        Raises:
            InputError: the iterable raised, or is an iterator that had nothing left.
            SpecError: an element does not fit.
        """
        source = self._source
        try:
            iterator = self._begin()
        except ENDS:
            return
        take = iterator.__anext__ if isinstance(source, AsyncIterable) else partial(_next, iterator)
        now = self._now = session.producers.now
        input_waits.register(self, asyncio.get_running_loop())
        try:
            while True:
                self._since = now()
                rows, end = await self._chunk(take)
                self._since = None
                for body in self._bodies(rows):
                    count = len(rows) if type(body) is EnqueueMany else 1
                    await self._put(session, body, count)
                    self.elements += count
                if isinstance(end, ActorflowError):
                    raise end
                if end is not None:
                    break
            if (
                not self.elements
                and iterator is source
                and not isinstance(source, Generator | AsyncGenerator)
            ):
                message = f"{self._told} had no element left"
                hint = "an iterator can be gone through once: make a new one"
                raise InputError(message, where=self._where, hint=hint)
        except ENDS:
            return
        finally:
            input_waits.unregister(self)
            await self._close(iterator)

    async def _close(self, iterator: Any) -> None:
        """Ends a generator, whose `finally` runs."""
        try:
            if isinstance(iterator, AsyncGenerator):
                await iterator.aclose()
            elif isinstance(iterator, Generator):
                iterator.close()
        except InputError:
            raise
        except Exception as error:
            what = f"{self._told} could not be closed: {describe(error)}"
            raise InputError(what, where=self._where) from error

    def _begin(self) -> Any:
        source = self._source
        try:
            return aiter(source) if isinstance(source, AsyncIterable) else iter(source)
        except (*ENDS, InputError, SpecError):
            raise
        except FAILURES as error:
            message = f"{self._told} could not be begun: {describe(error)}"
            raise InputError(message, where=self._where) from error

    async def _put(self, session: Session, body: Enqueue | EnqueueMany, count: int) -> None:
        """Puts `count` elements in; a refusal of the queue names them."""
        try:
            await session.resources.call(self._queue.name, body)
        except ENDS:
            raise
        except ActorflowError as error:
            first, last = self.elements, self.elements + count - 1
            which = f"element {first}" if count == 1 else f"one of the elements {first} to {last}"
            refused = error.copy()
            refused.what = f"{which} of {self._told}: {error.what}"
            raise refused.at(self._where) from error

    async def _chunk(
        self, take: Callable[[], Awaitable[Any]]
    ) -> tuple[list[tuple[Any, ...]], BaseException | None]:
        """Returns up to `batch` elements, and what ended them: an error, StopAsyncIteration, or None."""
        rows: list[tuple[Any, ...]] = []
        while len(rows) < self._batch:
            number = self.elements + len(rows)
            try:
                rows.append(self._fit(await take(), number))
            except StopAsyncIteration as end:
                return rows, end
            except (InputError, SpecError, *ENDS) as error:
                return rows, error
            except FAILURES as error:
                if is_cancellation(error):
                    raise
                what = f"element {number} of {self._told} could not be made: {describe(error)}"
                found = InputError(what, where=self._where)
                found.__cause__ = error
                return rows, found
        return rows, None

    def _fit(self, element: Any, number: int) -> tuple[Any, ...]:
        """Returns the components of an element as arrays; raises SpecError naming it when they do not fit."""
        specs = self._specs
        if _is_ready(element, specs[0]) and len(specs) == 1 and self._queue.names is None:
            return (element,)
        try:
            values = self._queue._in_order(element)
        except SpecError as error:
            message = f"element {number} of {self._told} does not fit: {error.what}"
            raise SpecError(message, where=self._where) from None
        return tuple(
            value if _is_ready(value, spec) else self._component(k, spec, value, number)
            for k, (value, spec) in enumerate(zip(values, specs, strict=True))
        )

    def _component(self, k: int, spec: Spec, value: Any, number: int) -> Any:
        try:
            return fit_feed(k, spec, value, kind="component", holder="queue")
        except FeedError as error:
            message = f"element {number} of {self._told} does not fit: {error.what}"
            raise SpecError(message, where=self._where, hint=error.hint) from None

    def _bodies(self, rows: Sequence[tuple[Any, ...]]) -> Iterator[Enqueue | EnqueueMany]:
        """Gives the messages that put the rows in: one where they can be stacked."""
        if len(rows) > 1 and self._stacks:
            yield EnqueueMany(tuple(arrays.stack(column) for column in zip(*rows, strict=True)))
        else:
            yield from map(Enqueue, rows)


async def _next(iterator: Iterator[Any]) -> Any:
    """The next element of what is not asynchronous."""
    for element in iterator:
        return element
    raise StopAsyncIteration


def _is_ready(value: Any, spec: Spec) -> bool:
    """Tells of a plain array that it fits: 0.5 µs, where `fit_feed` takes 1.2 µs to say the same."""
    plain = type(value) is arrays.NDArray and value.dtype.kind != "O"  # whose elements are looked at
    return plain and spec.fits(value.shape, value.dtype)


def _is_used_up(elements: Any) -> bool:
    """Tells of a generator that it has ended."""
    if isinstance(elements, AsyncGeneratorType):
        return elements.ag_frame is None
    return isinstance(elements, GeneratorType) and elements.gi_frame is None
