"""A shard or the coordinator is lost: a typed error before a deadline, one version everywhere, nothing left.

A fault of the world kills any process at any message: a worker, which costs nothing but its contribution; a
shard or the coordinator, after which nobody hangs, and the shards that live stand at one version, with the
values that serial SGD over the updates that were begun has there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from actorflow import sim
from actorflow.cluster.process import process_agent
from actorflow.cluster.simulated import SimulatedCluster
from actorflow.coord.actors.shard import ShardActor
from actorflow.coord.rules.commit import Recovery
from actorflow.coord.rules.coordinator_state import CoordinatorState
from actorflow.coord.rules.messages import ShardStatus
from actorflow.coord.rules.policy import Policy, Sync
from actorflow.errors import CoordinatorLost, ShardLost
from tests.cluster.policies import MANY, policies
from tests.cluster.programs import Task, tasks
from tests.cluster.training import LINKS, Ran, in_world, judge, train
from tests.support.strategies import examples

PS = 3
LOST_S = LINKS.silence_s + 0.5
"""By then whoever waits for a process that is gone has its error, counted from the loss."""


def lost(
    policy: Policy,
    task: Task,
    schedule: Any,
    name: str,
    when_s: float,
    back_s: float | None = None,
    unheard: str | None = None,
) -> Ran:
    """Trains until a process is lost, which may start again, and judges.

    Args:
        unheard: A shard that has not heard the last that the coordinator said, when that is lost.
    """
    program = task.program()
    crashed: list[float] = []

    async def during(world: sim.World, cluster: SimulatedCluster) -> None:
        await world.sleep(when_s)
        if unheard is not None:
            world.split("chief", unheard, one_way=True)
            while not world.fault_counts.fired["split"]:
                await world.sleep(0.0005)
            await world.sleep(0.002)  # what it said at the same time to others has arrived
        crashed.append(world.loop.time())
        world.crash(name)
        if back_s is not None:
            world.restart_later(name, back_s)
        world.heal()

    async def body(world: sim.World) -> Ran:
        return await train(world, program, policy, ps=PS, during=during, epochs=40)

    found: Ran = in_world(PS, 3, body)(schedule=schedule)
    judge(policy, program, found)
    assert found.ended_s < crashed[0] + LOST_S, "too late"
    kind = CoordinatorLost if name == "chief" else ShardLost
    assert type(found.failure) is kind, found.failure
    shards = {f"ps{shard}" for shard in found.shards}
    assert not found.begun or shards == {f"ps{shard}" for shard in range(PS)} - {name}, "the others live"
    return found


@settings(max_examples=examples(40), deadline=None)
@given(
    task=tasks(4),
    which=st.integers(0, MANY - 1),
    name=st.sampled_from(["ps0", "ps1", "ps2", "chief", "chief"]),
    when_s=st.integers(0, 120).map(lambda n: n * 0.0005),
    back_s=st.sampled_from([None, 0.0, 0.03]),
    unheard=st.sampled_from([None, "ps0", "ps1", "ps2"]),
    schedule=sim.schedules(),
)
def test_the_loss_of_a_shard_or_the_coordinator_is_told_in_time_and_leaves_no_half_commit(
    task: Task,
    which: int,
    name: str,
    when_s: float,
    back_s: float | None,
    unheard: str | None,
    schedule: Any,
) -> None:
    lost(policies(3)[which], task, schedule, name, when_s, back_s, unheard if name == "chief" else None)


def test_any_process_may_crash_at_any_message() -> None:
    ends: Counter[str] = Counter()

    @settings(max_examples=examples(40), deadline=None)
    @given(
        task=tasks(6),
        which=st.integers(0, MANY - 1),
        schedule=sim.schedules(),
        faults=sim.faults(crash=1, drop=1, split=1),
    )
    def law(task: Task, which: int, schedule: Any, faults: Any) -> None:
        program, policy = task.program(), policies(3)[which]

        async def body(world: sim.World) -> Ran:
            return await train(world, program, policy, epochs=1)

        found: Ran = in_world(2, 3, body)(schedule=schedule, faults=faults)
        judge(policy, program, found)
        ends["value" if found.failure is None else type(found.failure).__name__] += 1

    law()
    assert ends["value"] * 2 >= ends.total(), ends


# -- the law can fail ------------------------------------------------------------------------------------


def discards_what_one_has_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    def timid(standings: Mapping[int, ShardStatus]) -> Recovery:
        staged = tuple(n for n, standing in sorted(standings.items()) if standing.staged is not None)
        return Recovery(min(standing.version for standing in standings.values()), (), staged)

    monkeypatch.setattr(process_agent, "recover", timid)


def mourns_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shards that do not care whether their coordinator lives."""

    async def idle(self: ShardActor, notice: Any) -> None:
        pass

    monkeypatch.setattr(ShardActor, "_succeed", idle)


def does_not_watch_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CoordinatorState, "shard_lost", lambda self, shard, error, now, *, at: ())


@pytest.mark.parametrize(
    ("fault", "name", "unheard", "said"),
    [
        (discards_what_one_has_committed, "chief", "ps1", "half a commit"),
        (mourns_nobody, "chief", "ps1", "nothing is left"),
        (does_not_watch_shards, "ps1", None, "too late"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_the_law_finds_a_cluster_that(
    fault: Any, name: str, unheard: str | None, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fault(monkeypatch)

    @settings(max_examples=300, deadline=None, database=None, derandomize=True, phases=(Phase.generate,))
    @given(when_s=st.integers(20, 120).map(lambda n: n * 0.0005), schedule=sim.schedules())
    def law(when_s: float, schedule: Any) -> None:
        lost(Sync(), Task(), schedule, name, when_s, None, unheard)

    with pytest.raises(AssertionError, match=said):
        law()
