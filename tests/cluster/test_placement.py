"""What a cluster does with scopes that leave a choice, and with what has none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import actorflow as af
from actorflow import errors, sim
from actorflow.plan.cost import CostModel
from actorflow.plan.place import Placer
from actorflow.plan.workload import Link
from tests.cluster.programs import regression

FREE = Placer(way="list", cost=CostModel(between=Link(0.0, 1e12), units=lambda *_: 1e6))


def with_scopes(scope: str | None) -> af.Program:
    """Two variables of one scope, and batches for a few updates."""
    with af.Graph(seed=1) as graph:
        x = af.placeholder("float32", (None, 4), name="x")
        with af.device(scope):
            w, b = af.Variable(af.init.he((4, 2)), name="w"), af.Variable(af.init.zeros((2,)), name="b")
        loss = af.mean((x @ w + b) ** 2)
        train = af.minimize(loss, af.optim.sgd(0.05))
    batch = {"x": np.ones((3, 4), "float32")}
    return af.Program(graph=graph, loss=loss, train=train, batches=lambda epoch: [batch] * 4, epochs=1)


def trained(program: af.Program) -> dict[str, bytes]:
    async def main() -> dict[str, bytes]:
        async with af.Cluster.simulated(program, ps=2, workers=2) as cluster:
            async for _ in af.Trainer(cluster, policy=af.Sync()).run():
                pass
            return {name: (await cluster.run(name)).tobytes() for name in ("w", "b")}

    found: dict[str, bytes] = sim.run(main).result
    return found


def test_variables_whose_scope_names_the_job_alone_are_spread_like_those_without_a_scope() -> None:
    """They lie where their shards are, which no single scope says."""
    assert trained(with_scopes("/job:ps")) == trained(with_scopes(None))


@pytest.mark.parametrize("placement", ["first", "greedy", "list", FREE])
def test_values_do_not_depend_on_how_a_cluster_places(placement: str | Placer) -> None:
    program = regression()
    feeds = {"x": np.ones((3, 4), "float32"), "y": np.zeros((3, 2), "float32")}

    async def local() -> Any:
        async with af.Session(program.graph, threads=0) as session:
            return await session.run(program.loss, feeds)

    async def main() -> tuple[Any, int]:
        cluster = af.Cluster.simulated(program, ps=2, workers=2, placement=placement)
        async with cluster:
            return await cluster.run(program.loss, feeds), cluster.stats().transfers

    value, transfers = sim.run(main).result

    assert value.tobytes() == sim.run(local).result.tobytes()
    assert transfers >= 2


def test_a_cluster_refuses_a_placement_that_there_is_not() -> None:
    with pytest.raises(errors.ConfigError, match="there is no placement 'best'"):
        af.Cluster.simulated(regression(), placement="best")
