"""Runs a main coroutine on the fastest event loop at hand."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    """Returns uvloop's loop where it is installed, asyncio's own elsewhere."""
    try:
        import uvloop
    except ImportError:  # Windows has none
        return asyncio.new_event_loop
    return uvloop.new_event_loop


def run(main: Coroutine[Any, Any, T], *, debug: bool | None = None) -> T:
    """Runs `main` to its end on a new loop and returns its result; cancels what is left.

    Ctrl-C cancels `main` and raises KeyboardInterrupt once it has cleaned up.
    """
    try:
        with asyncio.Runner(debug=debug, loop_factory=loop_factory()) as runner:
            return runner.run(main)
    finally:
        main.close()  # where Ctrl-C came before it began, of which Python would warn
