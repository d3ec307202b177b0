"""A cluster whose processes are actor systems of one event loop, joined by loopback channels."""

from __future__ import annotations

from collections.abc import Coroutine
from itertools import combinations
from typing import Any

from actorflow.actors.system import ActorSystem
from actorflow.cluster.cluster import Cluster
from actorflow.cluster.process.process import CHIEF, Process
from actorflow.transport.links import loopback


class OneLoop(Cluster):
    """See the module; no process of it is ever lost."""

    async def _start(self) -> None:
        self._systems = []
        self._processes: dict[str, Process] = {}
        for name in self.names:
            system = ActorSystem(name=name)
            self._systems.append(await system.__aenter__())
            self._processes[name] = Process(name, 1, system, self.program)
        for a, b in combinations(self.names, 2):
            for name, channel in zip((a, b), loopback.pair(a, b), strict=True):
                channel.connect(self._processes[name].hub)
                self._processes[name].hub.attach(channel)

    async def _stop(self) -> None:
        for system in reversed(self._systems):
            await system.__aexit__(None, None, None)

    @property
    def chief(self) -> Process:
        return self._processes[CHIEF]

    def incarnations(self) -> dict[str, int]:
        return dict.fromkeys(self.names, 1)

    async def at_home(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return await coroutine
