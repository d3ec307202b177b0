"""The clock of a simulated host: right, until it is made wrong."""

from __future__ import annotations

from actorflow.errors import ConfigError
from actorflow.sim.engine.event_loop import SimLoop
from actorflow.sim.engine.faults import FaultCounts


class SkewedClock:
    """A clock that may jump ahead and run too fast or too slow; it never goes back.

    Attributes:
        rate: Its seconds in a true second.
    """

    def __init__(self, loop: SimLoop, fault_counts: FaultCounts) -> None:
        self.rate = 1.0
        self._loop = loop
        self._fault_counts = fault_counts
        self._wrong = False
        self._since_s = 0.0  # true time at which it was set ...
        self._then_s = 0.0  # ... and what it showed then

    def now(self) -> float:
        """Returns the host's time; counts as a fault once it is wrong."""
        # Until it is wrong it costs nothing and is no fault.
        if not self._wrong:
            return self._loop.time()
        self._fault_counts.fired["skew"] += 1
        return self._reading()

    def set(self, ahead_s: float, rate: float) -> None:
        """Jumps ahead by `ahead_s` and goes on at `rate`.

        Raises:
            ConfigError: it would go back, or stand still.
        """
        if not (0 < rate < float("inf") and 0 <= ahead_s < float("inf")):
            message = f"a clock goes on and never back, got rate {rate:g} and a jump of {ahead_s:g} s"
            raise ConfigError(message, hint="a host is behind when the others jump ahead")
        # ORDER: read by the old rate before the new one holds.
        self._then_s = self._reading() + ahead_s
        self._since_s = self._loop.time()
        self.rate = rate
        self._wrong = True

    def _reading(self) -> float:
        return self._then_s + (self._loop.time() - self._since_s) * self.rate
