"""Endpoints: ways, contact, and the end. What channels promise over them is in the conformance suite."""

from __future__ import annotations

import asyncio
import gc
import os
import socket
import stat
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import zmq

from actorflow.errors import ConfigError
from actorflow.runtime.event_loop import loop_factory
from actorflow.transport.rules.channel import Envelope
from actorflow.transport.rules.credit import Window
from actorflow.transport.rules.datagrams import (
    NOBODY,
    Datagram,
    DatagramKind,
    Hello,
    SessionEnd,
    pack,
    pack_hello,
)
from actorflow.transport.rules.wire import Contact
from actorflow.transport.zeromq import Address, Endpoint, Keyring, Options
from tests.transport.sockets import LOOPS, QUICK, Ear, Site, on_a_site, real_link, until
from tests.transport.ways import Recorder

pytestmark = pytest.mark.wire
over_both_loops = pytest.mark.parametrize("loop", LOOPS, ids=["asyncio", "uvloop"])
over_transports = pytest.mark.parametrize("transport", ["ipc", "tcp"])


HELLO = pack_hello(Hello(Window(10, 1000), "program"))


def hello(incarnation: int = 1, attempt: int = 1) -> list[Any]:
    return pack(Datagram(DatagramKind.HELLO, SessionEnd(incarnation, attempt), NOBODY, payload=HELLO))


def beat(incarnation: int = 1, attempt: int = 1, size: int = 0) -> list[Any]:
    form = DatagramKind.CHUNK if size else DatagramKind.BEAT
    made = Datagram(
        form, SessionEnd(incarnation, attempt), SessionEnd(9, 9), number=bool(size), payload=bytes(size)
    )
    return pack(made)


def has_heard(ear: Ear, n: int) -> bool:
    return len(ear.got) == n


# -- ways ------------------------------------------------------------------------------------------


@over_both_loops
@over_transports
def test_datagrams_of_all_sizes_pass_both_ways_however_few_are_heard_in_a_turn(
    loop: Callable[[], Any], transport: str
) -> None:
    sizes = [1, 100, 8000, 8200, 100_000, 131_072, 200_000, 1 << 20] + 40 * [64]

    async def test(site: Site) -> None:
        few = Options(reconnect_s=0.01, batch=3)
        ps0 = site.endpoint("ps0", transport, options=few)
        worker0 = site.endpoint("worker0", options=few)
        at_ps0, at_worker0 = Ear(ps0, "worker0"), Ear(worker0, "ps0")
        worker0.dial("ps0", ps0.addresses[0])
        await until(lambda: at_worker0.wire.contact() is Contact.CONNECTED)
        at_worker0.wire.send(hello())
        await until(lambda: at_ps0.got)
        at_ps0.got.clear()
        for size in sizes:
            at_ps0.wire.send(beat(size=size))
            at_worker0.wire.send(beat(size=size))
        for ear in (at_ps0, at_worker0):
            await until(partial(has_heard, ear, len(sizes)))
            assert ear.got == [[bytes(p) for p in beat(size=size)] for size in sizes]
        assert ps0.stats().refused == worker0.stats().refused == {}
        assert ps0.stats().bytes_out == worker0.stats().bytes_in == sum(sizes) + 104 * len(sizes)

    on_a_site(test, loop)


def test_what_is_sent_before_there_is_a_way_is_dropped_and_counted() -> None:
    async def test(site: Site) -> None:
        ps0, worker0 = site.endpoint("ps0", "ipc"), site.endpoint("worker0")
        at_ps0 = Ear(ps0, "worker0")
        for endpoint, peer in ((ps0, "worker0"), (worker0, "ps0")):
            endpoint.wire(peer).send(hello())
            assert endpoint.wire(peer).contact() is Contact.UNKNOWN
        worker0.dial("ps0", Address(f"ipc://{site.folder}/nobody"))
        worker0.wire("ps0").send(hello())
        assert (ps0.stats().dropped, worker0.stats().dropped) == (1, 2)
        await asyncio.sleep(0.05)
        assert at_ps0.got == []
        assert ps0.wire("worker0") is at_ps0.wire

    on_a_site(test)


