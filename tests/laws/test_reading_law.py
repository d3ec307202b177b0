"""Whoever reads a shard, at any moment of a run and after its coordinator is lost, sees updates, whole and in order.

At drawn moments, and around each commit, a reader where the shard is asks it for its record, pulls as workers do,
reads each variable, and asks for the record again. What it saw is compared with serial SGD over the updates that were begun:

* each variable is what its own count of updates makes it, and that count is between the record before and
  one more than the record after: the next commit may have reached it;
* what was pulled is of the version that was said, all of it, between the two records.
"""

from __future__ import annotations

import asyncio
from asyncio import Future
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import Phase, given, reject, settings
from hypothesis import strategies as st

from actorflow import sim
from actorflow.cluster.process.messages import SHARD
from actorflow.cluster.simulated import SimulatedCluster
from actorflow.coord.actors.peer_shards import ReadStats
from actorflow.coord.actors.pending_update import PendingUpdate
from actorflow.coord.actors.shard import ShardActor
from actorflow.coord.rules.messages import Pull, Pulled
from actorflow.coord.rules.participant import Do, Participant, chain_digest
from actorflow.coord.rules.policy import Policy
from actorflow.dataflow.state.register import Register
from actorflow.dataflow.state.variable import Read
from actorflow.errors import ActorflowError, NumericError
from actorflow.plan.program import Holder, Holding
from tests.cluster.policies import MANY, policies
from tests.cluster.programs import Task, tasks
from tests.cluster.replaying import replayed
from tests.cluster.training import LINKS, Ran, in_world, judge, train
from tests.support.faults import planted
from tests.support.strategies import examples


@dataclass
class Seen:
    """What a reader has seen of a shard at one moment.

    Attributes:
        before: The version of the shard before it read, by its record.
        sets: The digest of the updates that made it.
        after: The version afterwards.
        variables: Its variables, each with how many updates it has counted itself.
        pulled: What the shard gave.
    """

    before: int
    sets: str
    after: int
    variables: dict[str, tuple[np.ndarray, int]]
    pulled: Pulled | None = None


async def _seen(cluster: SimulatedCluster, name: str, pulls: bool) -> Seen:
    """Reads a shard; runs on its host."""
    process = cluster.process(name)
    shard = process.system.actors[SHARD]
    before = await shard.ask(ReadStats())
    variables, pulled = {}, None
    if pulls:
        try:
            pulled = await shard.ask(Pull(0))
        except ActorflowError:  # the run is lost, so that it gives nothing
            pass
        else:
            pulled = replace(pulled, values={n: np.array(value) for n, value in pulled.values.items()})
    for variable in cluster.layout.trained[cluster.ps.index(name)]:
        holder = process.executor.resources.find(Holder(Holding.RESOURCE, variable))
        value, count = await holder.ask(Read())
        variables[variable] = np.array(value), count - 1  # the first value is not an update's
    after = await shard.ask(ReadStats())
    return Seen(before.version, before.sets, after.version, variables, pulled)


@dataclass(frozen=True)
class Moments:
    """When it is read.

    Attributes:
        gaps: Half milliseconds until the next reading, and whether it pulls as well.
        turns: At each commit of a shard, how many turns of its loop later it is read besides.
    """

    gaps: tuple[tuple[int, bool], ...]
    turns: tuple[int, ...]


def moments() -> st.SearchStrategy[Moments]:
    """Returns a strategy of moments."""
    gaps = st.lists(st.tuples(st.integers(0, 12), st.booleans()), min_size=4, max_size=24).map(tuple)
    return st.builds(Moments, gaps, st.lists(st.integers(0, 12), min_size=8, max_size=8).map(tuple))


class Reader:
    """Reads the shards of a cluster, and keeps what it has seen."""

    def __init__(self, world: sim.World, cluster: SimulatedCluster, when: Moments, lost_ms: float) -> None:
        self.seen: list[Seen] = []
        self.at_commits: list[Future[Seen]] = []
        self._world, self._cluster, self._when, self._lost_ms = world, cluster, when, lost_ms

    async def read(self) -> None:
        """Reads at moments before and after the chief is lost."""
        world, chief = self._world, self._world.host("chief")
        began = world.loop.time()
        with patch.object(Participant, "obey", self._obeying(Participant.obey)):
            for gap, pulls in self._when.gaps:
                await world.sleep(gap * 0.0005)
                if chief.alive and world.loop.time() - began >= self._lost_ms * 0.001:
                    world.crash("chief")
                for name in self._cluster.ps:
                    if SHARD in world.host(name).system.actors:
                        self.seen.append(await world.host(name).run(_seen(self._cluster, name, pulls)))
            if chief.alive:
                world.crash("chief")
            await world.sleep(LINKS.silence_s)
        self.seen += [await reading for reading in self.at_commits]

    def _obeying(self, obey: Any) -> Any:
        def obeying(participant: Participant, commit: Any) -> Do:
            do: Do = obey(participant, commit)
            if do is Do.COMMIT:
                self.at_commits.append(
                    self._world.host(f"ps{participant.shard}").run(self._later(participant))
                )
            return do

        return obeying

    async def _later(self, participant: Participant) -> Seen:
        turns = self._when.turns
        for _ in range(turns[participant.version % len(turns)]):
            await asyncio.sleep(0)
        return await _seen(self._cluster, f"ps{participant.shard}", pulls=True)


