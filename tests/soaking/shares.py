"""Who goes next and for how many examples: the rules by which laws share the time of a soak.

Pure: a record for each law, a function for each event. The law that has had the least time goes
next. Its turn asks for as many examples as it ran in a slice's time at the rate of its last turn,
so a quick law runs many and a slow one few, and both get their share. The examples of a turn are
decided before it begins: the same seed and number repeat it exactly, which a turn that is stopped
by the clock would not.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

FIRST_EXAMPLES = 5
GROWTH = 10
MOST_EXAMPLES = 10_000


@dataclass(frozen=True, slots=True)
class Share:
    """What one law has had, over all runs.

    `turn_s` orders the laws. It is `seconds` for a law that was there from the start; `caught_up`
    raises it for one that came later.
    """

    rounds: int = 0
    examples: int = 0
    seconds: float = 0.0
    failures: int = 0
    turn_s: float = 0.0
    asked: int = 0
    rate: float = 0.0


def caught_up(shares: Mapping[str, Share], most_s: float) -> dict[str, Share]:
    """Returns the shares with nobody more than `most_s` behind the law that has had the most.

    A law written today would otherwise run alone until it had the hours of the others.
    """
    top = max((share.turn_s for share in shares.values()), default=0.0)
    return {law: replace(share, turn_s=max(share.turn_s, top - most_s)) for law, share in shares.items()}


def next_law(shares: Mapping[str, Share], resting: Collection[str]) -> str | None:
    """Returns the law with the least time that is not `resting`, by name among equals."""
    awake = [(share.turn_s, law) for law, share in shares.items() if law not in resting]
    return min(awake)[1] if awake else None


def asked(share: Share, slice_s: float) -> int:
    """Returns how many examples fill `slice_s`: few at first, then up to ten times the last turn's."""
    if not share.asked:
        return FIRST_EXAMPLES
    wanted = int(share.rate * slice_s)
    return max(1, min(wanted, GROWTH * share.asked, MOST_EXAMPLES))


def ran(share: Share, asked: int, examples: int, seconds: float, failures: int) -> Share:
    """Returns the share after a turn; after one that ran nothing the law begins with few again."""
    return replace(
        share,
        rounds=share.rounds + 1,
        examples=share.examples + examples,
        seconds=share.seconds + seconds,
        failures=share.failures + failures,
        turn_s=share.turn_s + seconds,
        asked=asked if examples else 0,
        rate=examples / seconds if examples and seconds > 0 else share.rate,
    )