def test_the_same_address_again_changes_nothing_and_another_replaces_it() -> None:
    async def test(site: Site) -> None:
        first, second = site.endpoint("ps0", "ipc"), site.endpoint("ps0", "tcp")
        worker0 = site.endpoint("worker0")
        ears = [Ear(endpoint, "worker0") for endpoint in (first, second)]
        ear = Ear(worker0, "ps0")
        worker0.dial("ps0", first.addresses[0])
        await until(lambda: ear.wire.contact() is Contact.CONNECTED)
        worker0.dial("ps0", first.addresses[0])
        assert ear.wire.contact() is Contact.CONNECTED
        worker0.dial("ps0", second.addresses[0])
        await until(lambda: ear.wire.contact() is Contact.CONNECTED)
        ear.wire.send(hello())
        await until(lambda: ears[1].got)
        assert not ears[0].got
        assert ear.contacts == [Contact.UNKNOWN, Contact.CONNECTED, Contact.BROKEN, Contact.CONNECTED]
        worker0.hang_up("ps0")
        await until(lambda: second.stats().connections == 0)
        assert ears[1].contacts == [Contact.UNKNOWN, Contact.CONNECTED, Contact.BROKEN]

    on_a_site(test)


def test_a_later_life_takes_the_way_and_the_earlier_one_is_answered_where_it_is() -> None:
    async def test(site: Site) -> None:
        ps0 = site.endpoint("ps0", "ipc")
        lives = [site.endpoint("worker0") for _ in range(2)]
        at_ps0 = Ear(ps0, "worker0")
        ears = [Ear(life, "ps0") for life in lives]
        for life in lives:
            life.dial("ps0", ps0.addresses[0])
        await until(lambda: all(ear.wire.contact() is Contact.CONNECTED for ear in ears))
        for n, ear in enumerate(ears):
            ear.wire.send(hello(n + 1))
            await until(partial(has_heard, at_ps0, n + 1))
        at_ps0.wire.send(beat())
        await until(lambda: ears[1].got)
        assert not ears[0].got

        def answer(parts: Any) -> None:
            at_ps0.receive(parts)
            at_ps0.wire.send(beat(7))

        ps0.listen("worker0", answer, at_ps0.changed)
        ears[0].wire.send(beat(1))  # it was stopped, and goes on
        await until(lambda: ears[0].got)
        assert len(ears[1].got) == 1
        at_ps0.wire.send(beat())
        await until(lambda: len(ears[1].got) == 2)
        assert len(ears[0].got) == 1

    on_a_site(test)


def test_an_error_of_who_listens_is_reported_and_stops_nothing() -> None:
    async def test(site: Site) -> None:
        ps0, worker0 = site.endpoint("ps0", "ipc"), site.endpoint("worker0")
        heard: list[object] = []
        reported: list[Any] = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: reported.append(context))

        def receive(parts: object) -> None:
            heard.append(parts)
            raise RuntimeError("no room")

        ps0.listen("worker0", receive, lambda: None)
        worker0.dial("ps0", ps0.addresses[0])
        await until(lambda: worker0.wire("ps0").contact() is Contact.CONNECTED)
        for _ in range(5):
            worker0.wire("ps0").send(hello())
        await until(lambda: len(heard) == 5)
        assert [str(context["exception"]) for context in reported] == ["no room"] * 5

    on_a_site(test)


# -- contact ---------------------------------------------------------------------------------------


