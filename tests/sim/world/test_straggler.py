from __future__ import annotations

import math
from statistics import fmean, pstdev

import pytest

from actorflow import sim
from actorflow.errors import ConfigError
from actorflow.runtime.clock import Entropy
from actorflow.sim.world.straggler import Straggler

DRAWS = 40_000


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"p": 7.0}, "p is a number between 0 and 1, got 7"),
        ({"p": math.nan}, "p is a number between 0 and 1, got nan"),
        ({"jitter_s": -1.0}, "jitter_s is a finite number of at least 0, got -1"),
        ({"stall_s": math.inf}, "stall_s is a finite number of at least 0, got inf"),
    ],
)
def test_what_is_no_chance_or_time_is_refused(given: dict[str, float], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        Straggler(**given)


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


KINDS = {
    "as fitted": Straggler(),
    "body alone": Straggler(p=0.0),
    "exponential": Straggler(jitter_s=0.0, p=1.0, stall_s=0.2),
    "pareto": Straggler(jitter_s=0.0, p=1.0, stall_s=0.2, shape=2.5),
    "pareto now and then": Straggler(jitter_s=0.02, p=0.3, stall_s=0.2, shape=1.5),
}


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_draws_fall_below_a_value_as_often_as_the_distribution_says(kind: Straggler) -> None:
    chance, draws = Entropy(11), 4_000
    drawn = [kind.extra_s(chance)[0] for _ in range(draws)]

    for value in (-0.02, 0.0, 0.01, 0.05, 0.2, 0.7):
        p = kind.below(value)
        error = math.sqrt(max(p * (1 - p), 1e-9) / draws)
        assert within(sum(x <= value for x in drawn) / draws, p, error), (value, p)


def test_the_distribution_has_its_closed_forms() -> None:
    assert KINDS["exponential"].below(0.2) == pytest.approx(1 - math.exp(-1))
    assert KINDS["pareto"].below(0.3) == pytest.approx(1 - 2**-2.5)
    assert KINDS["body alone"].below(0.0) == pytest.approx(0.5)
    assert Straggler().below(10.0) == pytest.approx(1.0, abs=1e-9)
    # A normal and an exponential stall: the exponentially modified normal distribution.
    sigma, mean, x = 0.0134, 0.2144, 0.1
    body = 0.5 * math.erfc(-x / sigma / math.sqrt(2))
    tail = 0.5 * math.erfc(-(x / sigma - sigma / mean) / math.sqrt(2))
    stalled = body - math.exp(sigma**2 / (2 * mean**2) - x / mean) * tail
    assert Straggler().below(x) == pytest.approx(0.92 * body + 0.08 * stalled, abs=1e-6)


def test_a_pareto_tail_without_a_mean_is_refused() -> None:
    with pytest.raises(ConfigError, match="shape"):
        Straggler(shape=1.0)


@pytest.mark.parametrize("p", [0.0, 1.0])
def test_work_that_only_jitters_is_no_harm_that_has_to_fire(p: float) -> None:
    @sim.world("a")
    async def works(world: sim.World) -> float:
        world.straggle("a", sim.Straggler(jitter_s=0.001, p=p, stall_s=5.0))
        await world["a"].work(0.1)
        assert world.fault_counts.requested["straggle"] == p
        return world.loop.time()

    took_s = works()

    assert took_s != 0.1
    assert (took_s < 0.2) == (p == 0.0)
