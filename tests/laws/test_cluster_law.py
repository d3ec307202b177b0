"""A cluster that trains makes the updates of serial microbatch SGD, under any schedule and harm to workers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import event, given, settings

import actorflow as af
from actorflow import sim
from actorflow.cluster.simulated import SimulatedCluster
from actorflow.cluster.trainer import Trainer, UpdateDone
from actorflow.coord.messages import Updated
from actorflow.coord.policy import Async, Backup, Policy, StaleSync, Sync
from actorflow.coord.settings import RunSettings
from actorflow.errors import CoordinationError
from tests.cluster.programs import regression
from tests.cluster.replaying import replayed
from tests.strategies import LIMITS, examples

WORKERS, STEPS = 3, 6
POLICIES: list[Policy] = [Sync(), Backup(2, 3), Async(), StaleSync(1)]
SETTINGS = RunSettings(beat_s=0.02, missed=5, lease_s=0.3, gather_s=2.0, fence_s=2.0, stuck_s=5.0)


async def trained(world: sim.World, policy: Policy, program: af.Program) -> tuple[Any, list[Updated], Any]:
    """Trains; returns the values, the record, and the error if there is one."""
    record: list[Updated] = []
    values, failure = None, None
    async with SimulatedCluster(program, ps=2, workers=WORKERS, world=world, work_s=0.002) as cluster:
        trainer = Trainer(cluster, policy, settings=SETTINGS)
        try:
            async for done in trainer.run(steps=STEPS):
                if isinstance(done, UpdateDone):
                    record.append(done.update)  # noqa: PERF401  what came before a failure stays
            values = {name: await cluster.run(name) for name in ("w", "b")}
        except CoordinationError as error:
            failure = error
    return values, record, failure


def check(policy: Policy, program: af.Program, values: Any, record: Sequence[Updated]) -> None:
    """What every policy promises of a run that ended well."""
    assert len(record) == STEPS
    assert [u.version for u in record] == list(range(1, STEPS + 1))
    numbers = [number for u in record for _, number, _, _ in u.chosen]
    assert len(numbers) == len(set(numbers)), "a contribution counts once"
    for updated in record:
        ranks = [rank for rank, *_ in updated.chosen]
        assert ranks == sorted(set(ranks))
        if policy.fresh:
            assert {base for *_, base in updated.chosen} == {updated.version - 1}, "never stale"
    expected = replayed(program, record, 2)
    for name, value in values.items():
        assert np.asarray(value).tobytes() == expected[name].tobytes(), name


@pytest.mark.parametrize("policy", POLICIES, ids=str)
@settings(max_examples=examples(25), deadline=None)
@given(schedule=sim.schedules())
def test_any_schedule_gives_the_bits_of_serial_sgd(policy: Policy, schedule: Any) -> None:
    program = regression()

    @sim.world("chief", ps=2, worker=WORKERS, latency_s=0.0005, limits=LIMITS)
    async def run(world: sim.World) -> Any:
        return await trained(world, policy, program)

    values, record, failure = run(schedule=schedule)
    assert failure is None
    check(policy, program, values, record)


@pytest.mark.parametrize("policy", POLICIES[:2], ids=str)
@settings(max_examples=examples(25), deadline=None)
@given(schedule=sim.schedules(), faults=sim.faults(drop=2, duplicate=1, reorder=1, split=1, pause=1))
def test_harm_within_the_budget_changes_no_bit(policy: Policy, schedule: Any, faults: Any) -> None:
    program = regression()

    @sim.world("chief", ps=2, worker=WORKERS, latency_s=0.0005, limits=LIMITS)
    async def run(world: sim.World) -> Any:
        return await trained(world, policy, program)

    values, record, failure = run(schedule=schedule, faults=faults)
    event(f"failure {type(failure).__name__}")
    if failure is None:
        check(policy, program, values, record)


@pytest.mark.parametrize("policy", POLICIES[:2], ids=str)
@settings(max_examples=examples(25), deadline=None)
@given(schedule=sim.schedules(), faults=sim.faults(crash=1))
def test_crash(policy: Policy, schedule: Any, faults: Any) -> None:
    program = regression()

    @sim.world("chief", ps=2, worker=WORKERS, latency_s=0.0005, limits=LIMITS)
    async def run(world: sim.World) -> Any:
        return await trained(world, policy, program)

    values, record, failure = run(schedule=schedule, faults=faults)
    event(f"failure {type(failure).__name__} {failure}"[:100])
    if failure is None:
        check(policy, program, values, record)
