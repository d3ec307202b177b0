"""What a cluster does with scopes that leave a choice, and with what has none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import actorflow as af
from actorflow import errors, sim
from actorflow.plan.placement.cost import CostModel
from actorflow.plan.placement.placer import Placer
from actorflow.plan.placement.scheduling_problem import DeviceLink
from tests.support.events import drain
from tests.support.linear import regression

FREE = Placer(way="list", cost=CostModel(between=DeviceLink(0.0, 1e12), units=lambda *_: 1e6))

DEVICES = tuple(
    f"/job:{job}/task:{k}/device:cpu:0"
    for job, k in (("chief", 0), ("ps", 0), ("ps", 1), ("worker", 0), ("worker", 1))
)
SCARCE = Placer(way="list", cost=FREE.cost, limits=dict.fromkeys(DEVICES, 1100.0), alap=True)
"""Memory for little more than one value at a time: a plan of this one has control inputs and gates."""


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
            await drain(af.Trainer(cluster, policy=af.Sync()).run())
            return {name: (await cluster.run(name)).tobytes() for name in ("w", "b")}

    found: dict[str, bytes] = sim.run(main).result
    return found


def test_variables_whose_scope_names_the_job_alone_are_spread_like_those_without_a_scope() -> None:
    """They lie where their shards are, which no single scope says."""
    assert trained(with_scopes("/job:ps")) == trained(with_scopes(None))


@pytest.mark.parametrize("placement", ["first", "greedy", "list", FREE, SCARCE])
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


def test_what_a_placer_has_chosen_travels_with_the_plan() -> None:
    """Values of ps0 for the layers of a worker: the last waits until the first layer has run."""
    program = with_scopes(None)
    with program.graph:
        x = af.placeholder("float32", (8,), name="given")
        with af.device("/job:ps/task:0"):
            early = [op(x, name=f"early{k}") for k, op in enumerate((af.exp, af.cos, af.tanh))]
        with af.device("/job:worker/task:0"):
            at = af.sin(x, name="layer")
            for k, value in enumerate(early):
                at = af.add(at, value, name=f"layer{k}")
        last = af.tanh(at, name="last")
    worker = DEVICES[3]
    times = {(name, worker): 5.0 for name in ("layer", "layer0", "layer1", "layer2")}
    times |= {("last", device): 5.0 for device in DEVICES[:3]}
    cost = CostModel(between=DeviceLink(0.0, 1e12), measured_s=times)
    placement = Placer(way="list", cost=cost, limits=dict.fromkeys(DEVICES, 1e3), alap=True)
    feeds = {x: np.ones(8, "float32")}

    async def main(how: str | Placer) -> Any:
        async with af.Cluster.simulated(program, ps=2, workers=2, placement=how) as cluster:
            value = await cluster.run(last, feeds)
            (plan,) = cluster.open_session_of()._plans.known.values()
            return value.tobytes(), plan.prepare

    value, prepare = sim.run(lambda: main(placement)).result

    assert value == sim.run(lambda: main("first")).result[0]
    assert prepare.moved
    assert prepare.after
    assert prepare.controls


def test_a_cluster_refuses_a_placement_that_there_is_not() -> None:
    with pytest.raises(errors.ConfigError, match="there is no placement 'best'"):
        af.Cluster.simulated(regression(), placement="best")
