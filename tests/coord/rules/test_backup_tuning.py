from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import inf
from typing import cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actorflow.coord.rules import policy as policies
from actorflow.coord.rules.backup_tuning import (
    FEWEST,
    PATIENCES,
    Choice,
    choose,
    end_of,
    has_changed,
    limit_s,
    rate,
)
from actorflow.coord.rules.policy import Backup, Policy, Round
from actorflow.coord.rules.policy_checks import successor


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
    assert choose(stalls(rounds, 53, seed), 53).m in (49, 50, 51)


def test_of_many_rounds_it_is_about_50() -> None:
    assert choose(stalls(4000, 53, 0), 53).m in (49, 50, 51)


@given(rounds=st.lists(st.lists(st.floats(0.1, 10.0), min_size=4, max_size=4), min_size=FEWEST, max_size=30))
def test_no_other_m_makes_more_of_the_workers(rounds: list[list[float]]) -> None:
    chosen = choose(rounds, 4)

    ascending = [sorted(took) for took in rounds]
    usual = {m: float(np.median([took[m - 1] for took in ascending])) for m in range(1, 5)}
    rates = {
        (m, patience): rate(ascending, Choice(m, usual[m], 0.0, usual[1], patience))
        for m in usual
        for patience in PATIENCES
    }
    assert rates[chosen.m, chosen.patience] == pytest.approx(chosen.rate)
    assert chosen.rate == pytest.approx(max(rates.values()))


@given(rounds=st.lists(st.permutations([1.0, 2.0, 3.0]), min_size=FEWEST, max_size=9))
def test_who_came_when_does_not_matter_only_when_somebody_came(rounds: list[list[float]]) -> None:
    assert choose(rounds, 3) == choose([sorted(took) for took in rounds], 3)


def test_of_equals_the_larger_is_chosen() -> None:
    assert choose([[1.0, 2.0, 3.0]] * FEWEST, 3).m == 3


@pytest.mark.parametrize(
    "rounds",
    [[], [[1.0, 1.0, 50.0]] * (FEWEST - 1)],
    ids=["nothing", "too few"],
)
def test_with_too_few_measurements_it_stays_at_all(rounds: list[list[float]]) -> None:
    assert choose(rounds, 3) == Choice(3, inf, 0.0)


def test_workers_that_take_no_time_are_all_waited_for() -> None:
    assert choose([[0.0, 0.0]] * FEWEST, 2).m == 2


def test_what_was_not_seen_came_later() -> None:
    assert choose([[1.0, 1.0]] * 9, 3).m == 2


def test_a_stall_counts_as_long_as_it_lasts_and_ends_a_round_that_waits_for_it() -> None:
    """The third of four is there at 1.0; the fourth as well, but for rounds in which it takes 1,000."""
    took, four = [1.0, 1.0, 1.0], Choice(4, 1.0, 4.0, 1.0)

    assert end_of([*took, 1000.0], four, 4) == (3, 1.25)
    assert end_of([*took, 1.2], four, 4) == (4, 1.2)
    assert end_of([3.0, 3.1, 3.1, 900.0], four, 4) == (3, 3.75), "where all are slower, a round takes longer"
    assert limit_s(2, 1.0, four, 4) == 1.5


# -- the law: never much less than the best m that is fixed ------------------------------------------------

BEFORE, UPDATES = 20, 200
"""So many updates Backup("auto") measures first; over so many after these its rate is compared."""


def share_of_the_best(times: np.ndarray) -> float:
    """Returns contributions a second over those of the best fixed m, which is told afterwards."""
    n = times.shape[1]
    policy: Policy = Backup("auto", n)
    made = seconds = 0.0
    for version, row in enumerate(times, 1):
        took = tuple(sorted(map(float, row)))
        count, ended = cast("Backup", policy).ends(took)
        if version > BEFORE:
            made, seconds = made + count, seconds + ended
        done = Round(version, tuple(t for t in took if t <= ended), n)
        policy = successor(policy, done, n)
    later = np.sort(times[BEFORE:], axis=1)
    best = max((m + 1) * UPDATES / float(later[:, m].sum()) for m in range(n))
    return made / seconds / best


def drawn(n: int, jitter: float, often: float, stall_s: float, fixed: bool, seed: int) -> np.ndarray:
    """Returns when each of n workers is done in each round: a body of about 1 s, and stalls."""
    chance, shape = np.random.default_rng(seed), (BEFORE + UPDATES, n)
    long = np.full(shape, stall_s) if fixed else stall_s * chance.exponential(1.0, shape)
    return np.exp(chance.normal(0.0, jitter, shape)) + np.where(chance.random(shape) < often, long, 0.0)


MIXTURES = {
    "n": st.integers(1, 12),
    "jitter": st.sampled_from([0.0, 0.01, 0.1, 0.2]),
    "often": st.sampled_from([0.0, 0.001, 0.01, 0.02, 0.05, 0.1]),
    "stall_s": st.sampled_from([0.5, 1.0, 3.0, 10.0, 100.0, 1000.0]),
    "fixed": st.booleans(),
    "seed": st.integers(0, 2**32),
}


