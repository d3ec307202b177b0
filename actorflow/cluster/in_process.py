"""A cluster whose processes are actor systems of one program: no sockets, no simulated time.

Between them messages are encoded, cut and decoded as between real processes, so that what cannot travel is
found out here. Nothing is lost, and no process ends before the cluster does.
"""

from __future__ import annotations

from collections.abc import Coroutine
from contextlib import AsyncExitStack
from itertools import combinations
from typing import Any

from actorflow.actors.system import STOP_S, ActorSystem
from actorflow.cluster.cluster import Cluster
from actorflow.cluster.process.layout import name_processes
from actorflow.cluster.process.process import CHIEF, Process, check_threads
from actorflow.plan.placement.placer import Placer
from actorflow.training.program import Program
from actorflow.transport.links import loopback
from actorflow.values.checks import seconds


class InProcessCluster(Cluster):
    """Runs the processes of a cluster in this one; see `Cluster.in_process`."""

    def __init__(
        self,
        program: Program,
        *,
        ps: int = 1,
        workers: int = 1,
        placement: str | Placer = "first",
        threads: int = 0,
        stop_s: float = STOP_S,
    ) -> None:
        super().__init__(
            program, name_processes("ps", ps), name_processes("worker", workers), placement=placement
        )
        check_threads(threads)
        self._stop_s = seconds(stop_s, "stop_s") or STOP_S
        self._threads = threads
        self._processes: dict[str, Process] = {}
        self._stack = AsyncExitStack()
        self._openings = 0

    @property
    def chief(self) -> Process:
        """The chief's process."""
        return self.process(CHIEF)

    def process(self, name: str) -> Process:
        """Returns a process; KeyError for one that there is not, SessionClosed when none is open."""
        if not self._processes:
            self.open_session_of()
        return self._processes[name]

    def incarnations(self) -> dict[str, int]:
        """Returns in which incarnation each process is; see `Cluster.incarnations`."""
        return {name: process.incarnation for name, process in self._processes.items()}

    async def at_home(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """Runs a coroutine here, where the chief is."""
        if not self._processes:
            coroutine.close()
            self.open_session_of()  # it is not
        return await coroutine

    async def _start(self) -> None:
        self._openings += 1
        for name in self.names:
            system = await self._stack.enter_async_context(ActorSystem(name=name, stop_s=self._stop_s))
            process = Process(name, self._openings, system, self.program, threads=self._threads)
            self._stack.push_async_callback(process.close)
            self._processes[name] = process
        for a, b in combinations(self._processes.values(), 2):
            ends = loopback.pair(a.name, b.name, framed=True)
            for process, channel in zip((a, b), ends, strict=True):
                channel.connect(process.hub)
                process.hub.attach(channel)
        for process in self._processes.values():
            process.begin()

    async def _stop(self) -> None:
        stack, self._stack = self._stack, AsyncExitStack()
        self._processes = {}
        await stack.aclose()
