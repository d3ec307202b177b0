"""Replicas for tests, each in an executor of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import actorflow as af
from actorflow.actors.executor import Executor
from actorflow.actors.register import Source
from actorflow.actors.starvation import Producers
from actorflow.coord.replica import Replica
from actorflow.kernels.devices import checked


def executor(
    graph: af.Graph,
    system: af.ActorSystem,
    name: str = "replica",
    threads: int = 0,
    devices: Sequence[str] = (),
) -> Executor:
    """An executor of the graph in the system."""
    return Executor(
        graph,
        system,
        Source(name),
        devices=checked(devices),
        threads=threads,
        max_messages=64,
        producers=Producers(system.now),
        starvation_s=None,
    )


@asynccontextmanager
async def replica(
    graph: af.Graph,
    loss: Any,
    train: Any,
    metrics: Sequence[Any] = (),
    devices: Sequence[str] = (),
    **options: Any,
) -> AsyncIterator[Replica]:
    """A replica in a system of its own."""
    async with af.ActorSystem(name="replica") as system:
        runs = executor(graph, system, devices=devices)
        try:
            yield Replica(graph, loss, metrics, train, runs, system, **options)
        finally:
            await runs.close()
