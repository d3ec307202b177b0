"""Elements of a function of the user's: whatever iterable it returns, anew each epoch."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextvars import Context
from dataclasses import dataclass, field
from inspect import isasyncgenfunction, iscoroutine
from itertools import islice
from typing import Any, cast

from actorflow.data.values.apply import Own, within
from actorflow.data.values.arguments import name_of_function
from actorflow.errors import ActorflowError, ConfigError, InputError, describe
from actorflow.runtime.cancellation import FAILURES, is_cancellation

Made = Iterable[Any] | AsyncIterable[Any]

_ANEW = "return a new one at each call, as a generator function or `lambda: iter(values)` does"


@dataclass(slots=True)
class _GivenBefore:
    """The last iterator that a function gave, if it was one that can be read once."""

    last: object = None


@dataclass(frozen=True, slots=True)
class GeneratedSource:
    """A source whose every pass is a call of a function.

    Attributes:
        name: What errors and progress call it.
        function: () -> the elements of an epoch.
        blocking: Whether its elements are made on a thread.
        size: None: unknown.
        element_bytes: None: unknown.
    """

    name: str
    function: Callable[[], Made]
    blocking: bool
    size: None = None
    element_bytes: None = None
    _given: _GivenBefore = field(default_factory=_GivenBefore, compare=False, repr=False)

    def open(self, start: int, epoch: int) -> IterableReader | AsyncReader:
        """Returns a reader positioned before element number `start`: those before it are made and dropped.

        The function is called at the first read, or here if it is not to run on a thread.
        """
        # On a thread: the function may block, so it is called there.
        if self.blocking:
            return IterableReader(self, start, None)
        # In a context of its own, which nothing of whoever opened it has changed.
        context = Own().fresh()
        made = context.run(call_for_iterable, self)
        if isinstance(made, AsyncIterable):
            return AsyncReader(self, start, made, context)
        return IterableReader(self, start, made, context)


def generator(function: Any, *, blocking: bool | None = None) -> GeneratedSource:
    """Elements of the iterable, or async iterable, that `function` returns; it is called once an epoch.

    To start at a later element those before it are made and dropped.

    Args:
        function: Takes nothing; a generator function, an async one, or what returns an iterable, such as
            a class of iterables, of which each epoch makes one.
        blocking: Whether elements are made on a thread, so that the loop goes on meanwhile. None: yes,
            unless it is an async generator function, or a class of async iterables. Those need the loop.

    >>> from actorflow.data.sources.generated import generator
    >>> generator(lambda: (n * n for n in range(5)), blocking=False).open(2, 0).read(9)
    [4, 9, 16]
    """
    is_class = isinstance(function, type)
    # `list` and its like would make an empty iterable: hardly meant.
    taken = issubclass(function, Iterable | AsyncIterable) and not _is_pythons(function) if is_class else True
    if not callable(function) or not taken:
        message = f"generator takes a function that returns the elements of an epoch, got {function!r:.200}"
        raise ConfigError(message, hint=_ANEW)
    # Only those that need the loop run on it.
    on_loop = issubclass(function, AsyncIterable) if is_class else isasyncgenfunction(function)
    return GeneratedSource(_name_of(function), function, not on_loop if blocking is None else bool(blocking))


def _is_pythons(kind: type) -> bool:
    """Tells whether a class is one of Python's own, such as list, of which a call makes an empty one."""
    return kind.__module__ in ("builtins", "collections")


def _name_of(function: Any) -> str:
    """What errors call the source: by the function's own name, without those that it is defined in."""
    name = str(getattr(function, "__qualname__", None) or name_of_function(function)).rpartition("<locals>.")[
        2
    ]
    return "generator of a lambda" if name == "<lambda>" else f"generator {name!r}"


