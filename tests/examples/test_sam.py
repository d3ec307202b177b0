"""The example of sharpness-aware minimisation: its update against the formula, and a few steps on the digits."""

from __future__ import annotations

from itertools import islice
from typing import Any

import numpy as np
import pytest

import actorflow as af
from tests.examples.scripts import script


@pytest.mark.parametrize("rho", [0.0, 0.5])
def test_an_update_goes_down_the_gradient_uphill(monkeypatch: pytest.MonkeyPatch, rho: float) -> None:
    sam = script(monkeypatch, "sam")
    start = np.array([[1.0], [-2.0]], "float32")
    with af.Graph() as graph:
        layer = af.nn.Dense(2, 1, bias=False, weights=lambda shape, dtype: start, name="layer")
        x = np.array([[1.0, 0.0], [0.0, 2.0]], "float32")
        update = sam.minimize(layer, lambda call: af.sum(call(x) ** 4), rho, af.optim.sgd(0.001))

    async def main() -> Any:
        async with af.Session(graph) as session:
            await session.run(update)
            return await session.run(layer.w)

    def gradient(w: np.ndarray) -> np.ndarray:
        found: np.ndarray = x.T @ (4 * (x @ w) ** 3)
        return found

    here = gradient(start)
    there = start + rho * here / np.linalg.norm(here)
    np.testing.assert_allclose(af.run(main()), start - 0.001 * gradient(there), rtol=1e-5)


@pytest.mark.slow
def test_it_learns_in_a_few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    program = script(monkeypatch, "sam").build(seed=0)

    async def main() -> list[float]:
        async with af.Session(program.graph) as session:
            return [
                (await session.run([program.loss, program.train], feeds))[0]
                for feeds in islice(program.batches(0), 30)
            ]

    losses = af.run(main())

    assert np.mean(losses[-5:]) < 0.7 * np.mean(losses[:5])
