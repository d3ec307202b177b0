"""Runs a main coroutine on the fastest event loop at hand."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from actorflow import dump_on_signal
from actorflow.errors import ConfigError

T = TypeVar("T")


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    """Returns uvloop's loop where it is installed, asyncio's own elsewhere."""
    try:
        import uvloop
    except ImportError:  # Windows has none
        return asyncio.new_event_loop
    return uvloop.new_event_loop


def run(
    main: Coroutine[Any, Any, T] | Callable[[], Coroutine[Any, Any, T]], *, debug: bool | None = None
) -> T:
    """Runs a main coroutine to its end on a new loop and returns its result; cancels what is left.

    Ctrl-C cancels it and raises KeyboardInterrupt once it has cleaned up.

    Args:
        main: `main` or `main()` of an `async def main()`.
        debug: Whether in asyncio's debug mode; by default as Python was started.

    Raises:
        ConfigError: it is neither, or an event loop runs on this thread, as in a notebook.
    """
    coroutine: Any = main() if callable(main) and not asyncio.iscoroutine(main) else main
    if not asyncio.iscoroutine(coroutine):
        message = f"af.run takes a coroutine or an `async def` without arguments, got {main!r}"
        if coroutine is not main:
            message += f", which returned {coroutine!r}"
        raise ConfigError(message, hint="async def main(): ...; af.run(main)")
    try:
        if asyncio._get_running_loop() is not None:
            message = "af.run makes an event loop of its own, and one runs on this thread"
            hint = (
                f"await {getattr(coroutine, '__name__', 'main')}() there, as in a notebook or in a coroutine"
            )
            raise ConfigError(message, hint=hint)
        with asyncio.Runner(debug=debug, loop_factory=loop_factory()) as runner:
            watched = _watched(coroutine)
            try:
                result: T = runner.run(watched)
                return result
            finally:
                watched.close()
    finally:
        coroutine.close()  # where Ctrl-C came before it began, of which Python would warn


async def _watched(coroutine: Coroutine[Any, Any, T]) -> T:
    """Awaits it where signals tell what it waits for: in the runner, whose own handler is there by now."""
    with dump_on_signal.installed():
        return await coroutine
