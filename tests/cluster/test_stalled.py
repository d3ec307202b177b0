"""A run in which no update is made any more ends with a report of who waits for what."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import aclosing
from typing import Any

import pytest

import actorflow as af
from actorflow import sim
from actorflow.coord.settings import RunSettings
from actorflow.errors import Stalled
from tests.cluster.programs import regression

SETTINGS = RunSettings(beat_s=0.2, lease_s=1.0, gather_s=2.0, fence_s=2.0, stuck_s=5.0)


class Hanging(af.OptimizerActor):
    """Makes five updates, and then none."""

    def init(self, params: Mapping[str, Any]) -> Mapping[str, Any]:
        return {}

    async def on_gradients(self, grads: Mapping[str, Any], ctx: Any) -> Any:
        if ctx.count == 5:
            await asyncio.sleep(1e6)
        return {name: -0.01 * grad for name, grad in grads.items()}, {}


async def trained(trainer: af.Trainer) -> None:
    async with aclosing(trainer.run()) as events:
        async for _event in events:
            pass


@pytest.mark.parametrize("ps", [1, 2])
def test_shards_that_do_not_make_an_update_are_named_in_time_and_not_taken_for_lost(ps: int) -> None:
    program = regression(epochs=1000, optimizer=Hanging)

    @sim.world("chief", ps=ps, worker=2, latency_s=0.0005, limits=sim.Limits(max_steps=400_000))
    async def run(world: sim.World) -> float:
        cluster = af.Cluster.simulated(program, ps=ps, workers=2, world=world)
        async with cluster:
            trainer = af.Trainer(cluster, af.Sync(), settings=SETTINGS)
            with pytest.raises(Stalled, match="at version 5: shards"):
                await trained(trainer)
            return world.loop.time()

    assert 5.0 < run() < 6.0
