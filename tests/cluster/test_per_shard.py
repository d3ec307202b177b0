"""Shards that agree on nothing, the paper's cheaper protocol: they may use different contributions."""

from __future__ import annotations

from typing import Any

import pytest

import actorflow as af
from actorflow import sim
from actorflow.coord.actors.peer_shards import ShardStats
from actorflow.coord.rules.run_settings import Agreement
from tests.cluster.programs import Task
from tests.support.events import drain


def sets(agreement: Agreement, *, late: bool) -> list[ShardStats]:
    """Trains one update of two of three; `late` says that worker0 reaches ps1 last, and ps0 first."""
    program = Task((2,) * 6).program()

    @sim.world("chief", ps=2, worker=3, latency_s=0.001)
    async def run(world: sim.World) -> Any:
        if late:
            world.slow("worker0", "ps1", 6.0)
            world.slow("worker2", "ps0", 6.0)
        async with af.Cluster.simulated(program, ps=2, workers=3, world=world) as cluster:
            trainer = af.Trainer(cluster, af.Backup(2, 3), agreement=agreement)
            await drain(trainer.run(steps=1))
            return await trainer.shards()

    found: list[ShardStats] = run()
    assert [stats.version for stats in found] == [1, 1]
    assert [stats.staleness.count for stats in found] == [2, 2]
    return found


def test_shards_that_close_alone_may_use_different_contributions_in_one_update() -> None:
    first, second = sets("per_shard", late=True)

    assert first.sets != second.sets


@pytest.mark.parametrize("late", [False, True])
def test_under_the_same_schedule_shards_that_agree_use_the_same(late: bool) -> None:
    first, second = sets("all", late=late)

    assert first.sets == second.sets
