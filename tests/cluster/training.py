"""Training on a cluster in a simulated world, watched: what every law looks at, and what every run must keep."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any
from unittest.mock import patch

import numpy as np

import actorflow as af
from actorflow import sim
from actorflow.cluster.process.messages import SHARD, WORKER
from actorflow.cluster.simulated import SimulatedCluster
from actorflow.coord.actors.peer_shards import ReadStats, ShardStats
from actorflow.coord.actors.worker import AwaitEnd, WorkerDone
from actorflow.coord.rules.commit import Commitment
from actorflow.coord.rules.contribution_table import ContributionTable
from actorflow.coord.rules.messages import Updated
from actorflow.coord.rules.participant import chain_digest
from actorflow.coord.rules.policy import Async, Policy, StaleSync
from actorflow.coord.rules.run_settings import RunSettings
from actorflow.dataflow.state.variable import Read
from actorflow.errors import ActorflowError, CoordinationError
from actorflow.plan.program import Holder, Holding
from actorflow.transport.rules.link_settings import LinkSettings
from tests.cluster.begun import about_to_begin
from tests.cluster.replaying import replayed
from tests.support.events import drain

LIMITS = sim.Limits(max_steps=60_000)
SETTINGS = RunSettings(heartbeat_s=0.02, missed=5, lease_s=0.3, gather_s=2.0, fence_s=2.0, stuck_s=5.0)
LINKS = LinkSettings(silence_s=1.0, heartbeat_s=0.25, resend_s=0.05, ack_s=0.01)
"""So that what is lost is missed soon."""

DEADLINE_S = 12.0
"""Every run of some milliseconds of work ends by then, whatever goes wrong: a peer is lost after `silence_s`,
a run that does not move after `stuck_s`."""

During = Callable[[sim.World, SimulatedCluster], Awaitable[object]]
"""What is done to a world while it trains."""


@dataclass
class Ran:
    """What came of a run.

    Attributes:
        record: The updates that whoever trained heard of.
        begun: The updates that the coordinator told the shards to make, by the version that each would make.
        failure: What it ended with; None in good order.
        shards: What each shard that still has its first life says of itself.
        values: The variables on these shards.
        workers: What the workers that live say of themselves; all have ended.
        spreads: How far apart the clocks of the living were, whenever one moved.
        ended_s: How long it took, in virtual time.
    """

    ps: int
    record: list[Updated] = field(default_factory=list)
    begun: dict[int, Updated] = field(default_factory=dict)
    failure: ActorflowError | None = None
    shards: dict[int, ShardStats] = field(default_factory=dict)
    values: dict[str, np.ndarray] = field(default_factory=dict)
    workers: dict[str, WorkerDone] = field(default_factory=dict)
    spreads: list[int] = field(default_factory=list)
    ended_s: float = 0.0


@contextmanager
def watched(ran: Ran) -> Iterator[None]:
    """Notes what a coordinator begins: it may be lost before anybody hears of it."""
    make, begin, used = ContributionTable.make, Commitment.begin, ContributionTable.commit
    chosen: list[Updated] = []

    def making(self: ContributionTable, ranks: Any) -> Any:
        found = make(self, ranks)
        chosen.append(about_to_begin(self))
        return found

    def beginning(self: Commitment, numbers: Any) -> Any:
        assert numbers == tuple((rank, number) for rank, number, _, _ in chosen[-1].chosen)
        ran.begun[self.version + 1] = replace(chosen[-1], version=self.version + 1)
        return begin(self, numbers)

    def using(self: ContributionTable, version: int) -> Any:
        found = used(self, version)
        clocks = [self.clock[rank] for rank in self._members.alive]
        ran.spreads.append(max(clocks, default=0) - min(clocks, default=0))
        return found

    with (
        patch.object(ContributionTable, "make", making),
        patch.object(Commitment, "begin", beginning),
        patch.object(ContributionTable, "commit", using),
    ):
        yield


async def train(
    world: sim.World,
    program: af.Program,
    policy: Policy,
    *,
    ps: int = 2,
    workers: int = 3,
    settings: RunSettings = SETTINGS,
    exactly_once: bool = False,
    during: During | None = None,
    work_s: float = 0.002,
    **limits: Any,
) -> Ran:
    """Trains, and looks at the shards afterwards. What is no typed error, or comes too late, is raised."""
    ran = Ran(ps)
    cluster = SimulatedCluster(program, ps=ps, workers=workers, world=world, work_s=work_s, links=LINKS)
    began = world.loop.time()
    with watched(ran):
        async with cluster:
            trainer = af.Trainer(cluster, policy, settings=settings, exactly_once=exactly_once)
            ran.record = trainer.record
            harm = None if during is None else asyncio.ensure_future(during(world, cluster))
            try:
                async with asyncio.timeout(DEADLINE_S):
                    await drain(trainer.run(**limits))
            except CoordinationError as error:
                ran.failure = error
            ran.ended_s = world.loop.time() - began
            if harm is not None:
                await harm
            await world.sleep(LINKS.silence_s + 3 * settings.heartbeat_s)  # all have heard
            await _look(world, cluster, ran)
            await _check_left(world, cluster, ran)
    return ran


async def _look(world: sim.World, cluster: SimulatedCluster, ran: Ran) -> None:
    """Reads every shard where it lives: no coordinator, and no link, has a part in it."""
    for shard, name in enumerate(cluster.ps):
        host = world.host(name)
        if not host.alive or host.incarnation > 1 or SHARD not in host.system.actors:
            continue
        ran.shards[shard] = await host.run(host.system.actors[SHARD].ask(ReadStats()))
        resources = cluster.process(name).executor.resources
        for variable in cluster.layout.trained[shard]:
            value = await host.run(resources.find(Holder(Holding.RESOURCE, variable)).ask(Read()))
            ran.values[variable] = np.array(value[0])


async def _check_left(world: sim.World, cluster: SimulatedCluster, ran: Ran) -> None:
    """Asserts that nothing of a run is left: nobody who recruits, decides or computes, and no open ask."""
    for host in filter(lambda host: host.alive, world.hosts):
        actors = host.system.actors
        if host.name in cluster.workers and WORKER in actors:
            ran.workers[host.name] = await host.run(actors[WORKER].ask(AwaitEnd(), DEADLINE_S))
    for host in filter(lambda host: host.alive, world.hosts):
        left = [
            name for name in host.system.actors if name.startswith(("coordinator", "recruiter", "hearing"))
        ]
        assert not left, (host.name, left)
        stats = host.system.stats()
        assert stats.open_asks == 0, (host.name, stats)
        assert stats.issued == stats.replied + stats.failed + stats.timed_out + stats.cancelled, host.name


def judge(policy: Policy, program: af.Program, ran: Ran) -> None:
    """Asserts what every policy promises of every run, however it ended."""
    record = ran.record
    assert [u.version for u in record] == list(range(1, len(record) + 1))
    assert ran.ended_s < DEADLINE_S
    numbers = [number for u in record for _, number, _, _ in u.chosen]
    assert len(numbers) == len(set(numbers)), "a contribution counts once"
    dropped = [number for u in record for number, _ in u.dropped]
    assert not set(dropped) & set(numbers), "what was dropped counts nowhere"
    for updated in record:
        assert len(updated.dropped_by) == len(updated.dropped), "whose each was is known"
        ranks = [rank for rank, *_ in updated.chosen]
        assert ranks == sorted(set(ranks)), "in rank order, one of each"
        if policy.fresh:
            assert {base for *_, base in updated.chosen} == {updated.version - 1}, "never stale"
        elif isinstance(policy, Async | StaleSync):
            assert len(ranks) == 1, "each alone"
    if isinstance(policy, StaleSync):
        assert max(ran.spreads, default=0) <= policy.bound + 1, "too far ahead"
    _judge_shards(program, ran)


def _judge_shards(program: af.Program, ran: Ran) -> None:
    """Asserts that all shards made the same updates, those that were recorded, from the same contributions."""
    versions = {stats.version for stats in ran.shards.values()}
    assert len(versions) <= 1, f"half a commit: {ran.shards}"
    if not versions:
        return
    (version,) = versions
    assert version >= len(ran.record), "what was told is made"
    if ran.failure is None:
        assert version == len(ran.record), "what is made is told"
    made = [ran.begun[v] for v in range(1, version + 1)]
    assert [u.chosen for u in ran.record] == [u.chosen for u in made[: len(ran.record)]]
    sets = ""
    for updated in made:
        sets = chain_digest(sets, updated.version, [(rank, number) for rank, number, _, _ in updated.chosen])
    for shard, stats in ran.shards.items():
        assert stats.sets == sets, f"shard {shard} made other updates"
        assert stats.staleness.count == sum(len(u.chosen) for u in made), "each applied once"
        assert not stats.open, "nothing is left that nobody will use"
    expected = replayed(program, made, ran.ps)
    for name, value in ran.values.items():
        assert value.tobytes() == expected[name].tobytes(), f"{name} is not what serial SGD gives"


def in_world(ps: int, workers: int, body: Callable[[sim.World], Awaitable[Any]]) -> Any:
    """Returns `body` in a world of so many processes, to be called with a schedule and faults."""

    @sim.world("chief", ps=ps, worker=workers, latency_s=0.0005, limits=LIMITS)
    async def run(world: sim.World) -> Any:
        return await body(world)

    return run
