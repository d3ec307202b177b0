"""Clusters that are opened, closed and opened again, and what cannot be opened."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

import actorflow as af
from actorflow import sim
from actorflow.cluster.simulated import SimulatedCluster
from actorflow.errors import ConfigError, CoordinatorLost, SessionClosed
from tests.support.events import drain
from tests.support.faults import planted
from tests.support.linear import regression


def cluster(**options: Any) -> SimulatedCluster:
    return SimulatedCluster(regression(), ps=2, workers=2, **options)


async def trained(open_one: af.Cluster, steps: int = 2) -> Any:
    await drain(af.Trainer(open_one).run(steps=steps))
    return await open_one.run("w")


def left(world: sim.World) -> dict[str, list[str]]:
    """Returns the actors that are on the hosts of a world."""
    return {host.name: sorted(host.system.actors) for host in world.hosts if host.system.actors}


def test_a_cluster_that_was_closed_opens_again_and_begins_anew() -> None:
    async def main() -> None:
        one = cluster()
        values = []
        for _ in range(3):
            async with one:
                values.append((await one.run("w"), await trained(one)))
        for first, last in values:
            assert np.array_equal(first, values[0][0])
            assert np.array_equal(last, values[0][1])
            assert not np.array_equal(first, last)

    sim.run(main)


@pytest.mark.parametrize("again", [False, True])
def test_clusters_follow_each_other_in_a_world_and_leave_nothing(again: bool) -> None:
    @sim.world("chief", ps=2, worker=2, latency_s=0.001)
    async def run(world: sim.World) -> None:
        one, values = cluster(world=world), []
        for _ in range(3):
            one = one if again else cluster(world=world)
            async with one:
                values.append(await trained(one))
            assert left(world) == {}
            assert all(host.system.outside is None for host in world.hosts)
        assert all(np.array_equal(value, values[0]) for value in values)

    run()


def test_a_run_that_was_left_early_is_gone_with_its_cluster() -> None:
    @sim.world("chief", ps=2, worker=2, latency_s=0.001)
    async def run(world: sim.World) -> None:
        async with cluster(world=world, work_s=0.01) as one:
            events = af.Trainer(one).run()
            await anext(events)
        assert left(world) == {}
        with pytest.raises(SessionClosed, match="the cluster is not open"):
            await drain(events)

    run()


def test_what_else_runs_on_the_hosts_goes_on() -> None:
    class Echo(af.Actor):
        def receive(self, message: Any) -> Any:
            return message

    @sim.world("chief", ps=2, worker=2)
    async def run(world: sim.World) -> Any:
        echo = world["ps0"].spawn(Echo, name="echo")
        async with cluster(world=world) as one:
            await trained(one)
        assert left(world) == {"ps0": ["echo"]}
        return await echo.ask("here")

    assert run() == "here"


@pytest.mark.parametrize("name", ["chief", "ps1", "worker0"])
def test_another_cluster_opens_after_a_crash(name: str) -> None:
    @sim.world("chief", ps=2, worker=2, latency_s=0.001)
    async def run(world: sim.World) -> None:
        async with cluster(world=world) as one:
            expected = await trained(one)
            world.crash(name)
            await world.sleep(0.1)
        await world.restart(name)
        assert left(world) == {}
        async with cluster(world=world) as other:
            assert np.array_equal(await trained(other), expected)
            world.crash("worker1")
            await world.restart("worker1")
            await trained(other)

    run()


def test_a_chief_that_comes_back_while_its_cluster_is_open_leaves_nothing_either() -> None:
    @sim.world("chief", ps=2, worker=2, latency_s=0.001)
    async def run(world: sim.World) -> None:
        async with cluster(world=world) as one:
            world.crash("chief")
            await world.restart("chief")
            with pytest.raises(CoordinatorLost, match=r"crashed.*\n.*open another cluster"):
                await one.run("w")
        assert left(world) == {}
        async with cluster(world=world) as other:
            await trained(other)

    run()


def test_a_host_that_stands_still_is_cleared_when_it_goes_on() -> None:
    @sim.world("chief", ps=2, worker=2, latency_s=0.001)
    async def run(world: sim.World) -> None:
        async with cluster(world=world) as one:
            await trained(one)
            world.pause("ps1")
            await world.sleep(0.1)
        with pytest.raises(ConfigError, match="'ps1' is of one that is open"):
            await cluster(world=world).__aenter__()
        assert set(left(world)) == {"ps1"}
        world.resume("ps1")
        await world.sleep(0.1)
        assert left(world) == {}
        async with cluster(world=world) as other:
            await trained(other)

    run()


def test_a_cluster_is_not_opened_twice_at_once() -> None:
    async def main() -> None:
        async with cluster() as one:
            with pytest.raises(ConfigError, match="the cluster is open already"):
                async with one:
                    pass
            await trained(one)

    sim.run(main)


def test_a_world_has_one_cluster_at_a_time() -> None:
    @sim.world("chief", ps=2, worker=2)
    async def run(world: sim.World) -> None:
        async with cluster(world=world) as one:
            with pytest.raises(ConfigError, match="a host is of one cluster at a time, and 'chief' is"):
                async with cluster(world=world):
                    pass
            await trained(one)

    run()


def test_a_cluster_needs_its_chief_alive() -> None:
    @sim.world("chief", ps=2, worker=2)
    async def run(world: sim.World) -> None:
        world.crash("chief")
        with pytest.raises(ConfigError, match=r"its chief lives.*\n.*world\.restart\('chief'\)"):
            async with cluster(world=world):
                pass

    run()


def test_what_fails_while_it_opens_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    @sim.world("chief", ps=2, worker=2)
    async def run(world: sim.World) -> None:
        one = cluster(world=world)
        with monkeypatch.context() as patch:

            @planted(patch, SimulatedCluster, "_boot")
            def fail(boot: Any, self: SimulatedCluster, host: sim.Host) -> None:
                if host.name == "worker1":
                    raise RuntimeError("no such luck")
                boot(self, host)

            with pytest.raises(RuntimeError, match="no such luck"):
                async with one:
                    pass
        assert left(world) == {}
        with pytest.raises(SessionClosed):
            await one.run("w")
        async with one:
            await trained(one)

    run()


def test_a_trainer_is_of_one_opening() -> None:
    async def main() -> None:
        one = cluster()
        async with one:
            trainer = af.Trainer(one)
            await drain(trainer.run(steps=2))
        with pytest.raises(SessionClosed):
            await trainer.shards()
        async with one:
            with pytest.raises(
                ConfigError, match=r"the shards of this trainer are closed.*\n.*a new Trainer"
            ):
                await drain(trainer.run(steps=2))

    sim.run(main)


def test_a_cluster_that_was_never_open_has_nothing_to_tell() -> None:
    one = cluster()
    with pytest.raises(SessionClosed):
        _ = one.messages
    with pytest.raises(SessionClosed):
        one.stats()
    with pytest.raises(SessionClosed):
        asyncio.run(one.run("w"))
