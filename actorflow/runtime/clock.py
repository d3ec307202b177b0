"""Time and chance, handed to whoever needs them.

Nothing else in actorflow reads a clock or tosses a coin: a simulation that hands in its own
clock and entropy decides every run.
"""

from __future__ import annotations

import random
import time
from typing import Protocol


class Clock(Protocol):
    """Gives the time."""

    def now(self) -> float:
        """Returns seconds since an arbitrary start; never goes back."""
        ...


class SystemClock:
    """The machine's monotonic clock."""

    __slots__ = ()

    now = staticmethod(time.perf_counter)


def epoch_ms() -> int:
    """Returns milliseconds since the epoch; may go back, as clocks of machines do."""
    return time.time_ns() // 1_000_000


class Entropy:
    """A seeded source of chance: ids, jitter, shuffles."""

    __slots__ = ("_random", "seed")

    def __init__(self, seed: int | None = None) -> None:
        """Draws from `seed`, or from the operating system when there is none."""
        # Remembered though it was drawn: who prints it can run the same again.
        self.seed = random.SystemRandom().getrandbits(63) if seed is None else seed
        self._random = random.Random(self.seed)

    def uniform(self) -> float:
        """Returns a number in [0, 1)."""
        return self._random.random()

    def below(self, n: int) -> int:
        """Returns an integer in [0, n)."""
        return self._random.randrange(n)

    def name(self, bits: int = 64) -> str:
        """Returns a fresh random name, in hexadecimal."""
        return f"{self._random.getrandbits(bits):0{bits // 4}x}"
