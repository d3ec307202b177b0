"""A cluster of real process runtimes in one loop, over tcp, with a proxy before each that others dial."""

from __future__ import annotations

import asyncio
from asyncio import AbstractEventLoop
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

import actorflow as af
from actorflow.cluster.connected import ConnectedCluster
from actorflow.cluster.process.messages import SHARD
from actorflow.cluster.process_runtime import Open, ProcessRuntime, Transports
from actorflow.coord.actors.peer_shards import ReadStats
from actorflow.coord.rules.messages import Updated
from actorflow.coord.rules.participant import chain_digest
from actorflow.coord.rules.run_settings import RunSettings
from actorflow.dataflow.state.variable import Read
from actorflow.errors import ActorflowError
from actorflow.plan.program import Holder, Holding
from actorflow.runtime.clock import epoch_ms
from actorflow.transport.rules.address import Tcp, place
from actorflow.transport.rules.link_settings import LinkSettings
from actorflow.transport.zeromq import Endpoint, Keyring
from actorflow.transport.zeromq.options import Options
from tests.cluster.replaying import replayed
from tests.network.proxy import Proxy
from tests.support.busy import HANG_S
from tests.support.events import drain
from tests.support.linear import regression

LINKS = LinkSettings(silence_s=1.5, busy_s=1.5, gone_s=1.0, heartbeat_s=0.3, resend_s=0.1)
OPTIONS = Options(heartbeat_s=0.3, frozen_s=1.0, handshake_s=1.0, reconnect_s=0.02, reconnect_most_s=0.1)
RUN = RunSettings(heartbeat_s=0.2, missed=10, lease_s=2.0, gather_s=10.0, fence_s=3.0, stuck_s=10.0)
PATIENT_S = 15.0
"""What a rig bears that shall lose no session: other work of the machine may hold this process for long."""

LIMIT_S = 2.5
"""What is held for longer than this has lost the session, however it is found out."""

DEADLINE_S = HANG_S


class Behind:
    """An endpoint that is to be found at its proxy."""

    def __init__(self, endpoint: Endpoint) -> None:
        at = place(endpoint.addresses[0].at)
        assert isinstance(at, Tcp)
        self.endpoint = endpoint
        self.proxy = Proxy(at.host, at.port)
        self.addresses = (replace(endpoint.addresses[0], at=f"tcp://127.0.0.1:{self.proxy.port}"),)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.endpoint, name)


class Rig(ConnectedCluster):
    """The cluster; its chief, `ps` and workers are all here.

    Attributes:
        ways: The sockets of each process.
        stations: All but the chief.
        updates: What the trainer was told.
        failure: What the run ended with; None in good order.
        lost: Why sessions were lost, at the end.
    """

    def __init__(
        self,
        *,
        ps: int = 2,
        workers: int = 2,
        batches: int = 60,
        keys: Keyring | None = None,
        bare: bool = False,
        patient: bool = False,
    ) -> None:
        program = regression(batches=batches, optimizer=af.optim.momentum(0.01, 0.9))
        super().__init__(
            program,
            "tcp://127.0.0.1:1",  # not bound: see _set_up
            ps=ps,
            workers=workers,
            threads=0,
            links=replace(LINKS, silence_s=PATIENT_S, busy_s=PATIENT_S, gone_s=PATIENT_S)
            if patient
            else LINKS,
            ready_s=30.0,
            keys=keys,
        )
        self._options = replace(OPTIONS, frozen_s=PATIENT_S, handshake_s=PATIENT_S) if patient else OPTIONS
        self._run = (
            replace(RUN, missed=round(PATIENT_S / RUN.heartbeat_s), lease_s=PATIENT_S) if patient else RUN
        )
        self.ways: dict[str, Any] = {}
        self.stations: dict[str, ProcessRuntime] = {}
        self.updates: list[Updated] = []
        self.failure: ActorflowError | None = None
        self.lost: list[str] = []
        self._bare = bare

    @property
    def proxies(self) -> dict[str, Proxy]:
        """Returns the proxy before each process that others dial."""
        return {name: way.proxy for name, way in self.ways.items()}

    def _opened(self) -> Open:
        def open_ways(loop: AbstractEventLoop, name: str, incarnation: int) -> Transports:
            endpoint = Endpoint(loop, name, ["tcp://127.0.0.1:0"], keys=self._keys, options=self._options)
            self.ways[name] = endpoint if self._bare else Behind(endpoint)
            ways: Transports = self.ways[name]
            return ways

        return open_ways

    async def _set_up(self) -> Open:
        return self._opened()

    async def _bring(self, station: ProcessRuntime) -> None:
        for name in self.names[1:]:
            made = ProcessRuntime(
                name,
                epoch_ms(),
                self.program,
                self.names,
                self._opened(),
                chief=station.ways.addresses[0],
                threads=0,
                links=self._links,
            )
            self.stations[name] = await made.open()

    async def _take_away(self) -> None:
        for station in self.stations.values():
            await station.close()
        if not self._bare:
            for proxy in self.proxies.values():
                await proxy.close()

    # -- training ---------------------------------------------------------------------------------------

    async def train(self, policy: af.Policy | None = None, **limits: Any) -> None:
        """Trains to the end, or to the error that is a `failure`."""
        trainer = af.Trainer(self, policy or af.Sync(), settings=self._run)
        self.updates = trainer.record
        try:
            async with asyncio.timeout(DEADLINE_S):
                await drain(trainer.run(**limits))
        except ActorflowError as error:
            self.failure = error

    async def until_step(self, step: int) -> None:
        """Waits for so many updates, or for the end with an error."""
        async with asyncio.timeout(DEADLINE_S):
            while len(self.updates) < step and self.failure is None:  # noqa: ASYNC110
                await asyncio.sleep(0.005)

    def losses(self) -> list[str]:
        """Returns why each session was lost that was."""
        there = [self.runtime, *self.stations.values()]
        return [f"{s.name}: {reason.what}" for s in there for reason in s.losses.values()]

    async def judge(self) -> None:
        """Asserts that no update is lost or doubled on any shard: asked where they live, over no link.

        One more than was told of may be made, where the run ended with an error.
        """
        record, more = self.updates, 0 if self.failure is None else 1
        assert [u.version for u in record] == list(range(1, len(record) + 1))
        sets = _chained(record)
        for name in self.ps:
            stats = await self.stations[name].process.system.actors[SHARD].ask(ReadStats())
            assert len(record) <= stats.version <= len(record) + more, (name, stats.version, len(record))
            if stats.version == len(record):
                assert stats.sets == sets, f"{name} made other updates"
                assert stats.staleness.count == sum(len(u.chosen) for u in record), "each applied once"
        if self.failure is None:
            expected = await asyncio.to_thread(replayed, self.program, record, len(self.ps))
            for shard, name in enumerate(self.ps):
                for variable in self.layout.trained[shard]:
                    value = await self._value(name, variable)
                    assert value.tobytes() == expected[variable].tobytes(), f"{variable} of {name}"

    async def _value(self, process: str, variable: str) -> np.ndarray:
        resources = self.stations[process].process.executor.resources
        value = await resources.find(Holder(Holding.RESOURCE, variable)).ask(Read())
        return np.array(value[0])


def _chained(record: Sequence[Updated]) -> str:
    sets = ""
    for updated in record:
        sets = chain_digest(sets, updated.version, [(rank, number) for rank, number, _, _ in updated.chosen])
    return sets
