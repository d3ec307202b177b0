"""What the comparison with PyTorch rests on, where PyTorch is not: `make oracle-optim` runs it all."""

from __future__ import annotations

import numpy as np
import pytest

from actorflow import optim
from tests.oracle.optim import (
    LEAST,
    PAIRS,
    ROWS,
    SCHEDULES,
    SHAPES,
    difference,
    drawn,
    network_slope,
    our_way,
    problems,
)


def test_there_are_more_comparisons_than_it_asks_for() -> None:
    made = sum(2 if pair.swings else 3 for pair in PAIRS) + len(SCHEDULES) + len(ROWS)

    assert made >= LEAST > 2 * len(PAIRS)


def test_one_element_after_one_update_is_a_difference() -> None:
    way = [drawn(np.random.default_rng(i)) for i in range(3)]
    other = [{name: p.copy() for name, p in params.items()} for params in way]
    other[1]["b1"][2] += 0.5

    assert difference(way, way) == 0
    largest = max(float(np.abs(p).max()) for p in other[1].values())
    assert difference(way, other) == pytest.approx(0.5 / largest)

    other[1]["b1"][2] = np.nan
    assert difference(other, way) == np.inf


@pytest.mark.parametrize("problem", ["drawn", "magnitudes", "network"])
def test_another_rate_is_seen(problem: str) -> None:
    slopes = dict(problems())[problem]

    assert difference(our_way(optim.adam(0.02), slopes), our_way(optim.adam(0.0201), slopes)) > 1e-4


def test_slope_of_the_network_is_what_differences_measure() -> None:
    rng = np.random.default_rng(0)
    params, xs, ys = drawn(rng), rng.standard_normal((4, 5)), rng.standard_normal((4, 3))

    def loss(p: dict[str, np.ndarray]) -> float:
        return float(np.mean((np.tanh(xs @ p["w1"] + p["b1"]) @ p["w2"] + p["b2"] - ys) ** 2))

    slope = network_slope(xs, ys, params)
    for name in SHAPES:
        way = {n: p * 0 if n != name else rng.standard_normal(p.shape) for n, p in params.items()}
        above, below = (loss({n: p + s * way[n] for n, p in params.items()}) for s in (1e-6, -1e-6))
        np.testing.assert_allclose(np.sum(slope[name] * way[name]), (above - below) / 2e-6, rtol=1e-7)
