"""Workers that are paused, cut off, late, or leave: by hand, one after the other."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from actorflow import sim
from actorflow.cluster.process.messages import WORKER
from actorflow.cluster.simulated import SimulatedCluster
from actorflow.coord.rules.policy import Async, Backup, Policy, Short, StaleSync, Sync
from actorflow.coord.rules.run_settings import RunSettings
from actorflow.errors import QuorumLost
from tests.cluster.programs import Task
from tests.cluster.training import LINKS, SETTINGS, Ran, in_world, judge, train

TASK = Task((2,) * 8)
SUSPECTED_S = SETTINGS.heartbeat_s * SETTINGS.missed
POLICIES: list[Policy] = [Sync(), Backup(2, 3), Async(), StaleSync(1)]
each = pytest.mark.parametrize("policy", POLICIES, ids=str)


def ran(policy: Policy, during: Any, *, workers: int = 3, **options: Any) -> Ran:
    program = TASK.program()
    options = {"work_s": 0.02, **({} if "steps" in options else {"epochs": 6}), **options}

    async def body(world: sim.World) -> Ran:
        return await train(world, program, policy, workers=workers, during=during, **options)

    found: Ran = in_world(2, workers, body)()
    judge(policy, program, found)
    return found


def ranks(found: Ran) -> list[set[int]]:
    """The ranks whose contributions made each update."""
    return [{rank for rank, *_ in updated.chosen} for updated in found.record]


def alive(found: Ran) -> list[int]:
    """How many lived at each update, without repetitions."""
    counts = [updated.alive for updated in found.record]
    return [n for n, before in zip(counts, [0, *counts], strict=False) if n != before]


@each
def test_one_that_was_paused_for_longer_than_suspicion_is_fenced_and_joins_again(policy: Policy) -> None:
    async def during(world: sim.World, cluster: SimulatedCluster) -> None:
        await world.sleep(0.07)
        world.pause("worker1", SUSPECTED_S + 0.06)

    found = ran(policy, during, steps=30)

    assert found.failure is None
    assert alive(found) == [3, 2, 3]
    why = dict(pair for updated in found.record for pair in updated.dropped)
    (number,) = [n for n, text in why.items() if text == "its worker is silent"] or [0]
    used = {n for updated in found.record for _, n, _, _ in updated.chosen}
    assert number not in used, "what it had begun counts nowhere"
    assert 1 in ranks(found)[-1] | ranks(found)[-2] | ranks(found)[-3], "it takes part again"


@each
@pytest.mark.parametrize("place", ["ps1", "chief"])
def test_one_that_is_cut_off_from_one_process_is_out_and_comes_back(policy: Policy, place: str) -> None:
    async def during(world: sim.World, cluster: SimulatedCluster) -> None:
        await world.sleep(0.07)
        world.split("worker1", place)
        await world.sleep(LINKS.silence_s + 0.3)
        world.heal()

    found = ran(policy, during, steps=100 if policy.fresh else 210)

    assert found.failure is None
    assert 1 in set().union(*ranks(found)[:6])
    assert 1 in set().union(*ranks(found)[-6:]), "it takes part again"


def test_a_worker_may_be_late() -> None:
    """The run begins without it after `gather_s`, and takes it in when it comes."""

    async def during(world: sim.World, cluster: SimulatedCluster) -> None:
        world.crash("worker2")
        await world.sleep(0.4)
        await world.restart("worker2")

    settings = RunSettings(**{**vars_of(SETTINGS), "gather_s": 0.2})
    found = ran(Sync(), during, settings=settings, steps=30)

    assert found.failure is None
    assert alive(found) == [2, 3]
    assert {2} <= ranks(found)[-1]


def vars_of(settings: RunSettings) -> dict[str, Any]:
    return {name: getattr(settings, name) for name in settings.__slots__}


@each
def test_one_that_leaves_in_good_order_is_missed_by_nobody_and_comes_again(policy: Policy) -> None:
    """What it had completed counts; the worker supervisor has it back a heartbeat later."""

    async def during(world: sim.World, cluster: SimulatedCluster) -> None:
        await world.sleep(0.07)
        system = world["worker0"].system
        await world["worker0"].run(system.stop(system.actors[WORKER]))

    found = ran(policy, during, steps=30)

    assert found.failure is None
    assert alive(found) == [3, 2, 3]
    assert 0 in set().union(*ranks(found)[-4:])


GONE: list[tuple[Short, float]] = [("wait", 0.5), ("fail", 60.0)]


@pytest.mark.parametrize(("short", "wait_s"), GONE)
def test_without_enough_workers_the_quorum_is_lost(short: Short, wait_s: float) -> None:
    gone: list[float] = []

    async def during(world: sim.World, cluster: SimulatedCluster) -> None:
        await world.sleep(0.07)
        for name in ("worker1", "worker2"):
            world.crash(name)
        gone.append(world.loop.time())

    found = ran(Sync(short=short, wait_s=wait_s), during, steps=30)

    assert isinstance(found.failure, QuorumLost)
    assert "1 of 3 are alive" in str(found.failure) or "2 of 3 are alive" in str(found.failure)
    limit = SUSPECTED_S + 3 * SETTINGS.heartbeat_s + (wait_s if short == "wait" else 0.0)
    assert found.ended_s < gone[0] + limit + 0.1


def test_who_waits_goes_on_when_they_return_in_time() -> None:
    async def during(world: sim.World, cluster: SimulatedCluster) -> None:
        await world.sleep(0.07)
        for name in ("worker1", "worker2"):
            world.crash(name)
            world.restart_later(name, 0.3)

    found = ran(Sync(short="wait", wait_s=2.0), during, epochs=6)

    assert found.failure is None
    assert all(updated.alive == 3 for updated in found.record[-3:])


def test_who_may_go_on_with_fewer_does() -> None:
    async def during(world: sim.World, cluster: SimulatedCluster) -> None:
        await world.sleep(0.07)
        for name in ("worker1", "worker2"):
            world.crash(name)

    found = ran(Sync(short="lower"), during, epochs=3)

    assert found.failure is None
    assert ranks(found)[-1] == {0}


@each
def test_exactly_once_every_batch_counts_though_some_were_dropped_and_a_worker_crashed(
    policy: Policy,
) -> None:
    async def during(world: sim.World, cluster: SimulatedCluster) -> None:
        world.straggle("worker2", sim.Straggler(p=0.3, stall_s=0.05))
        await world.sleep(0.07)
        world.crash("worker1")
        world.restart_later("worker1", 0.05)

    found = ran(policy, during, exactly_once=True, epochs=3)

    assert found.failure is None
    counted = Counter(batch for updated in found.record for _, _, batch, _ in updated.chosen)
    assert sorted((b.epoch, b.index) for b in counted) == [(e, i) for e in range(3) for i in range(8)]
    assert set(counted.values()) == {1}
    if isinstance(policy, Backup):  # elsewhere what the crash caught may have been complete
        assert any(updated.dropped for updated in found.record)
