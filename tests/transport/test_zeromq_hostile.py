"""Strangers at an endpoint: two honest links go on over it, whatever they do, and its memory stays bounded."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zmq

from actorflow.transport.links.link import Link
from actorflow.transport.rules.channel import Envelope, Lane
from actorflow.transport.rules.credit import Window
from actorflow.transport.rules.datagrams import (
    NOBODY,
    Datagram,
    DatagramKind,
    Hello,
    SessionEnd,
    pack,
    pack_hello,
    unpack,
)
from actorflow.transport.rules.handshake import Phase
from actorflow.transport.rules.link_settings import LinkSettings
from actorflow.transport.rules.security import KeyPair
from actorflow.transport.rules.wire import Contact
from actorflow.transport.zeromq import Address, Keyring
from actorflow.transport.zeromq.zap import ZapGate
from tests.support.faults import planted
from tests.transport.sockets import Ear, Site, on_a_site, real_link, until
from tests.transport.ways import Recorder

pytestmark = pytest.mark.wire

HELLO = pack_hello(Hello(Window(10, 1000), "program"))
SETTINGS = LinkSettings(silence_s=20.0, heartbeat_s=0.2, resend_s=0.05, ack_s=0.001)
PAGE = 4096


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE


class Honest:
    """Two links to one endpoint, which exchange numbers and an array now and then."""

    def __init__(self, site: Site, keys: Keyring | None, bind: str = "tcp") -> None:
        self.ps0 = site.endpoint("ps0", bind, keys=keys)
        (self.address,) = self.ps0.addresses
        self.receivers: list[Recorder] = []
        self.links: list[tuple[Link, Link]] = []
        for name in ("worker0", "worker1"):
            there = site.endpoint(name, keys=keys)
            here = Recorder(), Recorder()
            self.receivers += here
            self.links.append(
                (
                    real_link(self.ps0, name, here[0], settings=SETTINGS),
                    real_link(there, "ps0", here[1], settings=SETTINGS),
                )
            )
            there.dial("ps0", self.address)
        self.n = 0

    async def exchange(self, rounds: int = 20) -> None:
        """Says something on each link in both directions, and waits until it is heard, again and again."""
        for _ in range(rounds):
            self.n += 1
            body: Any = np.full(50_000, self.n) if self.n % 5 == 0 else self.n
            for pair in self.links:
                for link in pair:
                    link.send(Envelope("x", body))
                    link.send(Envelope("x", self.n, lane=Lane.CONTROL))
            await until(lambda: all(len(receiver.got) == 2 * self.n for receiver in self.receivers))

    def unharmed(self) -> None:
        for receiver in self.receivers:
            assert receiver.bodies(Lane.CONTROL) == list(range(1, self.n + 1))
            assert [np.max(body) for body in receiver.bodies()] == list(range(1, self.n + 1))
            assert receiver.losses == []
        for pair in self.links:
            for link in pair:
                stats = link.stats()
                assert (stats.sessions, stats.malformed, stats.phase) == (1, 0, "open")


@contextlib.contextmanager
def stranger(
    address: Address, id: bytes, pair: KeyPair | None = None, **options: int
) -> Iterator[zmq.Socket[bytes]]:
    """A DEALER that is no endpoint's."""
    with zmq.Context() as context, context.socket(zmq.DEALER) as dealer:
        dealer.linger = 0
        dealer.routing_id = id
        for name, value in options.items():
            setattr(dealer, name, value)
        if address.key is not None and pair is not None:
            dealer.curve_serverkey = address.key.encode()
            dealer.curve_publickey, dealer.curve_secretkey = pair.public.encode(), pair.secret.encode()
        dealer.connect(address.at)
        yield dealer


def against(
    attack: Callable[[Honest], Awaitable[None]], keys: Keyring | None = None, bind: str = "tcp"
) -> None:
    """Runs an attack while honest links go on, and looks what became of them."""

    async def test(site: Site) -> None:
        honest = Honest(site, keys, bind)
        await honest.exchange(3)
        before = resident_bytes()
        await attack(honest)
        await honest.exchange(10)
        assert resident_bytes() - before < 48 << 20
        honest.unharmed()

    on_a_site(test)


def head(form: DatagramKind = DatagramKind.CHUNK, incarnation: int = 1, **said: Any) -> list[Any]:
    if form is DatagramKind.CHUNK:
        said = {"number": 1, "payload": b"x"} | said
    return pack(Datagram(form, SessionEnd(incarnation, 1), said.pop("target", SessionEnd(1, 1)), **said))


