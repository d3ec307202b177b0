"""A function of the user's applied to elements, one after the other: the one loop of all maps.

What a function sets in its context (context variables, numpy's error state, decimal precision) is seen by no
other.
"""

from __future__ import annotations

import types
from collections.abc import Awaitable, Callable, Generator, Iterable
from contextvars import Context, copy_context
from types import CoroutineType
from typing import Any

from actorflow.actors.scheduling.contexts import Contexts
from actorflow.errors import InputError


class Own:
    """The contexts in which one function is called: copies of that in which it is first called.

    Attributes:
        apart: Whether each element gets one of its own: until a chunk of them has changed nothing.
    """

    __slots__ = ("_contexts", "_seen", "apart")

    def __init__(self) -> None:
        self._contexts: Contexts | None = None
        self._seen = False
        self.apart = True

    def fresh(self) -> Context:
        """Returns a context in which nothing of any call is left."""
        if self._contexts is None:
            self._contexts = Contexts(copy_context())
        return self._contexts.fresh()

    def after(self, context: Context, unchanged: Any) -> tuple[Context, Any]:
        """Returns a context for the next call, and what it equals: the same one where nothing was changed."""
        if context == unchanged:
            return context, unchanged
        fresh = self.fresh()
        return fresh, self.equal(fresh)

    def equal(self, context: Context) -> Any:
        """Returns what a fresh context equals until somebody changes it."""
        assert self._contexts is not None
        return self._contexts.unchanged(context)

    def call(self, function: Callable[..., Any], *args: Any) -> Any:
        """Calls a function in a context of its own."""
        return self.fresh().run(function, *args)

    def extend(self, results: list[Any], function: Callable[..., Any], inputs: list[Iterable[Any]]) -> None:
        """Appends to `results` what the function makes of each of its inputs."""
        context = self.fresh()
        unchanged = self.equal(context)
        # A context for each element would cost cheap functions several times what they take. So the elements
        # of one chunk get one each; if none of them has changed its own, those of a chunk share one from then
        # on. When it has been changed, each gets its own again, for good.
        if not self.apart:
            try:
                context.run(results.extend, map(function, *inputs))
            finally:
                if context != unchanged:
                    self.apart = self._seen = True
            return
        changed = self._seen
        try:
            for arguments in zip(*inputs, strict=False):
                results.append(context.run(function, *arguments))
                if context != unchanged:
                    changed = True
                    context = self.fresh()
        except BaseException:
            changed = True  # it may have changed what nobody has looked at
            raise
        finally:
            self._seen = changed
            self.apart = changed


def apply_to_each(
    function: Callable[..., Any],
    results: list[Any],
    values: list[Any],
    chance: Iterable[Any] | None = None,
    own: Own | None = None,
) -> None:
    """Appends to `results` what the function makes of each value; what was made before a failure stays.

    Args:
        function: Of a value, and of its chance if there is any.
        results: Empty.
        values: The elements.
        chance: What the function is given as well, for each.
        own: The contexts of the function; by default those of this call alone.

    Raises:
        Whatever the function raises, StopIteration included: to `map` that is the end of what it reads, so
        it comes out as a short result here. What the exception held is lost then. Cost: 30 ns an element.
        InputError: it returned a coroutine.
    """
    (own or Own()).extend(results, function, [values] if chance is None else [values, chance])
    # A set of types: 30 ns an element to see that no coroutine is among them.
    if CoroutineType in set(map(type, results)):
        at = next(i for i, result in enumerate(results) if type(result) is CoroutineType)
        first, *others = results[at:]
        del results[at:]
        # Nobody would await them: closed, or Python says so for each.
        for other in others:
            if type(other) is CoroutineType:
                other.close()
        check_is_value(first)
    # To `extend` a StopIteration of the function is the end of its input: a short result.
    if len(results) < len(values):
        raise StopIteration


def check_is_value(result: Any) -> None:
    """Raises InputError for a coroutine, which nobody would await, where a function is to give a value."""
    if type(result) is CoroutineType:
        result.close()  # or Python says that it was never awaited
        message = f"expected a value, got the coroutine {result.__qualname__!r}"
        raise InputError(message, hint="await in a source: af.data.generator takes async generators")


@types.coroutine
def within(context: Context, awaitable: Awaitable[Any]) -> Generator[Any, Any, Any]:
    """Awaits something in a context, whatever that of the task is."""
    # Step by step in that context, since a task has its own.
    steps: Any = context.run(awaitable.__await__)
    step, given = steps.send, None
    while True:
        try:
            waits = context.run(step, given)
        except StopIteration as stop:
            return stop.value
        try:
            # The task waits, as if the awaitable ran in it by itself.
            step, given = steps.send, (yield waits)
        except GeneratorExit:
            context.run(steps.close)
            raise
        except BaseException as error:  # noqa: BLE001  what is awaited is to see it
            step, given = steps.throw, error
