"""Keys between endpoints: who is let in, who is not, and how they are changed while all goes on."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from actorflow.errors import ConfigError, DiskFull
from actorflow.transport.rules.security import attempts
from actorflow.transport.rules.wire import Contact
from actorflow.transport.zeromq import Address, Endpoint, Keyring
from tests.transport.sockets import Ear, Site, on_a_site, until
from tests.transport.test_zeromq import hello

pytestmark = pytest.mark.wire


def met(ear: Ear) -> bool:
    return ear.wire.contact() is Contact.CONNECTED


def heard(ear: Ear) -> bool:
    return bool(ear.got)


# -- files -----------------------------------------------------------------------------------------


def test_a_ring_is_saved_loaded_and_handed_down(tmp_path: Path) -> None:
    keys = Keyring.new()
    keys.rotate()
    keys.save(tmp_path / "keys")

    assert Keyring.load(tmp_path / "keys").ring == keys.ring
    descriptor = keys.hand_down()
    again = os.dup(descriptor)  # as in several children
    assert Keyring.of(descriptor).ring == Keyring.of(again).ring == keys.ring
    read, write = os.pipe()
    os.write(write, keys.ring.text().encode())
    os.close(write)
    assert Keyring.of(read).ring == keys.ring
    for closed in (descriptor, again, read):
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(closed)


def test_files_that_are_no_good(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    with pytest.raises(ConfigError, match=f"`actorflow keys new {file}` makes one"):
        Keyring.load(file)
    with pytest.raises(ConfigError, match="a plain file"):
        Keyring.load(tmp_path)
    file.write_text("pear\n")
    file.chmod(0o600)
    with pytest.raises(ConfigError, match=f"got 1 word in {file}, line 1"):
        Keyring.load(file)
    file.write_text("#" * 70_000)
    with pytest.raises(ConfigError, match="a plain file of at most"):
        Keyring.load(file)
    file.write_text("")
    for mode in (0o640, 0o604, 0o620):
        file.chmod(mode)
        with pytest.raises(ConfigError, match=f"chmod 600 {file}"):
            Keyring.load(file)
    os.mkfifo(tmp_path / "fifo", 0o600)
    with pytest.raises(ConfigError, match="a plain file"):
        Keyring.load(tmp_path / "fifo")
    with pytest.raises(ConfigError, match="an open descriptor, got 9999"):
        Keyring.of(9999)


def test_a_file_that_changed_is_read_again_and_one_that_went_bad_is_not(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "keys"
    Keyring.new().save(file)
    here, there = Keyring.load(file), Keyring.load(file)
    there.rotate()
    kept = here.ring
    assert kept == there.ring
    with caplog.at_level(logging.WARNING):
        file.write_text("nothing\n")
        assert here.ring == here.ring == kept
    assert len(caplog.messages) == 1, caplog.messages
    assert "stay as they were" in caplog.text
    file.unlink()
    assert here.ring.publics


def test_a_file_that_could_not_be_read_for_a_moment_is_read_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "keys"
    Keyring.new().save(file)
    here, there = Keyring.load(file), Keyring.load(file)
    dropped = here.ring.current.public
    there.rotate()
    there.drop()

    def full(*_: object) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as patched, caplog.at_level(logging.WARNING):
        patched.setattr("actorflow.transport.zeromq.keys.os.open", full)
        assert dropped in here.ring.publics
        assert dropped in here.ring.publics

    assert len(caplog.messages) == 1, caplog.messages
    assert here.ring == there.ring


# -- between endpoints -----------------------------------------------------------------------------


def test_who_has_the_keys_is_let_in_and_who_has_others_or_none_is_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def test(site: Site) -> None:
        ours, others = Keyring.new(), Keyring.new()
        ps0 = site.endpoint("ps0", "tcp", keys=ours)
        at_ps0 = Ear(ps0, "worker0")
        (address,) = ps0.addresses
        assert address.key == ours.ring.current.public
        worker0 = site.endpoint("worker0", keys=ours)
        ear = Ear(worker0, "ps0")
        worker0.dial("ps0", address)
        await until(lambda: met(ear))
        ear.wire.send(hello())
        await until(lambda: at_ps0.got)
        before = list(at_ps0.got)

        stranger = site.endpoint("worker0", keys=others)  # it does not know the key that ps0 shows
        stranger.dial("ps0", address)
        assert stranger.refusal("ps0") == ""
        await until(lambda: ps0.stats().refused.get("handshake", 0) > 3)
        await until(lambda: stranger.refusal("ps0"))
        await until(lambda: any(", from 127.0.0.1" in message for message in caplog.messages))
        assert f"were refused at {address.at}: most likely by keys, got keys" in stranger.refusal("ps0")
        assert worker0.refusal("ps0") == worker0.refusal("ps7") == ""
        bare = site.endpoint("worker0")
        bare.dial("ps0", Address(address.at))
        await until(lambda: ps0.stats().refused["handshake"] > 6)
        for other in (stranger, bare):
            assert other.wire("ps0").contact() is Contact.UNKNOWN
            other.wire("ps0").send(hello(2))
        assert at_ps0.got == before
        assert met(ear)
        ear.wire.send(hello(3))
        await until(lambda: len(at_ps0.got) == 2)

    with caplog.at_level(logging.WARNING):
        on_a_site(test)
    told = [message for message in caplog.messages if "'ps0' refused" in message]
    failed = (
        "'ps0' refused a handshake that failed (other keys, none where there are some, or no ZeroMQ), from"
    )
    assert f"{failed} 127.0.0.1" in told
    assert len(told) == len(set(told)) <= 2, "and from somewhere, where it had ended before it was looked at"
    dialler = next(message for message in caplog.messages if "got keys from" in message)
    assert dialler.startswith(
        "'worker0' meets nobody: 3 handshakes in a row were refused at tcp://127.0.0.1:"
    )


def test_a_key_that_is_not_in_the_ring_is_refused_though_it_knows_the_servers(
    tmp_path: Path,
) -> None:
    """Who has seen the public key of a server cannot come in with a pair of its own."""

    async def test(site: Site) -> None:
        ours = Keyring.new()
        ps0 = site.endpoint("ps0", "tcp", keys=ours)
        Ear(ps0, "worker0")
        thief = Keyring.new()
        public = ours.ring.current.public
        file = tmp_path / "keys"  # its own pair first, and ours with a secret that it has made up
        own = thief.ring.current
        file.write_text(f"pair {own.public} {own.secret}\npair {public} {own.secret}\n")
        file.chmod(0o600)
        stolen = Keyring.load(file)
        assert attempts(stolen.ring, public)[0] == (public, own)
        worker0 = site.endpoint("worker0", keys=stolen)
        worker0.dial("ps0", ps0.addresses[0])
        await until(lambda: ps0.stats().refused.get("wrong_key", 0) > 1)
        await until(lambda: worker0.stats().refused.get("refused_there", 0) > 1)
        assert worker0.wire("ps0").contact() is Contact.UNKNOWN

    on_a_site(test)


def test_keys_rotate_and_drop_while_a_cluster_runs(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    Keyring.new().save(file)

    async def test(site: Site) -> None:
        old = Keyring(Keyring.load(file).ring)  # who never reads the new file
        ps0 = site.endpoint("ps0", "tcp", keys=Keyring.load(file))
        (address,) = ps0.addresses
        ears = {name: Ear(ps0, name) for name in ("worker0", "worker1", "worker2", "worker3")}
        ears_there: dict[str, Ear] = {}

        def come(name: str, keys: Keyring) -> Ear:
            worker = site.endpoint(name, keys=keys)
            ears_there[name] = Ear(worker, "ps0")
            worker.dial("ps0", address)
            return ears_there[name]

        first = come("worker0", Keyring.load(file))
        await until(lambda: met(first))
        Keyring.load(file).rotate()
        for name, keys in (("worker1", Keyring.load(file)), ("worker2", old)):
            ear = come(name, keys)
            await until(partial(met, ear), f"{name} after the rotation")
        assert ps0.addresses == (address,)  # what is shown is let in still

        Keyring.load(file).drop()
        newest = Keyring.load(file)
        last = come("worker3", newest)  # was told of a key that is worth nothing any more
        await until(lambda: met(last), "worker3 after the drop")
        assert ps0.addresses == (Address(address.at, newest.ring.current.public),)
        await until(lambda: met(first), "worker0, which reads the file")
        await until(lambda: not met(ears_there["worker2"]), "worker2 to be shut out")
        last.wire.send(hello())
        await until(lambda: ears["worker3"].got)

    on_a_site(test)


def test_socket_files_need_no_keys_even_where_there_are_some() -> None:
    async def test(site: Site) -> None:
        ps0 = site.endpoint("ps0", "ipc", keys=Keyring.new())
        (address,) = ps0.addresses
        assert address.key is None
        at_ps0 = Ear(ps0, "worker0")
        worker0 = site.endpoint("worker0")
        ear = Ear(worker0, "ps0")
        worker0.dial("ps0", address)
        await until(lambda: met(ear))
        ear.wire.send(hello())
        await until(lambda: at_ps0.got)

    on_a_site(test)


def test_one_endpoint_has_socket_files_and_ports() -> None:
    async def test(site: Site) -> None:
        keys = Keyring.new()
        loop = asyncio.get_running_loop()
        ps0 = Endpoint(loop, "ps0", ["tcp://127.0.0.1:0", f"ipc://{site.folder}/ps0"], keys=keys)
        site.endpoints.append(ps0)
        by_file, by_port = ps0.addresses
        assert (by_file.key, by_port.key) == (None, keys.ring.current.public)
        for n, address in enumerate(ps0.addresses):
            at_ps0 = Ear(ps0, f"worker{n}")
            worker = site.endpoint(f"worker{n}", keys=keys)
            ear = Ear(worker, "ps0")
            worker.dial("ps0", address)
            await until(partial(met, ear))
            ear.wire.send(hello())
            await until(partial(heard, at_ps0))
        bare = site.endpoint("worker0")
        bare.dial("ps0", Address(by_port.at))
        await until(lambda: ps0.stats().refused.get("handshake"))

    on_a_site(test)


def test_where_a_file_has_one_name_only_keys_are_made_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_links(*_: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", no_links)
    keys = Keyring.new()
    keys.save(tmp_path / "keys")

    assert Keyring.load(tmp_path / "keys").ring == keys.ring
    with pytest.raises(ConfigError, match="not there yet"):
        Keyring.new().save(tmp_path / "keys")
    assert [path.name for path in tmp_path.iterdir()] == ["keys"]


@pytest.mark.parametrize("change", [Keyring.rotate, Keyring.drop])
def test_a_change_that_finds_no_room_leaves_the_file_and_the_ring(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[Keyring], None]
) -> None:
    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    Keyring.new().save(tmp_path / "keys")
    keys = Keyring.load(tmp_path / "keys")
    keys.rotate()
    before = (tmp_path / "keys").read_bytes(), keys.ring
    monkeypatch.setattr(os, "fsync", full)

    with pytest.raises(DiskFull, match=r"must have room where they are written, got .*keys: No space"):
        change(keys)
    assert ((tmp_path / "keys").read_bytes(), keys.ring) == before
    assert [path.name for path in tmp_path.iterdir()] == ["keys"]