NAME = b"worker0" + b"?" * 16
FLOODS: dict[str, tuple[bytes, list[bytes], str]] = {
    "no frames": (NAME, [b"", b"", b"", b""], "malformed"),
    "many frames": (NAME, [b"x"] * 9, "malformed"),
    "a short frame": (NAME, [b"x" * 20], "malformed"),
    "garbage": (NAME, [b"\1" * 104, b"y" * 1000], "malformed"),
    "an unknown name": (b"worker9" + b"?" * 16, head(), "unknown_name"),
    "no name": (b"\1", head(), "unknown_name"),
    "a name that is no text": (b"\xff" * 40, head(), "unknown_name"),
    "a name without a session": (NAME, head(), "stranger"),
    "a later life that does not say hello": (NAME, head(incarnation=9), "stranger"),
    "a hello of a later life that is none": (
        NAME,
        head(DatagramKind.HELLO, 9, target=NOBODY, payload=b"hello"),
        "malformed",
    ),
    "a hello of the same life": (NAME, head(DatagramKind.HELLO, target=NOBODY, payload=HELLO), "stranger"),
    "a reset of the session": (NAME, head(DatagramKind.RESET), "stranger"),
    "an acknowledgement of what was never sent": (NAME, head(DatagramKind.BEAT), "stranger"),
}


@pytest.mark.parametrize("flood", FLOODS)
def test_who_floods_with(flood: str) -> None:
    id, parts, reason = FLOODS[flood]

    async def attack(honest: Honest) -> None:
        with stranger(honest.address, id, sndhwm=2000) as dealer:
            for _ in range(6):
                for _ in range(300):
                    with contextlib.suppress(zmq.Again):
                        dealer.send_multipart(parts, zmq.NOBLOCK)
                await honest.exchange(2)
            await until(lambda: honest.ps0.stats().refused.get(reason, 0) > 500)
            assert set(honest.ps0.stats().refused) == {reason}

    against(attack)


HARM = {
    "garbage": [b"\1" * 500],
    "a word for an unknown session": head(DatagramKind.BEAT),
    "a reset": head(DatagramKind.RESET),
    "a chunk of garbage": head(payload=b"y" * 1000),
    "a hello": head(DatagramKind.HELLO, 2**62, target=NOBODY, payload=HELLO),
}


def test_who_bears_the_name_of_a_process_that_we_dial_is_not_heard() -> None:
    """Its way is the connection that we made: none that comes in is it, whatever it says first."""

    async def test(site: Site) -> None:
        ps0, worker0 = site.endpoint("ps0", "tcp"), site.endpoint("worker0", "tcp")
        receivers = Recorder(), Recorder()
        links = (
            real_link(ps0, "worker0", receivers[0], settings=SETTINGS),
            real_link(worker0, "ps0", receivers[1], settings=SETTINGS),
        )
        worker0.dial("ps0", ps0.addresses[0])
        await until(lambda: all(link.phase is Phase.OPEN for link in links))
        with contextlib.ExitStack() as stack:
            n = [0]
            for number, first in enumerate(HARM.values()):
                name = b"ps0" + bytes([number]) * 16
                dealer = stack.enter_context(stranger(worker0.addresses[0], name))
                for parts in (first, *HARM.values()):
                    dealer.send_multipart(parts)
                    await until(lambda: worker0.stats().refused.get("dialled", 0) > n[0])
                    n[0] += 1
        links[0].send(Envelope("x", 1))
        links[1].send(Envelope("x", 2))
        await until(lambda: all(receiver.got for receiver in receivers))
        assert worker0.stats().refused == {"dialled": len(HARM) * (1 + len(HARM))}
        for link in links:
            stats = link.stats()
            assert (stats.sessions, stats.malformed, stats.phase) == (1, 0, "open")
        assert [receiver.losses for receiver in receivers] == [[], []]

    on_a_site(test)


def test_nobody_of_the_name_of_a_process_that_will_be_dialled_is_heard_before() -> None:
    async def test(site: Site) -> None:
        worker0 = site.endpoint("worker0", "tcp")
        ear = Ear(worker0, "ps0")
        worker0.listen("ps0", ear.receive, ear.changed, dials=True)
        with stranger(worker0.addresses[0], b"ps0" + b"?" * 16) as dealer:
            dealer.send_multipart(HARM["a hello"])
            await until(lambda: worker0.stats().refused == {"dialled": 1})
        assert (ear.got, ear.contacts) == ([], [Contact.UNKNOWN])

    on_a_site(test)


def test_who_does_not_say_hello_becomes_no_way_and_is_answered_where_it_is() -> None:
    """A process of whose session nothing is known here, as after a new start: it is to say Hello."""

    async def test(site: Site) -> None:
        ps0 = site.endpoint("ps0", "tcp")
        receiver = Recorder()
        link = real_link(ps0, "worker0", receiver, settings=SETTINGS)
        with stranger(ps0.addresses[0], NAME) as dealer:
            dealer.send_multipart(head(DatagramKind.RESET))
            await until(lambda: ps0.stats().refused == {"stranger": 1})
            dealer.send_multipart(head(DatagramKind.BEAT, target=SessionEnd(7, 7)))
            await until(lambda: dealer.poll(0))
            (said,) = dealer.recv_multipart()
            assert unpack([said[:104], said[104:]]).form is DatagramKind.HELLO
            dealer.send_multipart(HARM["garbage"])
            await until(lambda: ps0.stats().refused == {"stranger": 1, "malformed": 1})
        assert ps0.wire("worker0").contact() is Contact.UNKNOWN
        worker0 = site.endpoint("worker0")
        there = real_link(worker0, "ps0", Recorder(), settings=SETTINGS)
        worker0.dial("ps0", ps0.addresses[0])
        await until(lambda: link.phase is there.phase is Phase.OPEN)
        assert (link.stats().sessions, link.stats().malformed, receiver.losses) == (1, 0, [])

    on_a_site(test)


