"""A shard that stands still while one run ends and the next begins: no half commit, and no loss for ever."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import actorflow as af
from actorflow import sim
from actorflow.cluster.process.messages import SHARD
from actorflow.coord.actors.peer_shards import ReadStats
from actorflow.coord.rules.run_settings import RunSettings
from actorflow.errors import ShardLost
from actorflow.transport.rules.link_settings import LinkSettings
from tests.support.events import drain
from tests.support.linear import regression

SETTINGS = RunSettings(heartbeat_s=0.02, lease_s=0.3, gather_s=2.0, fence_s=2.0, stuck_s=5.0)


async def trained(trainer: af.Trainer, steps: int) -> ShardLost | None:
    """Trains; returns the one error that is no surprise."""
    try:
        await drain(trainer.run(steps=steps))
    except ShardLost as error:
        return error
    return None


def left_while_a_shard_stands_still(left_s: float, still_s: float, *slow: tuple[str, str, float]) -> Any:
    """Leaves a run when ps1 stops for a while, and begins the next at once, and a third when all is well.

    Returns:
        What the two ended with, and version and digest of the sets of each shard after either.
    """

    @sim.world("chief", ps=2, worker=3, latency_s=0.0005, limits=sim.Limits(max_steps=400_000))
    async def run(world: sim.World) -> Any:
        cluster = af.Cluster.simulated(
            regression(batches=100),
            ps=2,
            workers=3,
            world=world,
            work_s=0.004,
            links=LinkSettings(silence_s=10.0),
        )

        async def stand() -> list[tuple[int, str]]:
            refs = [(world.host(name), world.host(name).system.actors[SHARD]) for name in cluster.ps]
            found = [await host.run(ref.ask(ReadStats())) for host, ref in refs]
            return [(stats.version, stats.sets) for stats in found]

        async with cluster:
            trainer = af.Trainer(cluster, settings=SETTINGS)
            first = asyncio.ensure_future(trained(trainer, 60))
            await world.sleep(left_s)
            world.pause("ps1")
            for a, b, factor in slow:
                world.slow(a, b, factor)
            world.loop.call_later(still_s, world.resume, "ps1")
            first.cancel()
            await asyncio.wait([first])
            second = await trained(trainer, 30)
            await world.sleep(still_s + 0.5)
            between = await stand()
            third = await trained(trainer, 3)
            return second, between, third, await stand()

    return run()


@pytest.mark.parametrize("left_ms", [53.5, 54.1, 54.5, 54.7, 55.5])
def test_a_run_that_was_left_and_the_next_leave_no_half_commit(left_ms: float) -> None:
    """A shard leads for the first run when the coordinator of the second has begun."""
    slow = ("ps0", "ps1", 30), ("ps1", "ps0", 30), ("chief", "ps1", 20)
    second, between, third, after = left_while_a_shard_stands_still(left_ms / 1000, 2.5, *slow)

    assert between[0] == between[1], "half a commit"
    assert third is None
    assert after[0] == after[1]
    assert after[0][0] == between[0][0] + 3
    if second is None:
        assert between[0][0] >= 30


def test_a_shard_that_was_only_late_is_not_lost_for_the_runs_that_follow() -> None:
    second, between, third, after = left_while_a_shard_stands_still(0.05, 4.5)

    assert "did not say where it stands" in str(second)
    assert third is None
    assert after[0] == after[1]
    assert after[0][0] == between[0][0] + 3
