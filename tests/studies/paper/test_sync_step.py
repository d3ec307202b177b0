"""Null steps: the shape of Figure 7, on fewer servers and workers where that is enough."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from actorflow.errors import ConfigError
from studies.paper.numbers import Figure, figure
from studies.paper.sync_step import CURVES, DENSE_PART, Curve, steps_of, timed

SCALAR, SPARSE_1, SPARSE_16, _, DENSE = CURVES


def given(**parameters: float) -> Figure:
    """What figure 7 takes, with some of it changed."""
    found = figure("sync-step")
    changed = {name: replace(found.parameters[name], value=value) for name, value in parameters.items()}
    return replace(found, parameters={**found.parameters, **changed})


def test_a_dense_step_is_flat_until_the_servers_cards_are_full_and_then_grows_with_the_workers() -> None:
    four = given(ps_tasks=4)
    t = {n: timed(DENSE, n, steps=2, given=four) for n in (1, 2, 16, 32)}

    assert t[1] == pytest.approx(1.0, rel=0.1)  # 1 GB by a worker's card
    assert t[2] < 1.5 * t[1]
    assert t[16] == pytest.approx(16 / 4, rel=0.25)  # 16 GB by four
    assert t[32] == pytest.approx(2 * t[16], rel=0.1)


def test_cards_twice_as_fast_halve_a_dense_step() -> None:
    slow, fast = (timed(DENSE, 8, steps=2, given=given(ps_tasks=4, nic_bytes_s=rate)) for rate in (1e9, 2e9))

    assert slow == pytest.approx(2 * fast, rel=0.05)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 12])
def test_a_sparse_step_does_not_depend_on_the_size_of_the_table(workers: int) -> None:
    small = timed(SPARSE_1, workers, steps=25)
    large = timed(SPARSE_16, workers, steps=25)
    denser = timed(Curve("dense", dense_bytes=1e9), workers, steps=1)

    assert large == pytest.approx(small, rel=0.12)  # which rows are drawn
    assert max(small, large) < denser / 20


@pytest.mark.slow
def test_a_scalar_step_grows_with_the_workers_about_as_their_root_and_slower_than_they() -> None:
    few, more, most = (timed(SCALAR, n, steps=6) for n in (1, 25, 100))

    assert 0.0015 < few < 0.0022
    assert few < more < most
    slope = math.log(most / more) / math.log(100 / 25)
    assert 0.4 < slope < 1.0


def test_the_same_seed_takes_the_same_time_and_another_takes_another() -> None:
    first = timed(SCALAR, 3, steps=5, seed=2)

    assert timed(SCALAR, 3, steps=5, seed=2) == first
    assert timed(SCALAR, 3, steps=5, seed=3) != first


def test_dense_curves_take_fewer_steps() -> None:
    assert steps_of(SCALAR, 12) == 12
    assert steps_of(DENSE, 12) == 12 // DENSE_PART
    assert steps_of(DENSE, 1) == 1


def test_no_workers_and_no_steps_are_refused() -> None:
    with pytest.raises(ConfigError, match="at least 1 worker"):
        timed(SCALAR, 0, steps=1)
    with pytest.raises(ConfigError, match="at least 1 step"):
        timed(SCALAR, 1, steps=0)
