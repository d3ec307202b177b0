"""What a network does to connections of real process runtimes, training bears, or ends with a typed error."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

import actorflow as af
from actorflow.errors import CoordinationError
from tests.network.proxy import Way
from tests.network.rig import LIMIT_S, Rig

STEPS = 30
STORM_STEPS = 300
"""Nearly as many as are made within 4 s of storm on two busy cores: 315."""

Harm = Callable[[Rig], Awaitable[None]]


async def harmed(
    harm: Harm, *, steps: int = STEPS, ps: int = 2, workers: int = 2, patient: bool = False
) -> Rig:
    """Trains while a fault is there, and judges what came of it. A patient rig is to lose no session."""
    rig = Rig(ps=ps, workers=workers, batches=4 * steps, patient=patient)
    async with rig:
        before = rig.losses()
        assert not before, before
        training = asyncio.ensure_future(rig.train(steps=steps))
        await rig.until_step(3)
        await harm(rig)
        await training
        rig.lost = rig.losses()
        await rig.judge()
    return rig


def test_a_slow_network_is_slow() -> None:
    async def slow(rig: Rig) -> None:
        for proxy in rig.proxies.values():
            proxy.delay_s, proxy.jitter_s = 0.05, 0.03

    rig = af.run(harmed(slow, steps=10, patient=True))
    assert rig.failure is None
    assert len(rig.updates) == 10
    assert rig.lost == []


@pytest.mark.parametrize("way", Way)
@pytest.mark.parametrize("whom", ["chief", "ps1"])
def test_a_way_that_is_held_for_a_moment_costs_no_session(whom: str, way: Way) -> None:
    async def held(rig: Rig) -> None:
        rig.proxies[whom].hold(way)
        await asyncio.sleep(0.3)
        rig.proxies[whom].release()

    rig = af.run(harmed(held, steps=15, patient=True))
    assert rig.failure is None
    assert len(rig.updates) == 15
    assert rig.lost == []


@pytest.mark.parametrize("way", Way)
def test_a_way_to_a_shard_that_is_held_for_long_is_gone_round(way: Way) -> None:
    """Workers dial `ps1`: they cannot reach it, and the chief, which it dials itself, can."""

    async def held(rig: Rig) -> None:
        rig.proxies["ps1"].hold(way)
        await asyncio.sleep(LIMIT_S)
        rig.proxies["ps1"].release()

    rig = af.run(harmed(held, workers=3))
    assert rig.failure is None, rig.failure
    assert len(rig.updates) == STEPS
    assert any("ps1" in loss for loss in rig.lost), rig.lost


@pytest.mark.parametrize("way", Way)
def test_a_way_to_the_chief_that_is_held_for_long_ends_the_run(way: Way) -> None:
    async def held(rig: Rig) -> None:
        rig.proxies["chief"].hold(way)
        await asyncio.sleep(LIMIT_S)
        rig.proxies["chief"].release()

    rig = af.run(harmed(held))
    assert isinstance(rig.failure, CoordinationError), rig.failure
    assert "'ps" in str(rig.failure), "it names the process"


def test_a_storm_of_reconnections_costs_no_update() -> None:
    cuts = 20

    made: list[int] = []

    async def storm(rig: Rig) -> None:
        for _ in range(cuts):
            for proxy in rig.proxies.values():
                proxy.cut()
            await asyncio.sleep(4.0 / cuts)
            made.append(len(rig.updates))

    rig = af.run(harmed(storm, steps=STORM_STEPS, patient=True))
    assert rig.failure is None, rig.failure
    assert made[0] < made[cuts // 2] < STORM_STEPS, "training goes on within the storm"
    assert len(rig.updates) == STORM_STEPS
    assert rig.lost == [], "a connection that comes back carries on with the session"
    assert rig.proxies["chief"].connections >= cuts, "there was a storm"
