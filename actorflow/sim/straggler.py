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

from actorflow.clock import Entropy


@dataclass(frozen=True, slots=True)
class Straggler:
    """Seconds to add to a piece of work.

    Attributes:
        jitter_s: Standard deviation of the body.
        p: How often a stall comes.
        stall_s: Its mean.
    """

    jitter_s: float = 0.0134
    p: float = 0.08
    stall_s: float = 16 * 0.0134

    def extra_s(self, chance: Entropy) -> tuple[float, bool]:
        """Draws seconds, which may be below 0 for the body, and whether a stall is among them."""
        body = self.jitter_s * math.sqrt(-2.0 * math.log(1.0 - chance.uniform()))
        body *= math.cos(2.0 * math.pi * chance.uniform())
        if chance.uniform() >= self.p:
            return body, False
        return body - self.stall_s * math.log(1.0 - chance.uniform()), True
