"""Backup workers against stragglers: the shape of Figure 8c, and that the simulation is right about it.

The paper says: of 50 workers, 4 backups give the shortest median step, 1.93 s; normalised by the resources
used, 3 give the most, 9.5 %; a fifth makes it slightly worse.

300 steps leave about half a per cent of chance in a median, which is as much as lies between 4 and 5
backups. So the shape is asserted of what is computed, where there is no chance, and of a simulation with a
seed where that order shows; and that both agree within sampling error for seeds that nobody chose.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from actorflow.errors import ConfigError
from studies.paper import backup
from studies.paper.order_statistics import errors_off

WORKERS = 50
BACKUPS = range(6)
FITTED = backup.fitted()
PAPER_S = [2.26, 2.10, 2.07, 1.95, 1.94, 1.97]


def gains_of(t: list[float]) -> list[float]:
    return [t[0] / t[b] * WORKERS / (WORKERS + b) - 1 for b in BACKUPS]


def test_computed_the_speed_up_peaks_with_three_backups_and_a_fifth_slows_down() -> None:
    t = [FITTED.exact_s(WORKERS, WORKERS + b) for b in BACKUPS]
    gains = gains_of(t)

    assert gains.index(max(gains)) == 3
    assert gains[3] == pytest.approx(0.095, abs=0.002)
    assert t.index(min(t)) in (3, 4)
    assert t[4] == pytest.approx(1.93, rel=0.002)
    assert t[5] > max(t[3], t[4])
    assert t == pytest.approx(PAPER_S, rel=0.05)


@pytest.mark.slow
def test_simulated_three_backups_gain_most_and_a_fifth_slows_down() -> None:
    points = [backup.timed(FITTED, WORKERS, WORKERS + b, steps=300, seed=8) for b in BACKUPS]
    t = [point.median_s for point in points]
    gains = backup.normalised(points)

    assert gains.index(max(gains)) == 3, gains
    assert gains[3] == pytest.approx(1.095, abs=0.01)
    assert t.index(min(t)) in (3, 4)
    assert t[4] == pytest.approx(1.93, rel=0.01)
    assert t[5] > t[4]
    assert points[4].p90_s < points[0].p90_s


@pytest.mark.slow
@pytest.mark.parametrize("model", [FITTED, *backup.UNFITTED], ids=lambda model: model.name)
@pytest.mark.parametrize("backups", [0, 3])
def test_a_simulated_median_is_that_of_the_order_statistic(model: backup.Model, backups: int) -> None:
    point = backup.timed(model, WORKERS, WORKERS + backups, steps=200, seed=1)

    assert abs(point.off) < 4, (point.median_s, point.exact_s)
    assert point.median_s == pytest.approx(point.exact_s, rel=0.1)


def test_a_median_of_another_distribution_is_found_out() -> None:
    point = backup.timed(FITTED, 5, 6, steps=200)
    other = replace(FITTED, straggler=replace(FITTED.straggler, p=0.24))

    off = errors_off(other.below(5, 6, point.median_s), 200)

    assert abs(off) > 4


def test_the_same_seed_takes_the_same_steps_and_another_takes_others() -> None:
    first = backup.timed(FITTED, 4, 6, steps=20, seed=3)

    assert backup.timed(FITTED, 4, 6, steps=20, seed=3) == first
    assert backup.timed(FITTED, 4, 6, steps=20, seed=4).steps_s != first.steps_s


def test_what_is_late_neither_counts_nor_delays() -> None:
    """With one of three needed, a step takes as long as the fastest, however long the others stall."""
    stalls = replace(FITTED, base_s=1.0, straggler=replace(FITTED.straggler, p=0.3, stall_s=60.0), ps_s=0.0)

    point = backup.timed(stalls, 1, 3, steps=60)

    assert sum(step_s < 1.1 for step_s in point.steps_s) > 50  # all three stall in one step of 37


@pytest.mark.parametrize("seed", range(4))
def test_left_to_choose_it_waits_for_50_of_53_or_one_beside(seed: int) -> None:
    assert abs(backup.chosen(FITTED, 53, rounds=20, seed=seed) - 50) <= 1


def test_a_median_of_one_step_is_refused() -> None:
    with pytest.raises(ConfigError, match="at least 2 steps"):
        backup.timed(FITTED, 2, 2, steps=1)
