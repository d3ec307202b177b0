from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actorflow.coord.choosing import FEWEST, choose


def stalls(rounds: int, workers: int, seed: int) -> list[list[float]]:
    """The times of Figure 8c as they were fitted: a tight body, and with 8 % a stall of 214 ms in the mean."""
    chance = np.random.default_rng(seed)
    shape = rounds, workers
    body = 1.862 + chance.normal(0.0, 0.013, shape)
    times = body + np.where(chance.random(shape) < 0.08, chance.exponential(0.214, shape), 0.0)
    return [list(took) for took in times]


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("rounds", [20, 400])
def test_on_stalls_as_in_figure_8c_it_waits_for_50_of_53(rounds: int, seed: int) -> None:
    assert choose(stalls(rounds, 53, seed), 53) in (49, 50, 51)


def test_of_many_rounds_it_is_50() -> None:
    assert choose(stalls(4000, 53, 0), 53) == 50


@given(rounds=st.lists(st.lists(st.floats(0.1, 10.0), min_size=4, max_size=4), min_size=FEWEST, max_size=30))
def test_no_other_m_makes_more_of_the_workers(rounds: list[list[float]]) -> None:
    m = choose(rounds, 4)

    rates = {k: k / float(np.median([sorted(took)[k - 1] for took in rounds])) for k in range(1, 5)}
    assert rates[m] == pytest.approx(max(rates.values()))


@given(rounds=st.lists(st.permutations([1.0, 2.0, 3.0]), min_size=FEWEST, max_size=9))
def test_who_came_when_does_not_matter_only_when_somebody_came(rounds: list[list[float]]) -> None:
    assert choose(rounds, 3) == choose([sorted(took) for took in rounds], 3)


def test_of_equals_the_larger_is_chosen() -> None:
    assert choose([[1.0, 2.0, 3.0]] * FEWEST, 3) == 3


@pytest.mark.parametrize(
    "rounds",
    [[], [[1.0, 1.0, 50.0]] * (FEWEST - 1), [[1.0, 1.0]] * 100],
    ids=["nothing", "too few", "never all three"],
)
def test_with_too_few_measurements_it_stays_at_all(rounds: list[list[float]]) -> None:
    assert choose(rounds, 3) == 3


def test_workers_that_take_no_time_are_all_waited_for() -> None:
    assert choose([[0.0, 0.0]] * FEWEST, 2) == 2