def reads(policy: Policy, task: Task, ps: int, when: Moments, lost_ms: float, schedule: Any) -> int:
    """Trains, reads at moments before and after the chief is lost, and judges.

    Args:
        policy: How it trains.
        task: What.
        ps: How many shards there are.
        when: When it is read.
        lost_ms: When the chief is lost; after the last reading at the latest.
        schedule: Of the world.

    Returns:
        How many readings saw fewer updates than their shard had made in the end.
    """
    program = task.program()

    async def body(world: sim.World) -> tuple[Ran, list[Seen]]:
        seen: list[Seen] = []

        async def during(world: sim.World, cluster: SimulatedCluster) -> None:
            reader = Reader(world, cluster, when, lost_ms)
            await reader.read()
            seen.extend(reader.seen)

        return await train(world, program, policy, ps=ps, during=during, epochs=40), seen

    try:
        found, seen = in_world(ps, 3, body)(schedule=schedule)
    except NumericError:  # such a rate, momentum and staleness diverge
        reject()
    made = [found.begun[v] for v in sorted(found.begun)]

    @cache
    def after(updates: int) -> Mapping[str, np.ndarray]:
        return replayed(program, made[:updates], ps)

    for each in seen:
        _judge(each, made, after)
    judge(policy, program, found)
    end = min((stats.version for stats in found.shards.values()), default=0)
    return sum(count < end for each in seen for _, count in each.variables.values())


def _judge(seen: Seen, made: list[Any], after: Callable[[int], Mapping[str, np.ndarray]]) -> None:
    sets = ""
    for updated in made[: seen.before]:
        sets = chain_digest(sets, updated.version, [(rank, number) for rank, number, _, _ in updated.chosen])
    assert seen.sets == sets, "its record is that of what was begun"
    for name, (value, count) in seen.variables.items():
        assert seen.before <= count <= min(seen.after + 1, len(made)), f"{name} has {count} updates: {seen}"
        assert value.tobytes() == after(count)[name].tobytes(), f"{name} is not what serial SGD gives"
    if seen.pulled is not None:
        assert seen.before <= seen.pulled.version <= seen.after
        for name, value in seen.pulled.values.items():
            expected = after(seen.pulled.version)[name]
            assert value.tobytes() == expected.tobytes(), f"what was pulled of {name} is of another version"


def test_a_reader_sees_what_serial_sgd_gives_whenever_it_reads() -> None:
    early = 0

    @settings(max_examples=examples(40), deadline=None)
    @given(
        task=tasks(4),
        which=st.integers(0, MANY - 1),
        ps=st.sampled_from([1, 1, 2, 3]),
        when=moments(),
        lost_ms=st.integers(0, 60),
        schedule=sim.schedules(),
    )
    def law(task: Task, which: int, ps: int, when: Any, lost_ms: int, schedule: Any) -> None:
        nonlocal early
        early += reads(policies(3)[which], task, ps, when, lost_ms, schedule)

    law()
    assert early, (
        "what is read is of an earlier version than what its shard ends with: shards go on meanwhile"
    )


# -- the law can fail ------------------------------------------------------------------------------------


def loses_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable that counts its third update and does not make it."""

    @planted(monkeypatch, Register, "commit")
    def lossy(commit: Any, self: Register, group: Any) -> Any:
        if self.version == 3:
            self.staged.pop(group)
            self.version += 1
            return self.version
        return commit(self, group)


def notes_too_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """A shard that notes two updates at its third."""

    @planted(monkeypatch, Participant, "committed")
    def early(committed: Any, self: Participant) -> Any:
        done = committed(self)
        self.version += self.version == 3
        return done


def reads_while_it_commits(monkeypatch: pytest.MonkeyPatch) -> None:
    """A shard that gives its values between a commit, which takes a while, and its record of that."""

    class Unlocked:
        async def __aenter__(self) -> None:
            pass

        async def __aexit__(self, *_: object) -> None:
            pass

    on_start, commit = ShardActor.on_start, PendingUpdate.commit

    async def lasting(self: PendingUpdate) -> None:
        await commit(self)
        for _ in range(64):
            await asyncio.sleep(0)

    def unlocked(self: ShardActor) -> None:
        self._steady = Unlocked()  # type: ignore[assignment]
        on_start(self)

    monkeypatch.setattr(ShardActor, "on_start", unlocked)
    monkeypatch.setattr(PendingUpdate, "commit", lasting)


@pytest.mark.usefixtures("only_the_law")
@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (loses_one, "is not what serial SGD gives"),
        (notes_too_early, "its record is that|has . updates"),
        (reads_while_it_commits, "is of another version"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_the_law_finds_a_shard_that(fault: Any, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fault(monkeypatch)

    @settings(max_examples=60, deadline=None, database=None, derandomize=True, phases=(Phase.generate,))
    @given(when=moments(), schedule=sim.schedules())
    def law(when: Any, schedule: Any) -> None:
        reads(policies(3)[0], Task(), 1, when, 100, schedule)

    with pytest.raises(AssertionError, match=said):
        law()
