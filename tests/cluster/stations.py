"""Stations of one cluster in one event loop, over a hub."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

import actorflow as af
from actorflow.cluster.process.discovery_client import CHIEF_TIMEOUTS, ChiefTimeouts
from actorflow.cluster.process.messages import ProcessCounts
from actorflow.cluster.process_runtime import ProcessRuntime
from actorflow.transport.rules.address import Address
from actorflow.transport.rules.link_settings import LinkSettings
from tests.cluster.hub import Hub
from tests.support.busy import HANG_S, Stopwatch
from tests.support.linear import regression

NAMES = ("chief", "ps0", "worker0", "worker1")
SOON = LinkSettings(silence_s=0.4, busy_s=0.4, heartbeat_s=0.1, resend_s=0.02, ack_s=0.005, gone_s=0.2)
"""So that what is lost is missed soon."""


class Stations:
    """Opens them, and closes what is left.

    Attributes:
        there: Those that are open, by name.
    """

    def __init__(self, cluster: tuple[str, ...] = NAMES, links: LinkSettings = SOON) -> None:
        self.hub = Hub()
        self.names = cluster
        self.links = links
        self.program = regression()
        self.there: dict[str, ProcessRuntime] = {}

    async def open(
        self,
        name: str,
        incarnation: int = 1,
        *,
        program: af.Program | None = None,
        patience: ChiefTimeouts = CHIEF_TIMEOUTS,
        counts: ProcessCounts | None = None,
    ) -> ProcessRuntime:
        station = ProcessRuntime(
            name,
            incarnation,
            self.program if program is None else program,
            self.names,
            self.hub,
            chief=Address("hub:chief"),
            threads=0,
            links=self.links,
            timeouts=patience,
            counts=counts,
        )
        self.there[name] = await station.open()
        return station

    async def close(self, name: str) -> None:
        await self.there.pop(name).close()

    async def kill(self, name: str) -> None:
        """Ends one without a word to the others."""
        self.there[name].ways.cut()  # type: ignore[attr-defined]
        await self.close(name)

    def complete(self) -> bool:
        """Whether all who are open reach all others."""
        return all(set(s.reachable()) == set(self.there) - {name} for name, s in self.there.items())


@asynccontextmanager
async def stations(names: Iterable[str] = (), **options: Any) -> AsyncIterator[Stations]:
    made = Stations(**options)
    try:
        for name in names:
            await made.open(name)
        yield made
    finally:
        for name in tuple(made.there):
            await made.close(name)


async def until(condition: Callable[[], object], within_s: float = HANG_S) -> None:
    """Waits for something, for so many seconds that count; who waits in vain says for what."""
    watch = Stopwatch()
    while not condition():
        assert watch.counted_s() < within_s, f"it did not come: {condition}"
        await asyncio.sleep(0.002)
