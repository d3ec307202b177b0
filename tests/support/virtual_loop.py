"""An event loop whose time jumps to the next timer when there is nothing else to do.

It is asyncio's own loop otherwise: what the simulated loop is compared with. Tests that only want
virtual time run in the simulator.
"""

from __future__ import annotations

import asyncio
import selectors


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
