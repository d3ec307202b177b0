"""Serial microbatch SGD over the record of a run: what the variables must be, bit for bit."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import numpy as np

import actorflow as af
from actorflow.actors.resources import optimizer_actor
from actorflow.actors.runner import executor_of
from actorflow.cluster.layout import laid_out
from actorflow.coord.messages import Updated
from actorflow.coord.replica import Replica
from tests.coord.serial import Contribution, Values, serial


def replayed(program: af.Program, record: Sequence[Updated], ps: int) -> Values:
    """Returns the variables after the updates of a record, made one after the other in one process.

    Every gradient is computed again, from the values of the version that it was computed from.
    """
    return asyncio.run(_replayed(program, record, laid_out(program, ("",) * ps, ("",)).trained))


async def _replayed(
    program: af.Program, record: Sequence[Updated], shards: Sequence[Sequence[str]]
) -> Values:
    async with af.Session(program.graph) as session:
        names = list(program.train.node.attrs["resources"])
        first = {name: np.array(await session.run(name)) for name in names}
    key = program.train.node.attrs["optimizer"]
    transform = optimizer_actor(program.graph.objects[key]).transform
    assert transform is not None
    batches: dict[int, Any] = {}
    updates: list[list[Contribution]] = []
    versions: list[Values] = [first]
    async with af.ActorSystem() as system:
        executor = executor_of("serial", program.graph)(system, None)  # type: ignore[arg-type]  # sends nothing
        replica = Replica(
            program.graph, program.loss, list(program.metrics.values()), program.train, executor, system
        )
        for updated in record:
            made: list[Contribution] = []
            for (rank, _, batch, _), bases, step in zip(
                updated.chosen, updated.bases, updated.steps, strict=True
            ):
                values = {
                    name: versions[base][name]
                    for names, base in zip(shards, bases, strict=True)
                    for name in names
                }
                source = batches.setdefault(batch.epoch, program.batches(batch.epoch))
                found = await replica.step(step, values, source[batch.index])
                made.append((rank, found.gradients))
            updates.append(made)
            versions = serial(first, transform, updates)
        await executor.close()
    return versions[-1]
