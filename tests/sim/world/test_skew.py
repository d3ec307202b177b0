from __future__ import annotations

import math
from typing import Any

import pytest

from actorflow.errors import ConfigError
from actorflow.sim.engine.faults import FaultCounts
from actorflow.sim.world.skew import SkewedClock


class Hand:
    """The true time, set by hand."""

    def __init__(self) -> None:
        self.at = 0.0

    def time(self) -> float:
        return self.at


def clock() -> tuple[SkewedClock, Any, FaultCounts]:
    hand: Any = Hand()
    tally = FaultCounts()
    return SkewedClock(hand, tally), hand, tally


def test_a_right_clock_shows_the_true_time_and_harms_nobody() -> None:
    skewed, hand, tally = clock()

    hand.at = 7.0

    assert skewed.now() == 7.0
    assert not tally.fired["skew"]


def test_a_wrong_clock_jumps_ahead_and_goes_on_at_its_rate_from_there() -> None:
    skewed, hand, tally = clock()
    hand.at = 10.0

    skewed.set(100.0, 0.5)
    at_once = skewed.now()
    hand.at = 14.0
    later = skewed.now()
    skewed.set(0.0, 2.0)
    hand.at = 15.0
    faster = skewed.now()

    assert (at_once, later, faster) == (110.0, 112.0, 114.0)
    assert tally.fired["skew"] == 3


@pytest.mark.parametrize(
    ("ahead_s", "rate"), [(-1.0, 1.0), (0.0, 0.0), (0.0, -1.0), (math.inf, 1.0), (0.0, math.nan)]
)
def test_a_clock_never_goes_back_or_stands_still(ahead_s: float, rate: float) -> None:
    skewed, _, _ = clock()

    with pytest.raises(ConfigError, match="a clock goes on and never back"):
        skewed.set(ahead_s, rate)
