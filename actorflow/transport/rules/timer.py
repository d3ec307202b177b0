"""One timer for whatever is due first: it may come too early, never too late.

What is due mostly moves away while it is waited for: each word that is heard and each acknowledgement puts
something off. So a timer that is set is left where it is as long as it comes early enough, and whoever hears
it looks what is due then: to set and cancel one for each message would cost more than the message.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from actorflow.transport.rules.wire import Timer, Timers

_LEAST_S = 1e-3  # a timer is set for: the rounding of a shorter wait could make it fire too early for ever


class EarliestTimer:
    """The timer.

    Args:
        timers: The time of this process.
        ring: Hears that it has come, with the seconds by which it came late; no timer is set by then.
    """

    __slots__ = ("_at", "_ring", "_timer", "_timers")

    def __init__(self, timers: Timers, ring: Callable[[float], None]) -> None:
        self._timers = timers
        self._ring = ring
        self._timer: Timer | None = None
        self._at = inf

    def covers(self, due: float) -> bool:
        """Tells whether it comes early enough for what is due at a time."""
        return self._timer is not None and self._at <= due

    def set(self, due: float) -> None:
        """Sees to it that it comes by the time at which something is due; not at all when that is `inf`."""
        if due < inf and self.covers(due):
            return
        self.stop()
        if due < inf:
            self._at = due  # it is late also if it is set after that
            self._timer = self._timers.after(max(due - self._timers.now(), _LEAST_S), self._rings)

    def stop(self) -> None:
        """Lets it not come."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _rings(self) -> None:
        self._timer = None
        self._ring(self._timers.now() - self._at)

    def __repr__(self) -> str:
        state = ", not set" if self._timer is None else f" at {self._at:.3f} s"
        return f"<EarliestTimer{state}>"
