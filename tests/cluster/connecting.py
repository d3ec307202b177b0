"""A cluster over real sockets whose processes share no more than one event loop: it opens in milliseconds."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from tempfile import TemporaryDirectory

import actorflow as af
from actorflow.cluster.connected import ConnectedCluster
from actorflow.cluster.process.discovery_client import ChiefTimeouts
from actorflow.cluster.process_runtime import ProcessRuntime
from actorflow.cluster.sockets import bind_of, chief_at, open_sockets
from actorflow.launch.task import Task

HASTE = ChiefTimeouts(again_s=0.02)


@asynccontextmanager
async def connected(
    build: Callable[[], af.Program], *, ps: int = 1, workers: int = 1, threads: int = 0
) -> AsyncIterator[ConnectedCluster]:
    """Opens it, workers first; each process builds a program of its own."""
    async with AsyncExitStack() as stack:
        chief = f"ipc://{stack.enter_context(TemporaryDirectory(prefix='af-'))}/chief"
        tasks = [
            Task(job, k, ps, workers, chief) for job, n in (("ps", ps), ("worker", workers)) for k in range(n)
        ]
        names = ("chief", *(task.name for task in tasks))
        for task in reversed(tasks):
            ways, at = open_sockets(bind_of(task), None), chief_at(chief, None)
            one = ProcessRuntime(
                task.name, 1, build(), names, ways, chief=at, threads=threads, timeouts=HASTE
            )
            await one.open()
            stack.push_async_callback(one.close)
        cluster = ConnectedCluster(build(), chief, ps=ps, workers=workers, threads=threads, ready_s=30.0)
        yield await stack.enter_async_context(cluster)
