"""How long work takes on a machine that others use too.

The median of the m-th of n workers in the backup-worker experiment of the TensorFlow paper fits a
tight body and a rare, long stall, and none of the usual one-piece distributions: with probability
0.08 a step takes an exponential stall of mean 214 ms more than its T0 + N(0, 13.4 ms).

Source: Abadi et al., "TensorFlow: A System for Large-Scale Machine Learning", OSDI 2016, section
6.3 and figure 8; fitted to its reported medians (T0 = 1.862 s).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from actorflow.runtime.clock import Entropy
from actorflow.sim.settings import check_number

_SLICES = 2_000  # of the body, for the integral over it; the error is below 1e-6
_WIDEST = 8.0  # standard deviations


@dataclass(frozen=True, slots=True)
class Straggler:
    """Seconds to add to a piece of work.

    Attributes:
        jitter_s: Standard deviation of the body.
        p: How often a stall comes, 0 to 1.
        stall_s: Its mean.
        shape: Of a stall with a Pareto tail, P(more than x) = (1 + x / s) ** -shape, which needs more than
            1 to have a mean; None for an exponential stall.
    """

    jitter_s: float = 0.0134
    p: float = 0.08
    stall_s: float = 16 * 0.0134
    shape: float | None = None

    def __post_init__(self) -> None:
        check_number("jitter_s", self.jitter_s, finite=True)
        check_number("p", self.p, 0.0, 1.0)
        check_number("stall_s", self.stall_s, finite=True)
        if self.shape is not None:
            check_number("shape", self.shape, math.nextafter(1.0, 2.0), finite=True)

    def extra_s(self, chance: Entropy) -> tuple[float, bool]:
        """Draws seconds, which may be below 0 for the body, and whether a stall is among them."""
        # Box and Muller, with 1 - u, since the logarithm of 0 has no value.
        body = self.jitter_s * math.sqrt(-2.0 * math.log(1.0 - chance.uniform()))
        body *= math.cos(2.0 * math.pi * chance.uniform())
        if chance.uniform() >= self.p:
            return body, False
        # 1 - u: never 0
        rest = 1.0 - chance.uniform()
        if self.shape is None:
            return body - self.stall_s * math.log(rest), True
        return body + self._scale_s(self.shape) * (rest ** (-1.0 / self.shape) - 1.0), True

    def below(self, extra_s: float) -> float:
        """Returns how likely `extra_s` draws at most so much: the distribution function."""
        # Without a body nothing is left to integrate over.
        if not self.jitter_s:
            return (1.0 - self.p) * (extra_s >= 0) + self.p * self._stalls_below(extra_s)
        body = 0.5 * math.erfc(-extra_s / (self.jitter_s * math.sqrt(2.0)))
        if not self.p:
            return body
        # The sum of a normal and a stall: over slices of the normal, the midpoint of each.
        width = 2 * _WIDEST / _SLICES
        stalled = 0.0
        for i in range(_SLICES):
            z = (i + 0.5) * width - _WIDEST
            stalled += math.exp(-0.5 * z * z) * self._stalls_below(extra_s - self.jitter_s * z)
        return (1.0 - self.p) * body + self.p * stalled * width / math.sqrt(2.0 * math.pi)

    def _stalls_below(self, seconds: float) -> float:
        if seconds <= 0:
            return 0.0
        if self.shape is None:
            return -math.expm1(-seconds / self.stall_s)
        return 1.0 - math.pow(1.0 + seconds / self._scale_s(self.shape), -self.shape)

    def _scale_s(self, shape: float) -> float:
        # so that the mean is `stall_s`
        return self.stall_s * (shape - 1.0)
