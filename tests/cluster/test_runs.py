"""Runs of a trainer: one after the other, short ones, small epochs, and runs that end in an error."""

from __future__ import annotations

from contextlib import aclosing
from typing import Any

import pytest

import actorflow as af
from actorflow import sim
from actorflow.cluster.simulated import SimulatedCluster
from actorflow.cluster.trainer import Trainer, UpdateDone
from actorflow.coord.rules.messages import Batch, Updated
from actorflow.coord.rules.policy import Async, Backup, Policy, StaleSync, Sync
from actorflow.coord.rules.run_settings import Agreement, RunSettings
from actorflow.errors import ActorflowError, ConfigError, HandlerError, StateError
from tests.support.linear import regression

POLICIES: list[Policy] = [Sync(), Backup(2, 3), Async(), StaleSync(1)]
AGREEMENTS: list[Agreement] = ["all", "per_shard"]
SETTINGS = RunSettings(heartbeat_s=0.02, lease_s=0.3, gather_s=2.0, fence_s=2.0, stuck_s=5.0)


def trained(
    policy: Policy,
    *limits: dict[str, Any],
    program: af.Program | None = None,
    agreement: Agreement = "all",
    **options: Any,
) -> list[list[Updated] | ActorflowError]:
    """Runs once for each limits; returns what was made, or the error."""

    async def main() -> list[list[Updated] | ActorflowError]:
        ends: list[list[Updated] | ActorflowError] = []
        async with SimulatedCluster(program or regression(), ps=2, workers=3, work_s=0.01) as cluster:
            trainer = Trainer(cluster, policy, agreement=agreement, settings=SETTINGS, **options)
            for limit in limits:
                try:
                    done = [each async for each in trainer.run(**limit)]
                except ActorflowError as error:
                    ends.append(error)
                else:
                    ends.append([each.update for each in done if isinstance(each, UpdateDone)])
        return ends

    told: list[list[Updated] | ActorflowError] = sim.run(main).result
    return told


def batches(made: list[Updated] | ActorflowError) -> list[Batch]:
    assert isinstance(made, list), made
    return sorted(
        {n: batch for u in made for _, n, batch, _ in u.chosen}.values(), key=lambda b: (b.epoch, b.index)
    )


@pytest.mark.parametrize("agreement", AGREEMENTS)
@pytest.mark.parametrize("policy", POLICIES, ids=str)
def test_a_run_goes_on_from_the_version_of_the_one_before(policy: Policy, agreement: Agreement) -> None:
    first, second, third = trained(policy, {"steps": 1}, {"steps": 2}, {"steps": 1}, agreement=agreement)

    assert isinstance(first, list)
    assert isinstance(second, list)
    assert isinstance(third, list)
    assert [u.version for u in (*first, *second, *third)] == [1, 2, 3, 4]


@pytest.mark.parametrize("agreement", AGREEMENTS)
@pytest.mark.parametrize("size", [1, 2, 4])
@pytest.mark.parametrize("policy", POLICIES, ids=str)
def test_epochs_may_be_smaller_than_there_are_workers(
    policy: Policy, size: int, agreement: Agreement
) -> None:
    runs = trained(
        policy,
        {"epochs": 2},
        {"epochs": 1},
        program=regression(batches=size),
        agreement=agreement,
        exactly_once=True,
    )

    assert batches(runs[0]) == [Batch(epoch, index) for epoch in range(2) for index in range(size)]
    assert batches(runs[1]) == [Batch(0, index) for index in range(size)]


class Broken(af.OptimizerActor):
    """Fails at its third update, the first time it gets there."""

    def __init__(self) -> None:
        super().__init__(af.optim.sgd(0.1))
        self.failed = False

    async def on_gradients(self, grads: Any, ctx: af.types.UpdateContext) -> Any:
        if ctx.count == 2 and not self.failed:
            self.failed = True
            raise ValueError("no such luck")
        return await super().on_gradients(grads, ctx)