def call_for_iterable(source: GeneratedSource) -> Any:
    """Calls the function; an iterator that it has given before is refused."""
    try:
        made: Any = source.function()
    except FAILURES as cause:
        raise _input_error(source, "the call", cause) from cause
    if iscoroutine(made):
        made.close()
        message = f"{source.name}: expected an iterable, got a coroutine"
        raise InputError(message, hint="an async function that yields is an async iterable")
    if not isinstance(made, AsyncIterable):
        try:
            # What is its own iterator can be gone through once.
            once = iter(made) is made
        except TypeError:
            message = f"{source.name}: expected an iterable, got {made!r:.200}"
            raise InputError(message, hint="yield the elements, or return a list of them") from None
    elif source.blocking:
        message = f"{source.name}: expected an iterable to read on a thread, got an async one"
        raise InputError(message, hint="say blocking=False")
    else:
        once = made.__aiter__() is made
    # The same iterator as in the pass before: it has ended, or goes on where that stopped.
    if once and made is source._given.last:
        message = (
            f"{source.name}: expected new elements for this pass, got the iterator of the last one again"
        )
        raise InputError(message, hint=_ANEW)
    source._given.last = made if once else None
    return made


class IterableReader:
    """One pass over an iterable."""

    __slots__ = ("_at", "_context", "_error", "_iterator", "_source", "_start")

    def __init__(
        self,
        source: GeneratedSource,
        start: int,
        made: Iterable[Any] | None,
        context: Context | None = None,
    ) -> None:
        self._source = source
        self._start = start
        self._at = 0
        self._context = context or Own().fresh()  # of this pass
        self._iterator: Iterator[Any] | None = None if made is None else self._context.run(iter, made)
        self._error: InputError | None = None

    def read(self, n: int) -> list[Any]:
        """Returns the next `n` elements, fewer only at the end or before an error."""
        if self._error is not None:
            raise self._error
        values: list[Any] = []
        try:
            if self._iterator is None:
                made = self._context.run(call_for_iterable, self._source)
                again = cast("Iterable[Any]", made)  # made_by refuses an async one here
                self._iterator = self._context.run(iter, again)
            while self._at < self._start:
                # The reader itself as a default: no element is that.
                if self._context.run(next, self._iterator, self) is self:
                    return []
                self._at += 1
            self._context.run(values.extend, islice(self._iterator, n))  # what came before an error stays
        # Kept: a generator that has raised would end in silence when it is asked again.
        except InputError as error:
            self._error = error
        except FAILURES as cause:
            self._error = _input_error(self._source, f"element {self._at + len(values)}", cause)
            self._error.__cause__ = cause
        self._at += len(values)
        # What came before it is given first.
        if self._error is not None and not values:
            raise self._error
        return values

    def close(self) -> None:
        """Ends a generator, whose `finally` runs."""
        end = getattr(self._iterator, "close", None)
        # ORDER: nothing is read from here on, whatever its `finally` does.
        self._iterator = iter(())
        if end is not None:
            self._context.run(end)


class AsyncReader:
    """One pass over an async iterable, one element a read: nobody can tell whether the next is there."""

    __slots__ = ("_at", "_context", "_error", "_iterator", "_left", "_source")

    def __init__(
        self, source: GeneratedSource, start: int, made: AsyncIterable[Any], context: Context
    ) -> None:
        self._source = source
        self._left = start
        self._at = 0
        self._context = context  # of this pass
        self._iterator: AsyncIterator[Any] = self._context.run(made.__aiter__)
        self._error: InputError | None = None

    def read(self, n: int) -> Awaitable[list[Any]]:
        """Returns an awaitable of the next element, in a list."""
        return self._next()

    async def _next(self) -> list[Any]:
        if self._error is not None:
            raise self._error
        try:
            while True:
                # In the context of this pass: the steps of a generator may run in different tasks.
                value = await within(self._context, anext(self._iterator))
                self._at += 1
                if not self._left:
                    return [value]
                self._left -= 1
        except StopAsyncIteration:
            return []
        except FAILURES as cause:
            if is_cancellation(cause):
                raise  # this read, and not what the generator waits for
            self._error = _input_error(self._source, f"element {self._at}", cause)
            raise self._error from cause

    def close(self) -> None:
        """Is not enough for an async generator: `aclose` ends it, on the loop."""

    async def aclose(self) -> None:
        """Ends an async generator, whose `finally` runs."""
        end = getattr(self._iterator, "aclose", None)
        if end is not None:
            await within(self._context, end())


def _input_error(source: GeneratedSource, at: str, cause: BaseException) -> InputError:
    hint = cause.hint if isinstance(cause, ActorflowError) else None
    return InputError(f"{source.name}: {at} raised {describe(cause)}", hint=hint)
