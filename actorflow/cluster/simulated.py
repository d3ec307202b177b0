"""A cluster in a simulated world: its processes are hosts, its links travel over the simulated network."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

from actorflow.actors.ref import Ref
from actorflow.actors.system import STOP_S
from actorflow.cluster.cluster import Cluster
from actorflow.cluster.home_ref import HomeRef
from actorflow.cluster.process.layout import name_processes
from actorflow.cluster.process.process import CHIEF, Process
from actorflow.errors import ActorDied, ConfigError, CoordinatorLost
from actorflow.graph.fingerprint import fingerprint
from actorflow.plan.placement.placer import Placer
from actorflow.sim.engine.event_loop import SimLoop
from actorflow.sim.engine.strands import Lifetime
from actorflow.sim.settings import check_number, check_whole
from actorflow.sim.world import links
from actorflow.sim.world.host import Host
from actorflow.sim.world.straggler import Straggler
from actorflow.sim.world.world import World, check_latency
from actorflow.training.program import Program
from actorflow.transport.rules.link_settings import SETTINGS, LinkSettings
from actorflow.values.checks import seconds

_OPENED: WeakKeyDictionary[World, int] = WeakKeyDictionary()
"""How many clusters have been opened in a world: their processes are later incarnations than those before."""


_LATENCY_S = 0.0005
"""How long a message travels unless that is said."""


class SimulatedCluster(Cluster):
    """Runs the processes of a cluster as hosts of a world; see `Cluster.simulated`."""

    def __init__(
        self,
        program: Program,
        *,
        ps: int = 1,
        workers: int = 1,
        placement: str | Placer = "first",
        world: World | None = None,
        latency_s: float | None = None,
        work_s: float = 0.0,
        straggler: Straggler | None = None,
        links: LinkSettings = SETTINGS,
        seed: int | None = None,
        stop_s: float = STOP_S,
    ) -> None:
        super().__init__(
            program, name_processes("ps", ps), name_processes("worker", workers), placement=placement
        )
        _check_types(world, straggler, links)
        for name, value in (("latency_s", latency_s), ("seed", seed)):
            if world is not None and value is not None:
                message = f"{name} is the world's where a world is given, got {name}={value!r:.60} beside it"
                raise ConfigError(
                    message, hint="say it where the world is made: @sim.world(..., latency_s=0.001)"
                )
        latency_s = _LATENCY_S if latency_s is None else latency_s
        seed = 0 if seed is None else seed
        check_latency(latency_s)
        check_number("work_s", work_s, finite=True, hint="work_s=0.1 is a tenth of a second a batch")
        check_whole("seed", seed)
        self._stop_s = seconds(stop_s, "stop_s") or STOP_S
        self.world = world
        self._owns = world is None
        self._latency_s = latency_s
        self._work_s = work_s
        self._straggler = straggler
        self._links = links
        self._seed = seed
        self._program_hash = fingerprint(program.graph)
        self._processes: dict[str, Process] = {}
        self._booted: list[Host] = []
        self._before = 0
        self._incarnation: Lifetime

    @property
    def chief(self) -> Process:
        """The chief's process, in its present incarnation."""
        if CHIEF not in self._processes:
            self.open_session_of()
        return self.process(CHIEF)

    def process(self, name: str) -> Process:
        """Returns a process, in its present incarnation; KeyError for one that there is not."""
        return self._processes[name]

    def incarnations(self) -> dict[str, int]:
        """Returns in which incarnation each process is; see `Cluster.incarnations`."""
        assert self.world is not None
        there = [p for p in self._processes.values() if self.world.host(p.name).alive]
        return {process.name: process.incarnation for process in there}

    async def _start(self) -> None:
        loop = asyncio.get_running_loop()
        if not isinstance(loop, SimLoop):
            message = "a simulated cluster opens in a simulated run"
            raise ConfigError(message, hint="actorflow.sim.run(main), or a test under @sim.world(...)")
        if self.world is None:
            self.world = World(loop, self.names, latency_s=self._latency_s, seed=self._seed)
            await self.world.start()
        world = self.world
        hosts = [world.host(name) for name in self.names]
        for host in hosts:
            _check_free(host)
        self._processes = {}
        self._before = _OPENED.get(world, 0)
        _OPENED[world] = self._before + 1
        for host in hosts:
            if self._straggler is not None and host.name in self.workers:
                world.straggle(host, self._straggler)
            self._booted.append(host)
            await host.on_boot(self._boot)
        self._incarnation = world.host(CHIEF).lifetime

    def _boot(self, host: Host) -> None:
        assert self.world is not None
        work = partial(host.work, self._work_s) if self._work_s and host.name in self.workers else None
        incarnation = host.incarnation + self._before
        host.system.stop_s = self._stop_s
        process = Process(host.name, incarnation, host.system, self.program, work=work)
        for name in self.names:
            if name != host.name:
                link = links.link(
                    self.world,
                    host,
                    name,
                    process.hub,
                    incarnation=incarnation,
                    program=self._program_hash,
                    settings=self._links,
                )
                process.hub.attach(link)
        self._processes[host.name] = process
        process.begin()

    async def _stop(self) -> None:
        world, booted, self._booted = self.world, self._booted, []
        if world is None:
            return
        if self._owns:
            self.world = None
            await world.close()
            return
        for host in booted:
            await host.on_boot(None)
        there = [host for host in booted if host.alive and host.name in self._processes]
        await asyncio.gather(*(self._clear(world, host) for host in there))

    async def _clear(self, world: World, host: Host) -> None:
        """Leaves a host as it was; one that stands still does so when it goes on."""
        life = host.lifetime

        async def close() -> None:
            await self._processes[host.name].close()
            links.forget(world, host)

        closing = host.run(close())
        if not life.paused:
            try:
                await closing
            except ActorDied:
                if not life.dead:
                    raise

    async def at_home(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """Runs a coroutine on the chief's host; see `Cluster.at_home`."""
        if self.world is None:
            coroutine.close()
            self.open_session_of()  # it is not
        assert self.world is not None
        host = self.world.host(CHIEF)
        if self._incarnation.dead:  # it may have started again, without what it had
            coroutine.close()
            raise _coordinator_lost()
        try:
            return await host.run(coroutine)
        except ActorDied as error:
            if not self._incarnation.dead:
                raise
            raise _coordinator_lost() from error

    def ref(self, address: str) -> Ref:
        """Returns the address of an actor of any process; see `Cluster.ref`."""
        ref = super().ref(address)
        assert self.world is not None
        host, life = self.world.host(CHIEF), self._incarnation

        def check() -> None:
            if life.dead or life is not self._incarnation or self.world is None:
                raise _coordinator_lost()

        async def run(coroutine: Coroutine[Any, Any, Any]) -> Any:
            try:
                check()
            except CoordinatorLost:
                coroutine.close()
                raise
            return await self.at_home(coroutine)

        def call(function: Callable[..., Any], *args: Any) -> Any:
            check()
            return host.call(function, *args)

        return HomeRef(ref, run, call)


def _check_types(world: Any, straggler: Any, links: Any) -> None:
    """Raises ConfigError for what is no world, straggler or settings of links."""
    if not isinstance(world, World | None):
        message = f"a world is a sim.World, got {world!r:.60}"
        raise ConfigError(message, hint="that which @sim.world(...) hands to the function below it")
    if not isinstance(straggler, Straggler | None):
        message = f"a straggler is a sim.Straggler, got {straggler!r:.60}"
        raise ConfigError(message, hint="sim.Straggler(p=0.1, stall_s=0.2)")
    if not isinstance(links, LinkSettings):
        message = f"links are as Settings say, got {links!r:.60}"
        raise ConfigError(
            message, hint="actorflow.transport.rules.link_settings.LinkSettings(silence_s=30.0)"
        )


def _check_free(host: Host) -> None:
    """Raises ConfigError unless a cluster can begin on a host."""
    if host.name == CHIEF and not host.alive:
        message = f"a cluster opens while its chief lives, and '{CHIEF}' has crashed"
        raise ConfigError(message, hint=f"await world.restart('{CHIEF}') first")
    if host.alive and host.system.outside is not None:
        message = f"a host is of one cluster at a time, and '{host.name}' is of one that is open"
        raise ConfigError(message, hint="close that one first, or give each cluster a world of its own")


def _coordinator_lost() -> CoordinatorLost:
    message = f"'{CHIEF}' has crashed, and with it whoever decides about updates"
    return CoordinatorLost(message, hint="open another cluster")
