"""What an endpoint knows of real processes: which are busy, which are stopped, and which are dead."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from actorflow.transport.rules.wire import Contact
from actorflow.transport.zeromq import Address
from tests.support.busy import HANG_S
from tests.transport.sockets import QUICK, Ear, Site, on_a_site, until

pytestmark = pytest.mark.wire
ROOT = Path(__file__).parents[2]
NEVER = [Contact.UNKNOWN, Contact.CONNECTED]


class Peer:
    """A process that dials this one, and is dialled by it."""

    def __init__(self, process: asyncio.subprocess.Process, dialled: Ear, dials: Ear) -> None:
        self.process = process
        self.dialled = dialled
        self.dials = dials

    async def said(self) -> str:
        assert self.process.stdout is not None
        return (await asyncio.wait_for(self.process.stdout.readline(), HANG_S)).decode().strip()

    async def told(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n".encode())
        await self.process.stdin.drain()

    @property
    def contacts(self) -> tuple[Contact, Contact]:
        return self.dialled.wire.contact(), self.dials.wire.contact()


def with_a_peer(test: Callable[[Peer], Awaitable[None]]) -> None:
    async def main(site: Site) -> None:
        here = site.endpoint("test", "ipc")
        there = f"ipc://{site.folder}/there"
        command = [sys.executable, "-m", "tests.transport.zeromq_peer", there, here.addresses[0].at]
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdin=pipe, stdout=pipe)
        try:
            peer = Peer(process, Ear(here, "dialled"), Ear(here, "dials"))
            assert await peer.said() == "ready"
            here.dial("dialled", Address(there))
            await until(lambda: peer.contacts == (Contact.CONNECTED, Contact.CONNECTED))
            await test(peer)
        finally:
            if process.returncode is None:
                process.kill()
            await process.communicate()

    on_a_site(main)


@pytest.mark.slow
def test_who_is_busy_is_connected_who_is_stopped_is_not_and_who_goes_on_is_again() -> None:
    async def test(peer: Peer) -> None:
        loop = asyncio.get_running_loop()
        start = loop.time()
        busy_s = 3 * (QUICK.heartbeat_s + QUICK.frozen_s)  # that often a stopped one would have been found
        for what in ("loop", "python"):
            await peer.told(f"{what} {busy_s}")
            assert await peer.said() == "held"
        assert loop.time() - start >= 2 * busy_s
        assert peer.dialled.contacts == peer.dials.contacts == NEVER

        start = loop.time()
        peer.process.send_signal(signal.SIGSTOP)
        await until(lambda: peer.contacts == (Contact.BROKEN, Contact.BROKEN))
        assert loop.time() - start < 10 * (QUICK.heartbeat_s + QUICK.frozen_s)  # not 1: for a busy machine
        peer.process.send_signal(signal.SIGCONT)
        await until(lambda: peer.contacts == (Contact.CONNECTED, Contact.CONNECTED))
        assert peer.dialled.contacts == peer.dials.contacts == [*NEVER, Contact.BROKEN, Contact.CONNECTED]

        peer.process.kill()
        start = loop.time()
        await until(lambda: peer.contacts == (Contact.BROKEN, Contact.BROKEN))
        assert loop.time() - start < 1

    with_a_peer(test)