@settings(max_examples=40)
@given(**MIXTURES)
def test_it_is_never_under_the_best_fixed_m_by_a_tenth(
    n: int, jitter: float, often: float, stall_s: float, fixed: bool, seed: int
) -> None:
    assert share_of_the_best(drawn(n, jitter, often, stall_s, fixed, seed)) >= 1 / 1.1


@settings(max_examples=8)
@given(**{**MIXTURES, "often": st.sampled_from([0.2, 0.4, 0.6])})
def test_where_every_second_round_is_a_stall_it_holds_in_the_mean_by_a_fifth(
    n: int, jitter: float, often: float, stall_s: float, fixed: bool, seed: int
) -> None:
    """In one run the 20 rounds that are measured may tell two m apart by luck alone."""
    shares = [share_of_the_best(drawn(n, jitter, often, stall_s, fixed, seed + k)) for k in range(10)]

    assert sum(shares) / len(shares) >= 1 / 1.2


def test_stalls_that_are_worth_the_wait_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    times = drawn(3, 0.01, 0.2, 0.5, True, 2290904715)

    assert share_of_the_best(times) >= 1 / 1.1
    monkeypatch.setattr("actorflow.coord.rules.backup_tuning.PATIENCES", (1,))
    assert share_of_the_best(times) < 1 / 1.1, "the law finds a rule without patience"


def test_a_long_stall_more_or_less_is_no_change() -> None:
    """Of two windows of the same cluster one has a stall and the other has none."""
    stalled: list[list[float]] = [*([[1.0, 1.0]] * 19), [10.0, 10.0]]
    chosen = choose(stalled, 2)

    assert not has_changed([[1.0, 1.0]] * 20, replace(chosen, rate=chosen.rate * 0.99))
    assert not has_changed(stalled, chosen)
    assert has_changed([[1.0, 1.0]] * 20, replace(chosen, error=0.0, rate=chosen.rate * 0.9)), (
        "a planted fault"
    )
    assert has_changed([[9.0, 9.0]] * 20, choose([[1.0, 1.0]] * 20, 2))


def test_before_anything_is_chosen_a_stall_is_waited_for_ten_times_as_long_as_half_of_them_took() -> None:
    auto = Backup("auto", 4)

    assert auto.ends((1.0, 1.0, 1.1, 60.0)) == (3, 11.0)
    assert auto.ends((1.0, 1.0, 60.0, 60.0)) == (2, 10.0)
    assert auto.ends((1.0, 1.0, 1.1, 9.0)) == (4, 9.0)
    assert auto.ends((1.0, 20.0, 21.0, 22.0)) == (4, 22.0), "one alone says nothing of the others"
    assert Backup("auto", 1).ends((60.0,)) == (1, 60.0)


def by_the_median(rounds: list[tuple[float, ...]], n: int) -> Choice:
    """The m that makes the most of the median time, in which a rare stall does not count; no limit."""
    times = np.sort([took for took in rounds if len(took) == n], axis=1)
    m = max(range(1, n + 1), key=lambda m: (m / float(np.median(times[:, m - 1])), m))
    return Choice(m, inf, 0.0)


def without_a_limit(rounds: list[tuple[float, ...]], n: int) -> Choice:
    return Choice(choose(rounds, n).m, inf, 0.0)


@pytest.mark.parametrize(("planted", "often"), [(by_the_median, 0.05), (without_a_limit, 0.001)])
def test_the_law_finds_a_planted_fault(
    planted: Callable[..., Choice], often: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(policies, "choose", planted)

    shares = [share_of_the_best(drawn(4, 0.01, often, 100.0, True, seed)) for seed in range(10)]

    assert min(shares) < 1 / 1.1


def test_it_measures_again_when_the_cluster_changes() -> None:
    policy: Policy = Backup("auto", 4, measure=5, keep=1000)
    told: list[tuple[int, bool]] = []

    def played(took: tuple[float, ...], rounds: int, alive: int) -> None:
        nonlocal policy
        for _ in range(rounds):
            backup = cast("Backup", policy)
            _, ended = backup.ends(took)
            policy = successor(policy, Round(1, tuple(t for t in took if t <= ended), alive), 4)
        told.append((cast("Backup", policy).chosen or 0, cast("Backup", policy).left > 0))

    played((1.0, 1.0, 1.0, 5.0), 10, 4)
    played((1.0, 1.0, 1.0), 10, 3)  # the slow one has left
    played((1.0, 1.0, 1.0, 1.0), 10, 4)  # another has come
    played((3.0, 3.0, 3.0, 3.1), 20, 4)  # all are slower

    assert told == [(3, True), (3, True), (4, True), (4, True)]
    assert cast("Backup", policy).choice == Choice(4, 3.1, 4 / 3.1, 3.0)
