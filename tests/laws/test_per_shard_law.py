"""Shards that close updates by themselves: each makes those of its own serial SGD, and what it used is recorded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import event, given, settings

import actorflow as af
from actorflow import sim
from actorflow.cluster.simulated import SimulatedCluster
from actorflow.cluster.trainer import Trainer
from actorflow.coord.rules.messages import Batch, Updated
from actorflow.coord.rules.policy import Async, Backup, Policy, StaleSync, Sync
from actorflow.coord.rules.run_settings import Agreement, RunSettings
from actorflow.errors import CoordinationError
from actorflow.sim.engine.schedulers import PCT
from tests.cluster.replaying import replayed, replayed_apart
from tests.support.events import drain
from tests.support.linear import regression
from tests.support.strategies import LIMITS, examples

WORKERS, STEPS, BATCHES = 3, 6, 8
POLICIES: list[Policy] = [Sync(), Backup(2, 3), Async(), StaleSync(1)]
SETTINGS = RunSettings(heartbeat_s=0.02, missed=5, lease_s=0.3, gather_s=2.0, fence_s=2.0, stuck_s=5.0)

Ran = tuple[dict[str, Any] | None, list[Updated], CoordinationError | None]


async def ran(
    world: sim.World,
    policy: Policy,
    program: af.Program,
    *,
    runs: int = 1,
    agreement: Agreement = "per_shard",
    exactly_once: bool = False,
    **limits: int,
) -> Ran:
    """Trains so many times; returns the values, the record, and the error if there is one."""
    values, failure = None, None
    async with SimulatedCluster(program, ps=2, workers=WORKERS, world=world, work_s=0.002) as cluster:
        trainer = Trainer(cluster, policy, agreement=agreement, settings=SETTINGS, exactly_once=exactly_once)
        try:
            for _ in range(runs):
                await drain(trainer.run(**limits))
            values = {name: await cluster.run(name) for name in ("w", "b")}
        except CoordinationError as error:
            failure = error
    return values, trainer.record, failure


def check(policy: Policy, program: af.Program, values: dict[str, Any], record: Sequence[Updated]) -> None:
    """What holds of every record of a run that ended well."""
    for shard in range(2):
        used = [number for u in record for _, number in u.per_shard[shard]]
        assert len(used) == len(set(used)), "a contribution counts once on a shard"
    for updated in record:
        numbers = {number for _, number, _, _ in updated.chosen}
        assert numbers == {number for its in updated.per_shard for _, number in its}
        for its in updated.per_shard:
            ranks = [rank for rank, _ in its]
            assert ranks == sorted(set(ranks))
        if policy.fresh:
            assert {base for *_, base in updated.chosen} == {updated.version - 1}, "never stale"
    expected = replayed_apart(program, record, 2)
    for name, value in values.items():
        assert np.asarray(value).tobytes() == expected[name].tobytes(), name


@pytest.mark.parametrize("policy", POLICIES, ids=str)
@settings(max_examples=examples(15), deadline=None)
@given(schedule=sim.schedules())
def test_each_shard_makes_the_updates_of_its_own_serial_sgd(policy: Policy, schedule: Any) -> None:
    program = regression()

    @sim.world("chief", ps=2, worker=WORKERS, latency_s=0.0005, limits=LIMITS)
    async def run(world: sim.World) -> Ran:
        return await ran(world, policy, program, steps=STEPS)

    values, record, failure = run(schedule=schedule)
    assert failure is None
    assert values is not None
    assert [u.version for u in record] == list(range(1, STEPS + 1))
    assert all(len(u.scalars) == 1 for u in record)
    event(f"sets differ: {any(len(set(u.per_shard)) > 1 for u in record)}")
    check(policy, program, values, record)


@pytest.mark.parametrize("policy", POLICIES, ids=str)
@settings(max_examples=examples(15), deadline=None)
@given(
    schedule=sim.schedules(),
    faults=sim.faults(drop=2, duplicate=1, reorder=1, split=1, pause=1, crash=1),
)
def test_under_harm_as_well_from_run_to_run(policy: Policy, schedule: Any, faults: Any) -> None:
    program = regression(batches=BATCHES)

    @sim.world("chief", ps=2, worker=WORKERS, latency_s=0.0005, limits=LIMITS)
    async def run(world: sim.World) -> Ran:
        return await ran(world, policy, program, runs=2, epochs=1, exactly_once=True)

    values, record, failure = run(schedule=schedule, faults=faults)
    event(f"failure {type(failure).__name__}")
    if failure is not None:
        event(f"{failure}"[:100])
        return
    assert values is not None
    check(policy, program, values, record)
    used = Counter({(number, batch): 1 for u in record for _, number, batch, _ in u.chosen})
    batches = Counter(batch for _, batch in used.elements())
    assert set(batches) == {Batch(0, index) for index in range(BATCHES)}
    assert set(batches.values()) == {2}, "a batch counts once a run"


def test_under_one_schedule_sets_differ_where_shards_agree_on_nothing_and_never_else() -> None:
    program, policy = regression(), Backup(2, 3)

    def under(seed: int, agreement: Agreement) -> Ran:
        @sim.world("chief", ps=2, worker=WORKERS, latency_s=0.0005, limits=LIMITS)
        async def run(world: sim.World) -> Ran:
            return await ran(world, policy, program, agreement=agreement, steps=STEPS)

        told: Ran = run(schedule=PCT(seed=seed, depth=1, p=0.1))
        assert told[2] is None
        return told

    def differ(seed: int) -> bool:
        return any(len(set(updated.per_shard)) > 1 for updated in under(seed, "per_shard")[1])

    seed = next(seed for seed in range(1000, 1050) if differ(seed))
    values, record, _ = under(seed, "all")

    assert values is not None
    assert {updated.per_shard for updated in record} == {()}
    expected = replayed(program, record, 2)
    assert all(np.asarray(value).tobytes() == expected[name].tobytes() for name, value in values.items())
    assert_that_the_law_can_fail(program, *under(seed, "per_shard")[:2])


def assert_that_the_law_can_fail(
    program: af.Program, values: dict[str, Any] | None, record: Sequence[Updated]
) -> None:
    """With one contribution fewer on one shard, the bits are others."""
    assert values is not None
    first, second = next(u.per_shard for u in record if len(set(u.per_shard)) > 1)
    wrong = [
        replace(u, per_shard=(first, second[:1])) if u.per_shard == (first, second) else u for u in record
    ]

    expected = replayed_apart(program, wrong, 2)

    assert any(np.asarray(value).tobytes() != expected[name].tobytes() for name, value in values.items())