@pytest.mark.parametrize("agreement", AGREEMENTS)
def test_an_error_of_an_optimizer_names_it_its_process_and_the_version(agreement: Agreement) -> None:
    error, after = trained(
        Backup(2, 3),
        {"steps": 4},
        {"steps": 4},
        program=regression(optimizer=Broken),
        agreement=agreement,
    )

    assert isinstance(error, HandlerError)
    text = "the optimizer Broken raised ValueError: no such luck on ps"
    assert error.what.startswith(text)
    assert error.what.endswith("at the update of version 2")
    assert "ValueError: no such luck" in str(error.__cause__)
    assert error.where is not None
    assert error.where.op == "apply_gradients"
    assert error.where.actor == "shard/optimizer"
    assert "linear.py:" in str(error.where.defined_at)
    assert isinstance(after, list), after
    assert after[-1].version == 6


class Short(af.OptimizerActor):
    """Says a rule, and then something else."""

    def __init__(self) -> None:
        super().__init__(af.optim.sgd(0.1))

    async def on_gradients(self, grads: Any, ctx: af.types.UpdateContext) -> Any:
        return {name: grad[:1] for name, grad in grads.items()}, ctx.state


@pytest.mark.parametrize("agreement", AGREEMENTS)
def test_a_delta_that_does_not_fit_is_blamed_on_the_class_that_gave_it(agreement: Agreement) -> None:
    (error,) = trained(Sync(), {"steps": 4}, program=regression(optimizer=Short), agreement=agreement)

    assert isinstance(error, StateError)
    assert error.what.startswith("Short's delta for '")
    assert error.where is not None
    assert error.where.op == "apply_gradients"


def test_a_policy_that_shards_cannot_keep_is_refused_by_the_trainer() -> None:
    class Two(Policy):
        """Takes two."""

        def takes(self, view: Any) -> list[int]:
            return [a.rank for a in view.complete[:2]]

    with pytest.raises(ConfigError, match="Two names none"):
        trained(Two(), {"steps": 1}, agreement="per_shard")


@pytest.mark.parametrize("agreement", AGREEMENTS)
@pytest.mark.parametrize("short", ["lower", "wait"])
def test_a_run_that_loses_a_worker_goes_on_as_its_policy_says(short: Any, agreement: Agreement) -> None:
    @sim.world("chief", ps=2, worker=3, latency_s=0.0005)
    async def run(world: sim.World) -> list[Updated]:
        async with SimulatedCluster(regression(), ps=2, workers=3, world=world, work_s=0.01) as cluster:
            trainer = Trainer(cluster, Sync(short=short), agreement=agreement, settings=SETTINGS)
            async for done in trainer.run(steps=6):
                if done.step == 2 and isinstance(done, UpdateDone):
                    world.crash("worker1")
                    world.restart_later("worker1", 0.5)
        return trainer.record

    record = run()

    sizes = [len(updated.chosen) for updated in record]
    assert len(record) == 6
    assert min(sizes[2:]) == (2 if short == "lower" else 3)


@pytest.mark.parametrize("agreement", AGREEMENTS)
@pytest.mark.parametrize("policy", POLICIES, ids=str)
def test_a_run_goes_on_after_one_that_was_left_early(policy: Policy, agreement: Agreement) -> None:
    async def main() -> list[int]:
        async with SimulatedCluster(regression(), ps=2, workers=3, work_s=0.01) as cluster:
            trainer = Trainer(cluster, policy, agreement=agreement, settings=SETTINGS)
            for steps in (2, 3):
                async with aclosing(trainer.run(epochs=2)) as events:
                    async for done in events:
                        if done.step == steps:
                            break
            last = trainer.run(steps=2)
            return [done.update.version async for done in last if isinstance(done, UpdateDone)]

    versions = sim.run(main).result

    assert versions[0] > 5
    assert versions[1] == versions[0] + 1
