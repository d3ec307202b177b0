"""A worker whose link to one shard is cut: the others go on, and nearly all of the data is theirs."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import actorflow as af
from actorflow import sim
from actorflow.coord.rules.policy import Async, Policy, Sync
from actorflow.errors import ShardLost
from tests.cluster.training import LINKS, SETTINGS
from tests.support.busy import HANG_S
from tests.support.events import drain
from tests.support.linear import regression

BATCHES = 300


def trained(policy: Policy, *cut: str, work_s: float = 0.01, heals_s: float | None = None) -> Any:
    """Trains one epoch; these workers are cut off from ps1 at 0.2 s.

    Returns:
        The batches that were used, the ranks that made the last updates, and what the run ended with.
    """

    @sim.world("chief", ps=2, worker=3, latency_s=0.0005, limits=sim.Limits(max_steps=600_000))
    async def run(world: sim.World) -> Any:
        cluster = af.Cluster.simulated(
            regression(batches=BATCHES), ps=2, workers=3, world=world, work_s=work_s, links=LINKS
        )

        async def harm() -> None:
            await world.sleep(0.2)
            for worker in cut:
                world.split(worker, "ps1")
            if heals_s is not None:
                await world.sleep(heals_s)
                world.heal()

        async with cluster:
            trainer = af.Trainer(cluster, policy, settings=SETTINGS)
            harmed = asyncio.ensure_future(harm())
            ended = None
            try:
                async with asyncio.timeout(HANG_S):
                    await drain(trainer.run(epochs=1))
            except ShardLost as error:
                ended = error
            await harmed
            used = [batch.index for update in trainer.record for _, _, batch, _ in update.chosen]
            return used, [tuple(r for r, *_ in update.chosen) for update in trainer.record[-5:]], ended

    return run()


@pytest.mark.parametrize("policy", [Async(), Sync()], ids=str)
@pytest.mark.parametrize("work_s", [0.002, 0.02])
def test_it_rests_ever_longer_and_the_others_use_the_data(policy: Policy, work_s: float) -> None:
    used, _, ended = trained(policy, "worker0", work_s=work_s)

    assert ended is None
    assert len(used) == len(set(used))
    assert len(used) >= BATCHES - 12


def test_it_is_one_of_them_again_when_the_link_is_whole() -> None:
    used, last, ended = trained(Sync(), "worker0", work_s=0.02, heals_s=1.5)

    assert ended is None
    assert (0, 1, 2) in last
    assert len(used) >= BATCHES - 12


def test_when_no_worker_is_left_that_reaches_it_the_run_ends_and_says_so() -> None:
    _, _, ended = trained(Async(), "worker0", "worker1", "worker2")

    assert "no worker is left that reaches all shards; 'worker0' does not reach a shard" in str(ended)
    assert "ps1/shard" in str(ended)


def test_a_worker_that_was_cut_off_for_longer_than_it_asks_for_a_seat_comes_back() -> None:
    """It has given up by then, and another takes its place."""

    @sim.world("chief", ps=2, worker=3, latency_s=0.0005, limits=sim.Limits(max_steps=600_000))
    async def run(world: sim.World) -> list[int]:
        cluster = af.Cluster.simulated(
            regression(batches=1000), ps=2, workers=3, world=world, work_s=0.02, links=LINKS
        )

        async def harm() -> None:
            await world.sleep(0.2)
            world.split("chief", "worker0")
            await world.sleep(SETTINGS.gather_s + 2.0)
            world.heal()

        async with cluster:
            trainer = af.Trainer(cluster, Async(), settings=SETTINGS)
            harmed = asyncio.ensure_future(harm())
            await drain(trainer.run(steps=900))
            await harmed
            return [update.alive for update in trainer.record]

    alive = run()

    assert alive[0] == 3
    assert min(alive) == 2
    assert alive[-1] == 3
