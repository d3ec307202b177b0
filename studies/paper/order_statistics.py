"""When the m-th of n workers is ready, computed from how long one takes: no chance, no simulation.

The m-th of n independent times is at most t when at least m of them are, which a binomial tail tells.
"""

from __future__ import annotations

import math
from collections.abc import Callable

_HALVINGS = 60


def at_least(m: int, n: int, p: float) -> float:
    """Returns how likely at least m of n come, each by itself with probability p."""
    return math.fsum(math.comb(n, k) * p**k * (1.0 - p) ** (n - k) for k in range(m, n + 1))


def quantile(below: Callable[[float], float], m: int, n: int, q: float = 0.5) -> float:
    """Returns the time by which the m-th of n is ready with probability q.

    Args:
        below: The distribution function of one of them.
        m: Which, from 1 to n.
        n: How many.
        q: Between 0 and 1, both excluded; 0.5 is the median.
    """
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):  # the probability that one is ready, where the m-th of n is with q
        middle = (low + high) / 2
        low, high = (middle, high) if at_least(m, n, middle) < q else (low, middle)
    return _inverse(below, high)


def _inverse(below: Callable[[float], float], p: float) -> float:
    low, high = -1.0, 1.0
    while below(high) < p:
        high *= 2
    while below(low) >= p:
        low *= 2
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if below(middle) < p else (low, middle)
    return high


def errors_off(chance: float, draws: int) -> float:
    """Returns by how many standard errors the median of so many draws is off.

    Args:
        chance: The distribution function at that median; of the true one it is 0.5.
        draws: How many.
    """
    return (chance - 0.5) / (0.5 / math.sqrt(draws))