def test_who_sends_too_much_at_once_is_cut_off() -> None:
    async def attack(honest: Honest) -> None:
        with stranger(honest.address, NAME) as dealer:
            for _ in range(5):
                with contextlib.suppress(zmq.Again):
                    dealer.send(b"x" * (8 << 20), zmq.NOBLOCK)
                await honest.exchange(2)
            before = honest.ps0.stats()
            assert "unknown_name" not in before.refused
            assert before.bytes_in < 8 << 20
            assert before.lost >= 1

    against(attack)


def test_who_says_nothing_or_never_ends_its_handshake_is_cut_off() -> None:
    """And who writes what is no handshake, with keys and without."""
    keys = Keyring.new()
    says = [b"", b"\xff", b"\xff\0\0\0\0\0\0\0\1\x7f\3\1CURVE", b"GET / HTTP/1.0\r\n\r\n" * 9, bytes(1 << 16)]

    async def attack(honest: Honest) -> None:
        port = int(honest.address.at.rpartition(":")[2])
        loop = asyncio.get_running_loop()
        raw = []
        for said in says * 8:
            sock = stack.enter_context(socket.socket())
            raw.append(sock)
            sock.setblocking(False)
            await loop.sock_connect(sock, ("127.0.0.1", port))
            with contextlib.suppress(OSError):
                await asyncio.wait_for(loop.sock_sendall(sock, said), 1)
        await honest.exchange(5)
        await until(lambda: honest.ps0.stats().connections == 2, "all to be cut off")
        refused = honest.ps0.stats().refused
        assert sum(refused.values()) == len(raw)
        assert set(refused) == {"handshake"}

    for ring in (keys, None):
        with contextlib.ExitStack() as stack:
            against(attack, ring)


def test_who_connects_over_and_over_grows_nothing() -> None:
    async def attack(honest: Honest) -> None:
        for _ in range(20):
            for _ in range(10):
                with stranger(honest.address, b"worker0" + os.urandom(16)) as dealer:
                    dealer.send(b"".join(head()))
                    await asyncio.sleep(0)
            await honest.exchange(1)
        await until(lambda: honest.ps0.stats().connections == 2)
        stats = honest.ps0.stats()
        assert (stats.connections, stats.routes) == (2, 2)
        honest.ps0.validate()

    against(attack)


def test_who_stops_reading_blocks_nobody_and_holds_no_more_than_its_queue() -> None:
    """It has the right name, and is sent what a link would never send unacknowledged."""

    async def attack(honest: Honest) -> None:
        at_ps0 = Ear(honest.ps0, "worker2")
        with stranger(honest.address, b"worker2" + b"?" * 16, rcvhwm=1) as dealer:
            dealer.send_multipart(head(DatagramKind.HELLO, target=NOBODY, payload=HELLO))
            await until(lambda: at_ps0.got)
            for _ in range(6):
                for _ in range(1000):
                    at_ps0.wire.send(head(payload=b"z" * 4000))
                await honest.exchange(2)
            assert honest.ps0.stats().dropped > 1000
            # It does not answer heartbeats any more either, since it reads nothing.
            await until(lambda: at_ps0.wire.contact() is Contact.BROKEN)

    against(attack)


def test_who_has_no_key_never_gets_to_say_anything() -> None:
    keys = Keyring.new()

    async def attack(honest: Honest) -> None:
        for pair in (None, Keyring.new().ring.current):
            with stranger(honest.address, NAME, pair) as dealer:
                for _ in range(3):
                    with contextlib.suppress(zmq.Again):
                        dealer.send_multipart(
                            head(DatagramKind.HELLO, 9, target=NOBODY, payload=HELLO), zmq.NOBLOCK
                        )
                    await honest.exchange(2)
                reason = "wrong_key" if pair else "handshake"
                await until(lambda reason=reason: honest.ps0.stats().refused.get(reason))  # type: ignore[misc]
        assert set(honest.ps0.stats().refused) == {"wrong_key", "handshake"}

    against(attack, keys)


def test_who_is_of_another_user_is_not_let_in() -> None:
    async def test(site: Site) -> None:
        with pytest.MonkeyPatch.context() as patch:

            @planted(patch, ZapGate, "__init__")
            def of_another_user(init: Any, self: ZapGate, *args: Any, **options: Any) -> None:
                init(self, *args, **options)
                self._user += 1

            ps0 = site.endpoint("ps0", "ipc")
        at_ps0 = Ear(ps0, "worker0")
        with stranger(ps0.addresses[0], NAME) as dealer:
            dealer.send_multipart(head(DatagramKind.HELLO, target=NOBODY, payload=HELLO))
            await until(lambda: ps0.stats().refused.get("other_user"))
        assert not at_ps0.got

    on_a_site(test)
