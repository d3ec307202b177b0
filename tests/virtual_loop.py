"""An event loop whose time jumps to the next timer when there is nothing else to do.

Tests that wait for seconds take none, and a program that waits for nothing fails at once, where
a real loop would hang. Sockets work, but a loop that waits for one alone counts as hung.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

pause = asyncio.sleep  # what the world outside the library may do


class Hung(AssertionError):
    """Nothing is ready and no timer is set: the program would wait for ever."""


class _Jump(selectors.DefaultSelector):
    """Never blocks: what it would have waited is added to `now`."""

    now = 0.0
    hung = False

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready and timeout is None and not self.hung:
            self.hung = True
            raise Hung("nothing is ready, and no timer is set")
        if not ready and timeout:
            self.now += timeout
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """asyncio's own loop, in virtual time; `now` makes it a `clock.Clock`."""

    def __init__(self) -> None:
        self._jump = _Jump()
        super().__init__(self._jump)

    def time(self) -> float:
        return self._jump.now

    now = time


def run(main: Coroutine[Any, Any, T]) -> T:
    """Runs `main` in virtual time."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)
