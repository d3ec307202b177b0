"""Optimizers that users wrote, unchanged, over real processes, two shards and the death of a worker.

What comes of it is what the record says: one process that makes the same updates one after the other, by the same
optimizer, has the same variables bit for bit.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import actorflow as af
from actorflow.cluster.local import LocalCluster
from actorflow.coord.rules.messages import Updated
from tests.cluster.children import example, lookahead, staleness_aware
from tests.cluster.replaying import replayed_by_its_actor

KILLED_AT, STEPS = 6, 20


def told(capsys: pytest.CaptureFixture[str]) -> bool:
    return f"update {KILLED_AT}: worker1, process " in capsys.readouterr().out


async def values(cluster: af.Cluster) -> dict[str, np.ndarray]:
    names = cluster.program.train.node.attrs["resources"]
    return {name: np.array(await cluster.run(name)) for name in names}


async def trained(cluster: af.Cluster, policy: af.Policy, killed_at: int = 0) -> list[Updated]:
    """As `examples/optimizers_on_processes.py` does it."""
    trainer = await example("optimizers_on_processes").train(
        cluster, policy, killed_at=killed_at, steps=STEPS
    )
    return list(trainer.record)


def same(found: Any, expected: Any) -> bool:
    return {n: v.tobytes() for n, v in found.items()} == {n: v.tobytes() for n, v in expected.items()}


@pytest.mark.processes
def test_lookahead_over_two_shards_with_a_worker_killed_is_what_its_record_says(
    left: Any, capsys: Any
) -> None:
    async def main() -> tuple[list[Updated], Any]:
        async with LocalCluster(lookahead, ps=2, workers=4) as cluster:
            record = await trained(cluster, af.Backup(3, 4), killed_at=KILLED_AT)
            return record, await values(cluster)

    record, found = af.run(main())

    assert told(capsys)
    assert len(record) == STEPS
    assert all(len(updated.chosen) == 3 for updated in record)
    assert same(found, replayed_by_its_actor(lookahead(0), record, ps=2))
    assert not same(found, replayed_by_its_actor(lookahead(0), record[:-1], ps=2))
    assert left() == []


@pytest.mark.processes
def test_a_staleness_aware_optimizer_with_a_worker_killed_is_what_its_record_says(
    left: Any, capsys: Any
) -> None:
    """Under Backup nothing is stale; so afterwards the three that are left train asynchronously."""

    async def main() -> tuple[list[Updated], Any, list[Updated], Any]:
        async with LocalCluster(staleness_aware, ps=2, workers=4) as cluster:
            fresh = await trained(cluster, af.Backup(3, 4), killed_at=KILLED_AT)
            between = await values(cluster)
            return fresh, between, await trained(cluster, af.Async()), await values(cluster)

    fresh, between, stale, found = af.run(main())

    assert told(capsys)
    assert max(max(updated.staleness) for updated in fresh) == 0
    assert max(max(updated.staleness) for updated in stale) > 0
    assert same(between, replayed_by_its_actor(staleness_aware(0), fresh, ps=2))
    assert same(found, replayed_by_its_actor(staleness_aware(0), stale, ps=2, first=between))
    assert left() == []
