"""Runs a main coroutine on the fastest event loop at hand."""

from __future__ import annotations

import asyncio
import inspect
import signal
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from actorflow.errors import ConfigError
from actorflow.runtime import dump_on_signal

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

    Ctrl-C cancels it and raises KeyboardInterrupt once it has cleaned up. Code of the program that holds the
    event loop hears of no cancellation: it is named after a moment, and interrupted a second later.

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
        result: T = _run(coroutine, debug)
        return result
    finally:
        coroutine.close()  # where Ctrl-C came before it began, of which Python would warn


def _run(coroutine: Coroutine[Any, Any, T], debug: bool | None) -> T:
    """Runs it where signals tell what it waits for; a second Ctrl-C, which tidies nothing up, is as quiet."""
    # ORDER: before the runner puts its own handler there.
    before = signal.getsignal(signal.SIGINT)
    of_runner: list[Any] = []
    watched = _watch(coroutine, before is signal.default_int_handler, of_runner)
    tasks: set[asyncio.Task[Any]] = set()
    try:
        with asyncio.Runner(debug=debug, loop_factory=loop_factory()) as runner:
            loop = runner.get_loop()
            try:
                result: T = runner.run(watched)
            except KeyboardInterrupt:
                # The loop is closed below, and then forgets its tasks.
                tasks = asyncio.all_tasks(loop)
                raise
            return result
    except KeyboardInterrupt:
        for task in tasks:  # left where Ctrl-C has ended the tidying up as well
            task._log_destroy_pending = False  # type: ignore[attr-defined]
        raise
    finally:
        # Never begun: Python would warn of it.
        if inspect.getcoroutinestate(watched) == inspect.CORO_CREATED:
            watched.close()
        # The runner takes its handler back only where it is still on top.
        if of_runner and before is not of_runner[0] is signal.getsignal(signal.SIGINT):
            signal.signal(signal.SIGINT, before)  # the runner leaves its own where it was not on top


async def _watch(coroutine: Coroutine[Any, Any, T], ends: bool, of_runner: list[Any]) -> T:
    """Awaits it where signals tell what it waits for: in the runner, whose own handler is there by now."""
    # The runner has put its handler by now: it calls the first step of this.
    of_runner.append(signal.getsignal(signal.SIGINT))
    with dump_on_signal.install_handlers(ends=ends):
        return await coroutine
