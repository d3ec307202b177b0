"""A source of elements that somebody else puts into a queue."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from inspect import iscoroutinefunction
from typing import Any

from actorflow.dataflow.state.queue import Dequeue
from actorflow.errors import (
    ActorDied,
    ActorflowError,
    ConfigError,
    GraphError,
    InputError,
    OutOfRange,
    SessionClosed,
    Where,
    describe,
)
from actorflow.graph.resource import QueueDef
from actorflow.runtime.cancellation import FAILURES, is_cancellation

Get = Callable[[], Awaitable[Any]]

_NO_END = object()
_ENDS: tuple[type[Exception], ...] = (OutOfRange,)
if hasattr(asyncio, "QueueShutDown"):  # from Python 3.13 on
    _ENDS += (asyncio.QueueShutDown,)


@dataclass(frozen=True, slots=True)
class QueueSource:
    """A source that asks for one element after the other.

    Attributes:
        name: What errors and progress call it.
        get: () -> an awaitable of the next element.
        get_now: () -> the next element, or raises `asyncio.QueueEmpty`; None where that is not known.
        end: The value that ends an epoch.
        size: None: unknown.
        blocking: False: it waits on the loop.
        element_bytes: None: unknown.
        once: Why no stream of it has a position.
    """

    name: str
    get: Get
    get_now: Callable[[], Any] | None
    end: object = _NO_END
    size: None = None
    blocking: bool = False
    element_bytes: None = None
    once: str = "a queue keeps nothing that it gave"

    def open(self, start: int, epoch: int) -> QueueReader:
        """Returns a reader of what comes from now on; a queue has no elements before that."""
        if start:
            message = f"{self.name}: expected to begin at element 0, got {start}: {self.once}"
            raise InputError(message, hint="fill the queue from that element on, and open the pipeline anew")
        return QueueReader(self, epoch)


def queue(source: Any, of: Any = None, *, end: object = _NO_END) -> QueueSource:
    """Elements that come out of a queue, until it ends.

    An epoch ends when `get` raises `asyncio.QueueShutDown` or `errors.OutOfRange` (what a closed queue of
    a session has), or gives `end`. What has been asked for and not yet used is in the pipeline, not in the
    queue, so a pipeline over a queue cannot go on at a position.

    Args:
        source: What has an async `get()`, as `asyncio.Queue`, or such a function itself. Or a session,
            open on the loop on which the pipeline runs and for longer.
        of: A queue of the session's graph. Its actor is asked, without a step; elements are read-only
            arrays: one, a tuple of components, or a dict where the queue has names.
        end: The object that ends an epoch (it alone, not one equal to it); without one only the queue does.
    """
    if of is not None:
        return QueueSource(f"queue {getattr(of, 'name', '?')!r}", _of_session(source, of), None, end)
    get = getattr(source, "get", source)
    # A dict has a `get` as well.
    if not callable(get) or isinstance(source, dict):
        message = f"queue takes what has an async get(), or an async function, got {source!r:.200}"
        hint = "queue(session, queue) reads a queue of a session" if _is_handle(source) else None
        raise ConfigError(message, hint=hint)
    holder = source if get is not source else getattr(source, "__self__", None)
    # A `get` that is plain would block the loop: a `queue.Queue` is the usual mistake.
    if holder is not None and getattr(get, "__name__", "get") == "get" and not _is_async(get):
        kind = f"{type(holder).__module__}.{type(holder).__qualname__}"
        message = f"queue takes what has an async get(), got a {kind}, whose get() would block the event loop"
        hint = "fill an asyncio.Queue, or read it on a thread: af.data.generator(lambda: iter(q.get, END))"
        raise ConfigError(message, hint=hint)
    # Only of asyncio's own it is known that it does not wait.
    now = getattr(source, "get_nowait", None) if isinstance(source, asyncio.Queue) else None
    return QueueSource(f"queue {type(source).__name__}", get, now, end)


def _is_async(get: Any) -> bool:
    """Tells of a function, or an object that can be called, that it gives a coroutine."""
    return iscoroutinefunction(get) or iscoroutinefunction(getattr(get, "__call__", None))  # noqa: B004


def _is_handle(value: Any) -> bool:
    return isinstance(getattr(value, "definition", None), QueueDef)


def _of_session(session: Any, handle: Any) -> Get:
    """Returns what asks the actor of a queue for its next element."""
    if not _is_handle(handle):
        message = f"queue takes a session and a queue of its graph, got {handle!r:.80}"
        raise ConfigError(message)
    if not hasattr(type(session), "resources") or not hasattr(session, "graph"):
        message = f"queue takes an open session before its queue, got {session!r:.80}"
        raise ConfigError(message, hint="af.data.queue(session, queue)")
    if session.graph is not handle.graph:
        message = f"queue {handle.name!r} belongs to another graph than this session's"
        where = Where(defined_at=handle.definition.defined_at)
        raise GraphError(message, where=where, hint="open a session on its graph")
    name, names, single = handle.name, handle.names, len(handle.components) == 1

    async def get() -> Any:
        try:
            # Its actor is asked, without a step.
            value = await session.resources.call(name, Dequeue())
        except ActorDied as error:
            # The session was left while this waited: the actor's death alone would not say that.
            if session.is_open:
                raise
            message = f"the session was closed while its queue {name!r} was read"
            raise SessionClosed(message, hint="leave the stream before the session") from error
        return value if names is None else dict(zip(names, (value,) if single else value, strict=True))

    return get


class QueueReader:
    """One pass over a queue: what is there when the first element has come, up to the number asked for."""

    __slots__ = ("_at", "_ended", "_epoch", "_error", "_source")

    def __init__(self, source: QueueSource, epoch: int) -> None:
        self._source = source
        self._epoch = epoch
        self._at = 0
        self._ended = False
        self._error: InputError | None = None

    def read(self, n: int) -> Awaitable[list[Any]]:
        """Returns an awaitable of at least one element, [] at the end."""
        return self._next(n)

    async def _next(self, n: int) -> list[Any]:
        if self._error is not None:
            raise self._error
        if self._ended:
            return []
        values: list[Any] = []
        source = self._source
        try:
            while len(values) < n:
                # The first is waited for; then what is there at once.
                if not values:
                    value = await self._await()
                elif source.get_now is None:
                    break
                else:
                    value = source.get_now()  # does not wait, so a cancelled read loses nothing
                # It alone, not one equal to it.
                if value is source.end:
                    self._ended = True
                    break
                values.append(value)
        except asyncio.QueueEmpty:
            pass  # the rest comes later
        except _ENDS as cause:
            self._ended = True
            # Another epoch of a queue that has ended would be empty for ever.
            if self._epoch and not self._at and not values:
                message = f"{source.name}: expected elements for another epoch, got a queue that has ended"
                self._error = InputError(
                    message, hint="leave repeat() out, or end epochs by a value: queue(q, end=...)"
                )
                raise self._error from cause
        self._at += len(values)
        return values

    async def _await(self) -> Any:
        try:
            return await self._source.get()
        except _ENDS:
            raise
        except InputError as error:  # of what filled it, which says more
            self._error = error
            raise
        except FAILURES as cause:
            if is_cancellation(cause):
                raise
            hint = cause.hint if isinstance(cause, ActorflowError) else None
            message = f"{self._source.name}: element {self._at} raised {describe(cause)}"
            self._error = InputError(message, hint=hint)
            raise self._error from cause

    def close(self) -> None:
        """Takes nothing more; what is in the queue stays there."""
        self._ended = True
