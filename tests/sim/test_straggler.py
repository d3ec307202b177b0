from __future__ import annotations

import math
from statistics import fmean, pstdev

import pytest

from actorflow import sim
from actorflow.clock import Entropy
from actorflow.sim.straggler import Straggler

DRAWS = 40_000


@pytest.fixture(scope="module")
def drawn() -> tuple[list[float], list[float]]:
    """Body and stalls."""
    chance = Entropy(7)
    all_drawn = [Straggler().extra_s(chance) for _ in range(DRAWS)]
    body = [extra_s for extra_s, stalled in all_drawn if not stalled]
    return body, [extra_s for extra_s, stalled in all_drawn if stalled]


def within(value: float, expected: float, error: float) -> bool:
    """Whether a mean is what it should be, give or take four standard errors."""
    return abs(value - expected) < 4 * error


def test_the_body_is_normal_around_no_delay(drawn: tuple[list[float], list[float]]) -> None:
    body, _ = drawn
    n = len(body)

    assert within(fmean(body), 0.0, 0.0134 / math.sqrt(n))
    assert within(pstdev(body), 0.0134, 0.0134 / math.sqrt(2 * n))


def test_one_in_twelve_stalls_for_an_exponential_time(drawn: tuple[list[float], list[float]]) -> None:
    _, stalls = drawn
    n, mean = len(stalls), 16 * 0.0134

    assert within(n / DRAWS, 0.08, math.sqrt(0.08 * 0.92 / DRAWS))
    assert within(fmean(stalls), mean, mean / math.sqrt(n))
    assert within(sum(s > mean for s in stalls) / n, math.exp(-1), 0.5 / math.sqrt(n))


def test_the_same_seed_straggles_alike() -> None:
    one, other = Entropy(3), Entropy(3)

    assert [Straggler().extra_s(one) for _ in range(50)] == [Straggler().extra_s(other) for _ in range(50)]


def test_a_straggler_can_be_tame_or_always_stall() -> None:
    chance = Entropy(7)

    assert Straggler(jitter_s=0.0, p=0.0).extra_s(chance) == (0.0, False)
    assert Straggler(jitter_s=0.0, p=1.0, stall_s=2.0).extra_s(chance)[1]


@pytest.mark.parametrize("p", [0.0, 1.0])
def test_work_that_only_jitters_is_no_harm_that_has_to_fire(p: float) -> None:
    @sim.world("a")
    async def works(world: sim.World) -> float:
        world.straggle("a", sim.Straggler(jitter_s=0.001, p=p, stall_s=5.0))
        await world["a"].work(0.1)
        assert world.tally.requested["straggle"] == p
        return world.loop.time()

    took_s = works()

    assert took_s != 0.1
    assert (took_s < 0.2) == (p == 0.0)
