"""Replicas for tests, each in an executor of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import actorflow as af
from actorflow.coord.actors.replica import Replica
from actorflow.dataflow.engine.executor import Executor
from actorflow.dataflow.state.register import Source
from actorflow.dataflow.state.starvation_detector import Producers
from actorflow.kernels.device.devices import check_devices


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
        devices=check_devices(devices),
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
