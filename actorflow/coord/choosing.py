"""How many of n workers to wait for: the m that maximises m / median t(m).

t(m) is when the m-th of n contributions is there, an order statistic of how long workers take. Waiting for
fewer makes updates sooner, and of less; the quotient is contributions a second. What a larger n costs the
shards is not in it: n is given.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

FEWEST = 5
"""Full rounds below which a median says little."""


def choose(rounds: Sequence[Sequence[float]], n: int) -> int:
    """Returns the best m of n; n when too few rounds show all n.

    Args:
        rounds: Seconds that contributions took, for each round those that were seen. A round that does not
            show all n is left out: what it does not show took longer, nobody knows how much.
        n: Workers. Of two m that are equally good the larger, which uses more data, is chosen.
    """
    full = [sorted(took) for took in rounds if len(took) == n]
    if len(full) < FEWEST:
        return n
    return max(range(1, n + 1), key=lambda m: (_rate(m, median(took[m - 1] for took in full)), m))


def _rate(m: int, seconds: float) -> float:
    return m / seconds if seconds > 0 else float("inf")
