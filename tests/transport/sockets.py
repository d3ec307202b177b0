"""Endpoints and links over real sockets, on whichever event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from tempfile import TemporaryDirectory
from typing import Any

from actorflow.runtime.event_loop import loop_factory
from actorflow.transport.links.link import Link
from actorflow.transport.links.shm import ShmWire
from actorflow.transport.rules.channel import Receiver
from actorflow.transport.rules.link_settings import SETTINGS, LinkSettings
from actorflow.transport.zeromq import Endpoint, Options
from tests.support.busy import HANG_S

LOOPS = (asyncio.new_event_loop, loop_factory())

QUICK = Options(heartbeat_s=0.1, frozen_s=0.3, handshake_s=0.5, reconnect_s=0.01, reconnect_most_s=0.05)
"""What finds out in tenths of a second."""


class LoopTimers:
    """The time of an event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.now = loop.time

    def after(self, seconds: float, call: Callable[[], None]) -> asyncio.TimerHandle:
        return self._loop.call_later(seconds, call)


def real_link(
    endpoint: Endpoint,
    peer: str,
    receiver: Receiver,
    *,
    incarnation: int = 1,
    settings: LinkSettings = SETTINGS,
    shares: bool = False,
) -> Link:
    """Returns a link over the sockets of an endpoint, perhaps with shared memory, which begins to speak."""
    loop = asyncio.get_running_loop()
    wire = endpoint.wire(peer)
    shared = ShmWire(wire, least_bytes=64) if shares else None  # nearly all goes there
    link = Link(
        peer,
        shared or wire,
        LoopTimers(loop),
        incarnation=incarnation,
        soon=loop.call_soon,
        settings=settings,
    )
    if shared is not None:
        shared.attach(link)
    hears = shared or link
    endpoint.listen(peer, hears.receive, hears.contact_changed)
    link.connect(receiver)
    return link


async def until(condition: Callable[[], object], what: str = "", within_s: float = HANG_S) -> None:
    """Waits for something; a test that waits in vain says for what."""
    loop = asyncio.get_running_loop()
    end = loop.time() + within_s
    while not condition():
        assert loop.time() < end, f"it did not come: {what or condition}"
        await asyncio.sleep(0.002)


class Site:
    """A folder for socket files, and endpoints that are closed in the end."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.endpoints: list[Endpoint] = []

    def endpoint(self, name: str, bind: str | None = None, **options: Any) -> Endpoint:
        """Makes one; `bind` is "ipc", "tcp", an address, or None."""
        at = {"ipc": f"ipc://{self.folder}/{name}", "tcp": "tcp://127.0.0.1:0"}.get(bind or "", bind)
        options.setdefault("options", QUICK)
        made = Endpoint(asyncio.get_running_loop(), name, [at] if at else [], **options)
        self.endpoints.append(made)
        return made


def on_a_site(test: Callable[[Site], Awaitable[None]], loop: Callable[[], Any] = LOOPS[-1]) -> None:
    """Runs a test that opens sockets."""

    async def main(folder: str) -> None:
        site = Site(folder)
        try:
            await test(site)
        finally:
            for endpoint in site.endpoints:
                endpoint.close(0.0)

    with TemporaryDirectory(prefix="af-") as folder, asyncio.Runner(loop_factory=loop) as runner:
        runner.run(main(folder))


class Ear:
    """Listens to a peer: what it says, and how often its contact changes."""

    def __init__(self, endpoint: Endpoint, peer: str) -> None:
        self.wire = endpoint.wire(peer)
        self.got: list[list[bytes]] = []
        self.contacts = [self.wire.contact()]
        endpoint.listen(peer, self.receive, self.changed)

    def receive(self, parts: Any) -> None:
        self.got.append([bytes(part) for part in parts])

    def changed(self) -> None:
        self.contacts.append(self.wire.contact())
