"""The tuning of backup workers: how many of n to wait for, and how long, for most contributions a second.

    rate(m, p) = sum of contributions / sum of seconds, over all measured rounds that end by the rule of m, p
    the rule: a round ends with the m-th contribution, or with k < m of them at
              usual(m) * (1 + p * (1 - k / m)), and as many times later as its first one is later than usual

`usual(m)` is the median of when the m-th of n is there. It says how long a round takes, and no more: what a
choice is worth is decided by sums, so that a stall counts as long as it lasts, however rare it is. Beyond the
usual time each second costs what workers would have computed meanwhile, m / usual(m); the rule waits until
that is p times as much as the m - k that are missing are worth. With a patience p of 1 a stall costs twice
what it must, at most, whether it lasts ten times as long as a round or a thousand times, and whether one had
been seen before or not; p is more where the stalls that were seen are short enough to be worth the wait.

What a larger n costs the shards is not in it: n is given.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import hypot, inf, sqrt
from statistics import median

FEWEST = 5
"""Rounds below which a median says little."""

CHANGED = 1.5
"""By how much rounds are slower or faster than they were chosen for when it is time to measure again."""

FIRST = 10
"""How many times as long as it took half or more of the workers the others are waited for at first."""

PATIENCES = (1, 2, 4)
"""How many times their worth missing contributions may be waited for."""


@dataclass(frozen=True, slots=True)
class Choice:
    """How many to wait for.

    Attributes:
        m: So many.
        usual_s: When the m-th is there, in the median.
        rate: Contributions a second that it was chosen for.
        first_s: When the first is there, in the median; where it is later, so are all others.
        patience: How many times their worth those that are missing are waited for.
        error: By what part of the rate rounds as these may be wrong about it.
    """

    m: int
    usual_s: float
    rate: float
    first_s: float = inf
    patience: int = 1
    error: float = 0.0


def choose(rounds: Sequence[Sequence[float]], n: int) -> Choice:
    """Returns the best m of n; n without a limit when too few rounds were measured.

    Args:
        rounds: Seconds that contributions took, for each round those that were seen. What a round does not
            show came later than it ended, or never.
        n: Workers. Of two m that are equally good the larger, which uses more data, is chosen.
    """
    seen = [sorted(took) for took in rounds if took]
    if len(seen) < FEWEST:
        return Choice(n, inf, 0.0)
    usual = [median(took[m - 1] if len(took) >= m else inf for took in seen) for m in range(1, n + 1)]
    choices = []
    for m, at in enumerate(usual, 1):
        if at < inf:
            for patience in PATIENCES:
                choice = Choice(m, at, 0.0, usual[0], patience)
                choices.append(replace(choice, rate=rate(seen, choice)))
    if not choices:
        return Choice(n, inf, 0.0)
    best = max(choices, key=lambda choice: (choice.rate, choice.m, -choice.patience))
    return replace(best, error=error(seen, best))


def rate(rounds: Sequence[Sequence[float]], choice: Choice) -> float:
    """Returns contributions a second over rounds of ascending times that end by a choice."""
    count, seconds = 0, 0.0
    for took in rounds:
        k, ended = end_of(took, choice, choice.m)
        count, seconds = count + k, seconds + ended
    return count / seconds if seconds > 0 else inf


def error(rounds: Sequence[Sequence[float]], choice: Choice) -> float:
    """Returns the standard error of `rate`, as a part of it: stalls that are rare and long make it large.

    Source: the ratio estimator of Cochran, Sampling Techniques (1977), section 6.3.
    """
    ends = [end_of(took, choice, choice.m) for took in rounds]
    seconds = sum(ended for _, ended in ends)
    if not 0 < seconds < inf:
        return 0.0
    each_s = seconds / sum(k for k, _ in ends)
    return sqrt(sum((ended - each_s * k) ** 2 for k, ended in ends)) / seconds


def end_of(duration_s: Sequence[float], choice: Choice, wanted: int) -> tuple[int, float]:
    """Returns with how many contributions a round ends, and when.

    Args:
        duration_s: When each of them is there, ascending.
        choice: What was chosen.
        wanted: How many are waited for: m of the choice, or more while that is measured.
    """
    for k, at in enumerate(duration_s):
        limit = limit_s(k, duration_s[0], choice, wanted)
        if k and at > limit:
            return k, max(limit, duration_s[k - 1])
        if k + 1 >= wanted:
            return k + 1, at
    k = len(duration_s)
    return k, max(limit_s(k, duration_s[0], choice, wanted), duration_s[-1])


def limit_s(k: int, first_s: float, choice: Choice, wanted: int) -> float:
    """Returns after how many seconds a round ends that has k contributions of those that are wanted.

    Args:
        k: How many it has.
        first_s: When the first of them was there: where all are slower, a round takes longer.
        choice: What was chosen.
        wanted: How many are waited for.
    """
    if choice.usual_s == inf:
        return inf
    slower = max(1.0, first_s / choice.first_s) if choice.first_s > 0 else 1.0
    return choice.usual_s * slower * (1 + choice.patience * max(0, wanted - k) / choice.m)


def first_limit_s(k: int, last_s: float, wanted: int) -> float:
    """Returns after how many seconds a round ends before anything was chosen.

    Args:
        k: How many contributions it has.
        last_s: When the last of these was there.
        wanted: How many are waited for.
    """
    return FIRST * last_s if 2 * k >= wanted else inf


def first_end_of(took: Sequence[float], wanted: int) -> tuple[int, float]:
    """Returns with how many contributions such a round ends, and when; as `end_of`."""
    for k in range(1, wanted):
        limit = first_limit_s(k, took[k - 1], wanted)
        if took[k] > limit:
            return k, limit
    return wanted, took[wanted - 1]


def has_changed(rounds: Sequence[Sequence[float]], choice: Choice) -> bool:
    """Tells whether rounds that ended by a choice are slower or faster than it was chosen for.

    What so few rounds may be wrong by is no change: after a long stall each other window would look faster.
    """
    if len(rounds) < FEWEST or not 0 < choice.rate < inf:
        return False
    seen = [sorted(took) for took in rounds if took]
    now = rate(seen, choice)
    if choice.rate / CHANGED <= now <= choice.rate * CHANGED:
        return False
    least = CHANGED * (1 + 2 * hypot(error(seen, choice), choice.error))
    return not choice.rate / least <= now <= choice.rate * least
