"""What a cluster runs after a process was lost and has come back."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

import actorflow as af
from actorflow import sim
from actorflow.errors import PeerLost, ShardLost
from tests.support.events import drain
from tests.support.linear import regression


def spread() -> af.Program:
    """The regression, with `far`, which worker1 computes from what is fed."""
    program = regression()
    with program.graph:
        v = af.placeholder("float32", (), name="v")
        with af.device("/job:worker/task:1"):
            far = af.exp(v)
        af.add(far, 1.0, name="far")
    return program


FED = {"v": np.float32(0)}


def in_world(body: Any) -> Any:
    """Runs `body(world, cluster)` with two of each kind."""

    @sim.world("chief", ps=2, worker=2, latency_s=0.001)
    async def run(world: sim.World) -> Any:
        async with af.Cluster.simulated(spread(), ps=2, workers=2, world=world) as cluster:
            return await body(world, cluster)

    return run()


def homes(cluster: af.Cluster) -> dict[str, str]:
    layout = cluster.layout
    return {name: ps for ps, names in zip(layout.ps, layout.trained, strict=True) for name in names}


async def trained(cluster: af.Cluster) -> None:
    await drain(af.Trainer(cluster).run(steps=3))


@pytest.mark.parametrize("before", [0, 1])
def test_a_step_runs_on_a_process_that_has_started_again(before: int) -> None:
    async def body(world: sim.World, cluster: af.Cluster) -> list[float]:
        found = [float(await cluster.run("far", FED)) for _ in range(before)]
        for _ in range(2):
            world.crash("worker1")
            await world.sleep(0.1)
            await world.restart("worker1")
            await world.sleep(1.0)
            found.append(float(await cluster.run("far", FED)))
        return found

    assert in_world(body) == [2.0] * (before + 2)


def test_steps_that_begin_together_find_a_process_that_is_back() -> None:
    async def body(world: sim.World, cluster: af.Cluster) -> list[Any]:
        await cluster.run("far", FED)
        world.crash("worker1")
        await world.restart("worker1")
        await world.sleep(1.0)
        return await asyncio.gather(*(cluster.run("far", FED) for _ in range(5)))

    assert in_world(body) == [2.0] * 5


def test_a_process_that_is_gone_stops_those_steps_alone_that_need_it() -> None:
    async def body(world: sim.World, cluster: af.Cluster) -> Any:
        first = await cluster.run("w")
        world.crash("worker1")
        await world.sleep(12.0)
        with pytest.raises(PeerLost, match="'worker1' has been silent"):
            await cluster.run("far", FED)
        return np.array_equal(first, await cluster.run("w"))

    assert in_world(body)


@pytest.mark.parametrize("process", ["ps0", "ps1", "worker1"])
def test_a_process_that_was_only_silent_has_what_it_had(process: str) -> None:
    async def body(world: sim.World, cluster: af.Cluster) -> None:
        await trained(cluster)
        fetches = ["w", "b", "far"]
        before = await cluster.run(fetches, FED)
        world.split("chief", process)
        await world.sleep(15.0)
        with pytest.raises(PeerLost):
            await cluster.run(fetches, FED)
        world.heal()
        await world.sleep(5.0)
        for one, other in zip(before, await cluster.run(fetches, FED), strict=True):
            assert np.array_equal(one, other)

    in_world(body)


@pytest.mark.parametrize("silent_before", [False, True])
@pytest.mark.parametrize("process", ["ps0", "ps1"])
def test_what_a_process_held_is_gone_when_it_begins_anew(process: str, silent_before: bool) -> None:
    """No first values stand beside trained ones, not for another trainer either."""

    async def body(world: sim.World, cluster: af.Cluster) -> None:
        await trained(cluster)
        (lost,) = [name for name, home in homes(cluster).items() if home == process]
        (kept,) = [name for name, home in homes(cluster).items() if home != process]
        value = await cluster.run(kept)
        if silent_before:
            world.split("chief", process)
            await world.sleep(15.0)
            world.heal()
            await world.sleep(5.0)
            await cluster.run("far", FED)
        world.crash(process)
        await world.restart(process)
        await world.sleep(1.0)
        for fetches in (lost, [kept, lost]):
            with pytest.raises(ShardLost, match=rf"{process} began anew, .*'{lost}' held is gone\n.*again"):
                await cluster.run(fetches)
        with pytest.raises(ShardLost, match=f"{process} began anew"):
            await trained(cluster)
        assert np.array_equal(await cluster.run(kept), value)
        assert await cluster.run("far", FED) == 2.0

    in_world(body)


def test_variables_that_nobody_has_touched_begin_as_ever() -> None:
    async def body(world: sim.World, cluster: af.Cluster) -> list[float]:
        await cluster.run("far", FED)
        for process in ("ps0", "ps1"):
            world.crash(process)
            await world.restart(process)
        await world.sleep(1.0)
        await trained(cluster)
        shape: Any = (await cluster.run("b")).shape
        return [shape]

    assert in_world(body) == [(2,)]


def test_a_process_that_comes_late_takes_part() -> None:
    @sim.world("chief", ps=2, worker=2, latency_s=0.001)
    async def run(world: sim.World) -> float:
        world.crash("worker1")
        world.crash("worker0")
        await world.restart("worker0")
        async with af.Cluster.simulated(spread(), ps=2, workers=2, world=world) as cluster:
            with pytest.raises(PeerLost, match="'worker1' was not there when the cluster was opened"):
                await cluster.run("far", FED)
            await world.restart("worker1")
            await world.sleep(1.0)
            return float(await cluster.run("far", FED))

    assert run() == 2.0
