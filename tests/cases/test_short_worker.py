"""One of three workers has fewer batches of an epoch: an error that names it, never a run that ends early."""

from __future__ import annotations

from collections.abc import Callable
from itertools import cycle
from typing import Any

import numpy as np
import pytest

import actorflow as af
from actorflow import sim
from actorflow.coord.rules.policy import Backup, Policy
from actorflow.errors import CoordinationError, ProgramError
from tests.support.events import drain


def lists(rows: list[dict[Any, Any]]) -> Any:
    return rows


def streams(rows: list[dict[Any, Any]]) -> Any:
    return (row for row in rows)


def run(policy: Policy, sizes: list[int], kind: Callable[..., Any], epochs: int = 1, **options: Any) -> None:
    with af.Graph(seed=0) as graph:
        x = af.placeholder("float32", (None, 4))
        w, b = af.Variable(af.init.he((4, 1)), name="w"), af.Variable(0.0, name="b")
        loss = af.mean((x @ w + b) ** 2)
        train = af.minimize(loss, af.optim.sgd(0.1))
    calls = cycle(sizes)

    def batches(epoch: int) -> Any:
        return kind([{x: np.ones((2, 4), "float32")} for _ in range(next(calls))])

    program = af.Program(graph=graph, loss=loss, train=train, epochs=epochs, batches=batches)

    async def main() -> None:
        async with af.Cluster.simulated(program, ps=1, workers=3, work_s=0.1) as cluster:
            await drain(af.Trainer(cluster, policy, **options).run())

    sim.run(main)


@pytest.mark.parametrize("kind", [lists, streams])
@pytest.mark.parametrize("policy", [af.Sync(), af.Async(), af.StaleSync(1), Backup(2, 3)], ids=str)
def test_the_worker_with_fewer_is_named(policy: Policy, kind: Callable[..., Any]) -> None:
    with pytest.raises(CoordinationError, match=r"has 8 batches of epoch 0, but 'worker\d' has computed"):
        run(policy, [24, 8, 24], kind)


def test_it_is_named_where_each_shard_closes_updates() -> None:
    with pytest.raises(CoordinationError, match="has 8 batches of epoch 0"):
        run(af.Sync(), [24, 8, 24], lists, agreement="per_shard")


def test_one_batch_fewer_is_found_as_well() -> None:
    with pytest.raises(CoordinationError, match="has 23 batches of epoch 0"):
        run(af.Async(), [24, 23, 24], lists)


@pytest.mark.parametrize("kind", [lists, streams])
@pytest.mark.parametrize("policy", [af.Sync(), af.Async(), af.StaleSync(1), Backup(2, 3)], ids=str)
def test_a_worker_without_any_batch_is_named(policy: Policy, kind: Callable[..., Any]) -> None:
    with pytest.raises(
        CoordinationError, match=r"'worker\d' has 0 batches of epoch 0, but 'worker\d' has computed"
    ):
        run(policy, [24, 0, 24], kind)


def test_a_worker_without_any_batch_is_named_where_each_shard_closes_updates() -> None:
    with pytest.raises(CoordinationError, match=r"'worker\d' has 0 batches of epoch 0"):
        run(af.Sync(), [24, 0, 24], lists, agreement="per_shard")


def test_a_worker_whose_second_epoch_is_empty_is_named() -> None:
    with pytest.raises(
        CoordinationError, match=r"'worker\d' has 0 batches of epoch 1, but 'worker\d' has computed"
    ):
        run(af.Async(), [6, 6, 6, 6, 0, 6], lists, epochs=2)


@pytest.mark.parametrize("kind", [lists, streams])
@pytest.mark.parametrize("policy", [af.Sync(), af.Async(), Backup(2, 3)], ids=str)
def test_an_epoch_that_is_empty_for_all_is_the_programs_fault(
    policy: Policy, kind: Callable[..., Any]
) -> None:
    with pytest.raises(
        ProgramError, match=r"every epoch needs a batch, but batches\(0\) gave none to 'worker\d'"
    ):
        run(policy, [0], kind)


@pytest.mark.parametrize("policy", [af.Sync(), af.Async(), Backup(2, 3)], ids=str)
def test_equal_batches_end_in_good_order(policy: Policy) -> None:
    run(policy, [7], streams, epochs=2)


def pipelines(rows: list[dict[Any, Any]]) -> Any:
    """A pipeline of what a worker has, such as its own part of the files."""
    (x,) = rows[0]
    return af.data.arrays({x: np.ones((2 * len(rows), 4), "float32")}).batch(2)


@pytest.mark.parametrize("policy", [af.Sync(), af.Async()], ids=str)
def test_a_pipeline_that_is_split_by_worker_is_named(policy: Policy) -> None:
    """Each reads its part, and the parts are not equal."""
    with pytest.raises(CoordinationError, match=r"has 8 batches of epoch 0, but 'worker\d' has computed"):
        run(policy, [12, 8, 12], pipelines)


def test_a_worker_that_comes_back_with_fewer_is_named() -> None:
    """Its first life had 240, as all have, and its second finds 3 on its disk."""
    with af.Graph(seed=0) as graph:
        x = af.placeholder("float32", (None, 4))
        w = af.Variable(af.init.he((4, 1)), name="w")
        loss = af.mean((x @ w) ** 2)
        train = af.minimize(loss, af.optim.sgd(0.1))
    left = [240, 240, 240]

    def batches(epoch: int) -> Any:
        return [{x: np.ones((2, 4), "float32")} for _ in range(left.pop() if left else 3)]

    program = af.Program(graph=graph, loss=loss, train=train, epochs=1, batches=batches)

    @sim.world("chief", ps=1, worker=3, latency_s=0.0005)
    async def crashed(world: Any) -> None:
        async with af.Cluster.simulated(program, ps=1, workers=3, work_s=0.1, world=world) as cluster:
            async for event in af.Trainer(cluster, af.Sync()).run():
                if isinstance(event, af.types.UpdateDone) and event.step == 2:
                    world.crash("worker1")
                    world.restart_later("worker1", 0.3)

    with pytest.raises(CoordinationError, match="'worker1' has 3 batches of epoch 0, but"):
        crashed()