class Relay:
    """Carries bytes between one caller at a time and a port, and can fall silent on either side alone."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._server: asyncio.Server | None = None
        self.kept: list[asyncio.StreamWriter] = []
        self.ways: list[tuple[asyncio.StreamWriter, asyncio.StreamWriter]] = []

    async def open(self) -> int:
        self._server = await asyncio.start_server(self._carry, "127.0.0.1", 0)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there = await asyncio.open_connection("127.0.0.1", self._to)
        self.ways.append((writer, there[1]))
        await asyncio.gather(self._one(reader, there[1]), self._one(there[0], writer))

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(1 << 16):
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
        if writer not in self.kept:
            writer.close()

    def close(self) -> None:
        assert self._server is not None
        self._server.close()
        for way in self.ways:
            for writer in way:
                writer.close()


def test_who_dials_again_before_its_old_connection_is_known_to_be_dead_is_heard() -> None:
    async def test(site: Site) -> None:
        slow = Options(heartbeat_s=60, frozen_s=60, reconnect_s=0.01)
        ps0 = site.endpoint("ps0", "tcp", options=slow)
        worker0 = site.endpoint("worker0", options=slow)
        at_ps0, at_worker0 = Ear(ps0, "worker0"), Ear(worker0, "ps0")
        relay = Relay(int(ps0.addresses[0].at.rpartition(":")[2]))
        worker0.dial("ps0", Address(f"tcp://127.0.0.1:{await relay.open()}"))
        try:
            await until(lambda: at_worker0.wire.contact() is Contact.CONNECTED)
            at_worker0.wire.send(hello())
            await until(lambda: at_ps0.got)
            here, there = relay.ways[0]
            relay.kept.append(there)  # ps0 is not told
            here.close()
            await until(lambda: at_worker0.contacts[2:] == [Contact.BROKEN, Contact.CONNECTED])
            at_worker0.wire.send(beat())
            at_ps0.wire.send(beat())
            await until(lambda: len(at_ps0.got) == 2 and at_worker0.got)
            assert at_ps0.contacts == [Contact.UNKNOWN, Contact.CONNECTED]
        finally:
            relay.close()

    on_a_site(test)


def test_what_a_dead_process_said_last_does_not_make_it_alive() -> None:
    """This process is busy while it says so, and dies."""

    async def test(site: Site) -> None:
        ps0 = site.endpoint("ps0", "tcp")
        at_ps0 = Ear(ps0, "worker0")
        with zmq.Context() as context:
            with context.socket(zmq.DEALER) as dealer:
                dealer.routing_id = b"worker0" + b"r" * 16
                dealer.connect(ps0.addresses[0].at)
                await until(lambda: ps0.stats().unmatched == 1)
                dealer.send_multipart(hello())
            context.term()  # it has been sent
            threading.Event().wait(0.1)
        await until(lambda: at_ps0.got)
        await until(lambda: ps0.stats().lost == 1)
        assert at_ps0.wire.contact() is Contact.BROKEN
        assert Contact.CONNECTED not in at_ps0.contacts

    on_a_site(test)


def test_links_outlive_a_connection_that_breaks_and_tell_nobody() -> None:
    async def test(site: Site) -> None:
        ps0, worker0 = site.endpoint("ps0", "tcp"), site.endpoint("worker0")
        relay = Relay(int(ps0.addresses[0].at.rpartition(":")[2]))
        receivers = Recorder(), Recorder()
        a = real_link(ps0, "worker0", receivers[0])
        b = real_link(worker0, "ps0", receivers[1])
        worker0.dial("ps0", Address(f"tcp://127.0.0.1:{await relay.open()}"))
        try:
            for n in range(60):
                a.send(Envelope("x", n))
                b.send(Envelope("x", -n))
                if n % 20 == 10:
                    await until(lambda: relay.ways)
                    for writer in relay.ways.pop():
                        writer.close()
                await asyncio.sleep(0)
            await until(lambda: len(receivers[0].got) == len(receivers[1].got) == 60)
            assert receivers[1].bodies() == list(range(60))
            assert receivers[0].bodies() == [-n for n in range(60)]
            assert not (receivers[0].losses or receivers[1].losses)
        finally:
            relay.close()

    on_a_site(test)


def test_a_process_that_starts_again_is_met_and_gets_nothing_of_the_old_session() -> None:
    async def test(site: Site) -> None:
        ps0 = site.endpoint("ps0", "ipc")
        at_ps0 = Recorder()
        a = real_link(ps0, "worker0", at_ps0)
        for life in (1, 2, 3):
            receiver = Recorder()
            worker0 = site.endpoint("worker0")
            b = real_link(worker0, "ps0", receiver, incarnation=life)
            worker0.dial("ps0", ps0.addresses[0])
            await until(lambda life=life: a.stats().sessions == life)  # type: ignore[misc]
            a.send(Envelope("x", life))
            await until(lambda receiver=receiver: receiver.got)  # type: ignore[misc]
            assert receiver.bodies() == [life]
            await until(lambda: not a.stats().unacknowledged)
            worker0.close(0.0)  # as when it is killed: no goodbye
            a.send(Envelope("x", "never heard"))
            b.close()
        assert len(at_ps0.losses) == 2
        assert all("has started again" in str(reason) for reason, _ in at_ps0.losses)
        assert [[envelope.body for envelope in lost] for _, lost in at_ps0.losses] == 2 * [["never heard"]]

    on_a_site(test)


def test_who_dials_tries_again_after_a_handshake_that_failed() -> None:
    """libzmq itself gives up for ever when the other end breaks its protocol."""

    async def test(site: Site) -> None:
        met: list[asyncio.StreamWriter] = []

        async def breaks_it(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            met.append(writer)
            writer.write(bytes(100))

        rude = await asyncio.start_server(breaks_it, "127.0.0.1", 0)
        port = rude.sockets[0].getsockname()[1]
        worker0 = site.endpoint("worker0")
        worker0.dial("ps0", Address(f"tcp://127.0.0.1:{port}"))
        await asyncio.sleep(0.2)
        assert worker0.wire("ps0").contact() is Contact.UNKNOWN
        rude.close()
        for writer in met:
            writer.close()
        await until(lambda: can_bind(port))
        site.endpoint("ps0", f"tcp://127.0.0.1:{port}")
        await until(lambda: worker0.wire("ps0").contact() is Contact.CONNECTED)

    on_a_site(test)


def can_bind(port: int) -> bool:
    try:
        with socket.create_server(("127.0.0.1", port)):
            return True
    except OSError:
        return False


# -- where it may be bound -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bind", "what"),
    [
        ("tcp://10.1.2.3:0", "without keys tcp stays on this machine, got address '10.1.2.3'"),
        ("tcp://0.0.0.0:0", "bound to one address, which others can dial, got '0.0.0.0' for all"),
        ("tcp://*:0", "for all"),
        ("ipc:///nowhere/at/all", "lies in a folder of ours, got /nowhere/at: No such file"),
        ("ipc:///tmp/s", "nobody else can enter, got /tmp with mode"),
        ("http://a:1", "an address is tcp://HOST:PORT"),
    ],
)
def test_where_it_must_not_be_bound(bind: str, what: str) -> None:
    async def test(site: Site) -> None:
        before = len(os.listdir("/proc/self/fd"))
        with pytest.raises(ConfigError, match=what):
            site.endpoint("ps0", bind)
        await until(lambda: len(os.listdir("/proc/self/fd")) <= before)

    on_a_site(test)


def test_a_port_that_is_taken() -> None:
    async def test(site: Site) -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(ConfigError, match="in use") as e:
            site.endpoint("ps0", f"tcp://127.0.0.1:{taken.getsockname()[1]}")
        assert e.value.hint is not None
        assert e.value.hint.startswith(
            "see who has it (`ss -ltnp`), or take another port: for the chief one that"
        )

    on_a_site(test)


def test_a_socket_file_that_is_taken_and_one_that_was_left() -> None:
    async def test(site: Site) -> None:
        path = Path(site.folder) / "chief"
        with socket.socket(socket.AF_UNIX) as left:
            left.bind(str(path))
        ps0 = site.endpoint("ps0", f"ipc://{path}")
        made = path.stat().st_ino
        with pytest.raises(ConfigError, match="in use"):
            site.endpoint("ps0", f"ipc://{path}")
        assert path.stat().st_ino == made
        ps0.close()
        assert not path.exists()

    on_a_site(test)


def test_a_folder_that_others_may_enter_is_refused_to_both(tmp_path: Path) -> None:
    async def test(site: Site) -> None:
        ps0, worker0 = site.endpoint("ps0", "ipc"), site.endpoint("worker0")
        os.chmod(site.folder, 0o750)
        for use in (
            lambda: worker0.dial("ps0", ps0.addresses[0]),
            lambda: site.endpoint("ps1", "ipc"),
        ):
            with pytest.raises(ConfigError, match=f"chmod 700 {site.folder}"):
                use()
        os.chmod(site.folder, 0o700)
        link = tmp_path / "link"
        link.symlink_to(site.folder)
        with pytest.raises(ConfigError, match="nobody else can enter"):
            site.endpoint("ps1", f"ipc://{link}/s")

    on_a_site(test)


def test_what_must_not_be_dialled() -> None:
    async def test(site: Site) -> None:
        worker0 = site.endpoint("worker0")
        with pytest.raises(ConfigError, match="without keys tcp stays on this machine"):
            worker0.dial("ps0", Address("tcp://10.1.2.3:77"))
        with pytest.raises(ConfigError, match="shows a key, and this process has none"):
            worker0.dial("ps0", Address("tcp://127.0.0.1:77", Keyring.new().ring.current.public))
        with pytest.raises(ConfigError, match="has 1 to 200 bytes"):
            site.endpoint("")

    on_a_site(test)


# -- the end ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", ["alone", "dialling nobody", "connected", "with much unsent"])
def test_it_closes_soon_and_leaves_nothing(state: str) -> None:
    async def main(folder: str) -> None:
        loop = asyncio.get_running_loop()
        site = Site(folder)
        ps0 = site.endpoint("ps0", "ipc")
        worker0 = site.endpoint("worker0")
        Ear(ps0, "worker0"), Ear(worker0, "ps0")
        if state == "dialling nobody":
            worker0.dial("ps0", Address(f"ipc://{folder}/nobody"))
            worker0.wire("ps0").send(hello())
        elif state != "alone":
            worker0.dial("ps0", ps0.addresses[0])
            await until(lambda: worker0.wire("ps0").contact() is Contact.CONNECTED)
        if state == "with much unsent":
            for _ in range(200):
                worker0.wire("ps0").send(beat(size=1 << 20))
        start = loop.time()
        for endpoint in (worker0, ps0):
            endpoint.close(0.2)
            endpoint.close()
            endpoint.wire("ps0").send(beat())  # harmless
        assert loop.time() - start < 4  # 0.4 at most, where the processors are free
        await until(lambda: not any("ends its sockets" in thread.name for thread in threading.enumerate()))
        gc.collect()

    left = []
    for _ in range(2):  # pyzmq's thread that frees memory, which begins in the first, stays
        with TemporaryDirectory() as folder:
            with asyncio.Runner(loop_factory=loop_factory()) as runner:
                runner.run(main(folder))
            assert os.listdir(folder) == []
            left.append(len(os.listdir("/proc/self/fd")))
    assert left[1] <= left[0]


def test_a_goodbye_before_the_end_arrives() -> None:
    async def test(site: Site) -> None:
        ps0, worker0 = site.endpoint("ps0", "tcp"), site.endpoint("worker0")
        receivers = Recorder(), Recorder()
        a = real_link(ps0, "worker0", receivers[0])
        b = real_link(worker0, "ps0", receivers[1])
        worker0.dial("ps0", ps0.addresses[0])
        await until(lambda: a.stats().phase == b.stats().phase == "open")
        b.close()
        worker0.close()
        await until(lambda: receivers[0].losses)
        assert "has said goodbye" in str(receivers[0].losses[0][0])

    on_a_site(test)


def test_socket_files_are_ours_alone() -> None:
    async def test(site: Site) -> None:
        ps0 = site.endpoint("ps0", "ipc")
        assert ps0.addresses == (Address(f"ipc://{site.folder}/ps0"),)
        assert stat.S_ISSOCK(os.stat(f"{site.folder}/ps0").st_mode)
        assert isinstance(ps0, Endpoint)
        assert "ps0" in repr(ps0)
        assert QUICK.batch == 128

    on_a_site(test)
