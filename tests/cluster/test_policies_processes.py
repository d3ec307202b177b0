"""Every policy over one cluster of real processes: what comes of it is what the record says, bit for bit.

Its program has a large table. Pulls and gradients move the rows that batches touch, and not the table.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

import actorflow as af
from actorflow.cluster.inspect.monitor import sockets
from actorflow.cluster.inspect.poll_all import DebugAddress, poll_all
from actorflow.cluster.inspect.reports import LookQuestion
from actorflow.cluster.local import LocalCluster
from actorflow.coord.actors.peer_shards import ShardStats
from actorflow.coord.rules.messages import Updated
from actorflow.coord.rules.policy import View
from actorflow.transport.rules.address import Address
from actorflow.transport.zeromq import request
from tests.cluster.children import large
from tests.cluster.replaying import replayed, replayed_apart
from tests.support.busy import HANG_S
from tests.support.events import drain
from tests.support.runs import own_runs

STEPS, PS, WORKERS = 8, 2, 3
DEADLINE_S = HANG_S
Values = dict[str, np.ndarray]


@dataclass(frozen=True)
class Grace(af.Policy):
    """A user's own: the first m make an update, and whoever comes within `grace_s` after the m-th."""

    m: int
    grace_s: float

    def takes(self, view: View) -> Collection[int]:
        enough = len(view.complete) >= min(self.m, len(view.alive))
        all_here = len(view.complete) >= len(view.alive)
        over = enough and view.now >= self._closes(view)
        return [a.rank for a in view.complete] if all_here or over else ()

    def wakes(self, view: View) -> float | None:
        return self._closes(view) if len(view.complete) >= self.m else None

    def _closes(self, view: View) -> float:
        return view.complete[min(self.m, len(view.complete)) - 1].at + self.grace_s

    def __str__(self) -> str:
        return "grace"


POLICIES: Mapping[af.Policy, Collection[int]] = {
    af.Sync(): {3},
    af.Backup(2, 3): {2},
    af.Async(): {1},
    af.StaleSync(1): {1},
    Grace(2, 0.005): {2, 3},
}
"""How many contributions an update may have, while all three live."""


@dataclass(frozen=True)
class Trained:
    """What one trainer did.

    Attributes:
        first, last: The variables before its first update, and after its last.
        moved: Bytes that all processes have sent meanwhile.
    """

    policy: af.Policy
    first: Values
    last: Values
    record: list[Updated]
    shards: list[ShardStats]
    moved: int

    def of(self, shard: int) -> list[tuple[tuple[int, int], ...]]:
        """Returns the (rank, number) of what made each update of a shard."""
        alike = [tuple((rank, number) for rank, number, *_ in u.chosen) for u in self.record]
        return [
            u.per_shard[shard] if u.per_shard else same for u, same in zip(self.record, alike, strict=True)
        ]


async def moved(folder: Path) -> int:
    """Returns how many bytes the processes have sent: all of them answer, over their monitors."""

    def place(name: str, path: Path) -> DebugAddress:
        return DebugAddress(name, lambda payload, s: request(Address(f"ipc://{path}"), payload, s))

    places = [place(*each) for each in sockets(folder).items()]
    found = await asyncio.to_thread(poll_all, places, LookQuestion(actors=False), timeout_s=DEADLINE_S)
    assert len(found.reports) == 1 + PS + WORKERS
    return sum(report.totals.bytes_out for report in found.reports.values())


async def trained(cluster: LocalCluster, trainer: af.Trainer, first: Values) -> Trained:
    assert cluster.folder is not None
    before = await moved(cluster.folder.path)
    await drain(trainer.run(steps=STEPS))
    size = await moved(cluster.folder.path) - before
    last = {name: np.array(await cluster.run(name)) for name in first}
    return Trained(trainer.policy, first, last, list(trainer.record), await trainer.shards(), size)


@pytest.fixture(name="runs", scope="module")
def _runs() -> list[Trained]:
    """One run of each policy, and one of shards that agree on nothing: starting processes takes longest."""

    async def main() -> list[Trained]:
        async with af.Cluster.local(large, ps=PS, workers=WORKERS) as cluster:
            names = cluster.program.train.node.attrs["resources"]
            now = {name: np.array(await cluster.run(name)) for name in names}
            trainers = [af.Trainer(cluster, policy) for policy in POLICIES]
            trainers.append(af.Trainer(cluster, af.Backup(2, 3), agreement="per_shard"))
            done: list[Trained] = []
            for trainer in trainers:
                done.append(await trained(cluster, trainer, now))
                now = done[-1].last
            return done

    with own_runs() as left:
        done = af.run(main())
        assert left() == []
    return done


def same(found: Values, expected: Values) -> bool:
    return {n: v.tobytes() for n, v in found.items()} == {n: v.tobytes() for n, v in expected.items()}


@pytest.mark.processes
def test_what_each_policy_trains_is_what_its_record_says(runs: list[Trained]) -> None:
    program = large(0)
    for run, sizes in zip(runs[:-1], POLICIES.values(), strict=True):
        assert {len(updated.chosen) for updated in run.record} <= set(sizes), run.policy
        assert len({shard.sets for shard in run.shards}) == 1, run.policy
        assert same(run.last, replayed(program, run.record, PS, run.first)), run.policy
    *made, last = runs[0].record
    fewer = replace(last, chosen=last.chosen[1:], bases=last.bases[1:], steps=last.steps[1:])
    assert not same(runs[0].last, replayed(program, [*made, fewer], PS, runs[0].first))


@pytest.mark.processes
def test_what_shards_that_agree_on_nothing_train_is_what_each_says(runs: list[Trained]) -> None:
    apart = runs[-1]

    assert all(len(each) == 2 for shard in range(PS) for each in apart.of(shard))
    assert same(apart.last, replayed_apart(large(0), apart.record, PS, apart.first))


@pytest.mark.processes
def test_each_shard_makes_each_update_once_and_uses_no_gradient_twice(runs: list[Trained]) -> None:
    for run in runs:
        assert [updated.version for updated in run.record] == list(range(1, STEPS + 1)), run.policy
        assert {updated.alive for updated in run.record} == {WORKERS}
        for shard, stats in enumerate(run.shards):
            used = [one for update in run.of(shard) for one in update]
            assert len(set(used)) == len(used) == stats.staleness.count, run.policy
            assert stats.version == STEPS


@pytest.mark.processes
def test_rows_are_moved_and_not_their_table(runs: list[Trained]) -> None:
    """One pull or one gradient of the whole table would be ten times what a run may move, and it makes 8 to 24."""
    table = runs[0].first["table"].nbytes

    assert table == 3_200_000
    for run in runs:
        assert 1_000 < run.moved < table / 10, (run.policy, run.moved)
        assert run.first["table"].tobytes() != run.last["table"].tobytes()
