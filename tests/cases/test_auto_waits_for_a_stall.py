"""`Backup("auto")` trains where a worker stands still while it measures for the first time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import actorflow as af
from actorflow import sim

UPDATES = 60


def program() -> af.Program:
    with af.Graph(seed=0) as graph:
        x = af.placeholder("float32", (None,))
        w = af.Variable(np.float32(0), name="w")
        loss = af.mean((w * x - 2) ** 2)
        train = af.minimize(loss, af.optim.sgd(0.01))
    feed: dict[Any, Any] = {x: np.ones(1, np.float32)}
    return af.Program(graph=graph, loss=loss, train=train, epochs=1, batches=lambda _: [feed] * 3000)


def contributions_a_second(policy: af.Policy, straggler: sim.Straggler) -> float:
    async def main() -> float:
        options: dict[str, Any] = {"work_s": 1.0, "straggler": straggler}
        async with af.Cluster.simulated(program(), ps=1, workers=4, **options) as cluster:
            used = 0
            async for event in af.Trainer(cluster, policy).run(steps=UPDATES):
                if isinstance(event, af.types.UpdateDone):
                    used += len(event.update.chosen)
            assert isinstance(event, af.types.RunDone)
            return used / event.train_s

    rate: float = sim.run(main).result
    return rate


@pytest.mark.parametrize("stall_s", [60.0, 1000.0])
@pytest.mark.parametrize("often", [0.02, 0.05])
def test_it_makes_no_less_than_the_best_fixed_m(stall_s: float, often: float) -> None:
    """The limit of a run that stands still is 120 s: a round without a limit would end it as Stalled."""
    straggler = sim.Straggler(p=often, stall_s=stall_s)

    auto = contributions_a_second(af.Backup("auto", 4), straggler)

    assert auto >= contributions_a_second(af.Backup(2, 4), straggler) / 1.1
