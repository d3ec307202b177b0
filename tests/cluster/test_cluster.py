from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

import actorflow as af
from actorflow import sim
from actorflow.errors import ConfigError, CoordinatorLost, SessionClosed
from tests.support.linear import regression


def test_a_simulated_cluster_opens_in_a_simulated_run_only() -> None:
    async def main() -> None:
        async with af.Cluster.simulated(regression()):
            pass

    with pytest.raises(ConfigError, match=r"opens in a simulated run\n.*sim\.run\(main\)"):
        asyncio.run(main())


@pytest.mark.parametrize("n", [0, -1, True, 1.5, "2"])
def test_processes_are_counted(n: Any) -> None:
    with pytest.raises(ConfigError, match="at least 1, got"):
        af.Cluster.simulated(regression(), workers=n)
    with pytest.raises(ConfigError, match="at least 1, got"):
        af.Cluster.simulated(regression(), ps=n)


def test_a_cluster_runs_a_program() -> None:
    given: Any = regression().graph
    with pytest.raises(ConfigError, match="a cluster runs an af.Program, got Graph"):
        af.Cluster.simulated(given)


def test_a_world_without_its_hosts_is_refused() -> None:
    @sim.world("chief", "ps0")
    async def run(world: sim.World) -> None:
        async with af.Cluster.simulated(regression(), workers=1, world=world):
            pass

    with pytest.raises(ConfigError, match="no host 'worker0'"):
        run()


def test_steps_run_over_its_processes_and_give_what_a_session_gives() -> None:
    program = regression()
    batch = program.batches(0)[0]  # type: ignore[index]

    async def spread() -> Any:
        async with af.Cluster.simulated(regression(), ps=2, workers=2) as cluster:
            found = await cluster.run([program.loss.name, "w", "b"], batch)
            return found, cluster.stats().transfers > 0

    async def local() -> Any:
        async with af.Session(program.graph) as session:
            return await session.run([program.loss.name, "w", "b"], batch)

    found, crossed = sim.run(spread).result
    for mine, theirs in zip(found, asyncio.run(local()), strict=True):
        assert np.asarray(mine).tobytes() == np.asarray(theirs).tobytes()
    assert crossed, "the variables are on other processes than the step"


def test_a_closed_cluster_runs_nothing() -> None:
    async def main() -> None:
        cluster = af.Cluster.simulated(regression())
        with pytest.raises(SessionClosed, match="the cluster is not open"):
            await cluster.run("w")
        async with cluster:
            assert repr(cluster) == "<SimulatedCluster of 1 ps and 1 workers, open>"
        with pytest.raises(SessionClosed):
            await cluster.run("w")

    sim.run(main)


def test_without_its_chief_a_cluster_is_lost_and_closes_in_peace() -> None:
    @sim.world("chief", ps=1, worker=1)
    async def run(world: sim.World) -> None:
        async with af.Cluster.simulated(regression(), world=world) as cluster:
            running = asyncio.create_task(cluster.run("w"))
            await world.sleep(0)
            world.crash("chief")
            with pytest.raises(CoordinatorLost, match="'chief' has crashed"):
                await running
            await world.restart("chief")
            with pytest.raises(CoordinatorLost):
                await cluster.run("w")

    run()


@pytest.mark.parametrize(
    ("option", "text"),
    [
        ({"work_s": -1}, r"work_s .*got -1\n.*work_s=0\.1"),
        ({"latency_s": float("inf")}, r"latency_s .*got inf"),
        ({"work_s": float("nan")}, r"work_s .*got nan"),
        ({"work_s": "1"}, r"work_s .*got '1'"),
        ({"seed": "a"}, r"seed is a whole number, got 'a'"),
        ({"seed": True}, r"seed is a whole number, got True"),
        ({"latency": 1, "wait": 2}, r"has no option latency, wait\n.*there are ps, workers, .*latency_s"),
        ({"links": 3}, r"links are as Settings say, got 3\n.*Settings\(silence_s"),
        ({"straggler": 0.5}, r"a straggler is a sim\.Straggler, got 0\.5"),
        ({"world": 3}, r"a world is a sim\.World, got 3\n.*@sim\.world"),
    ],
)
def test_options_that_cannot_mean_anything_are_refused(option: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        af.Cluster.simulated(regression(), **option)


@pytest.mark.parametrize("option", [{"latency_s": 5.0}, {"seed": 3}])
def test_what_a_world_says_itself_is_not_said_beside_it(option: dict[str, Any]) -> None:
    @sim.world("chief", "ps0", "worker0")
    async def run(world: sim.World) -> None:
        af.Cluster.simulated(regression(), world=world, **option)

    with pytest.raises(
        ConfigError, match=rf"{next(iter(option))} is the world's where a world is given, got"
    ):
        run()
