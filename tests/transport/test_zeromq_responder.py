"""Answers from a thread of its own, and every way not to get one."""

from __future__ import annotations

import os
import socket
import threading
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from actorflow.errors import ConfigError, NoAnswer, NobodyThere, PeerRefused, RequestFailed
from actorflow.runtime.clock import SystemClock
from actorflow.transport.zeromq import Address, Keyring, Responder, request
from tests.transport.sockets import QUICK

pytestmark = pytest.mark.wire


def upper(question: bytes) -> bytes:
    if question == b"fail":
        raise KeyError("nothing of that name")
    return question.upper()


@pytest.fixture
def folder():
    with TemporaryDirectory(prefix="af-") as made:
        yield made


@pytest.mark.parametrize("keyed", [False, True])
@pytest.mark.parametrize("transport", ["ipc", "tcp"])
def test_questions_are_answered_and_failures_told(folder: str, transport: str, keyed: bool) -> None:
    keys = Keyring.new() if keyed else None
    bind = f"ipc://{folder}/r" if transport == "ipc" else "tcp://127.0.0.1:0"
    responder = Responder("ps0", [bind], upper, keys=keys, options=QUICK)
    try:
        (address,) = responder.addresses
        assert (address.key is not None) is (keyed and transport == "tcp")
        assert request(address, b"abc", keys=keys) == b"ABC"
        with pytest.raises(RequestFailed, match="KeyError: 'nothing of that name'"):
            request(address, b"fail", keys=keys)
        assert request(address, b"x" * (1 << 20), keys=keys) == b"X" * (1 << 20)
        assert responder.stats().datagrams_in == 3
    finally:
        responder.close()
    assert not os.listdir(folder)
    assert not any(thread.name == "ps0 answers" for thread in threading.enumerate())
    responder.close()


def test_nobody_listens(folder: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    for at in (f"tcp://127.0.0.1:{port}", f"ipc://{folder}/nobody"):
        with pytest.raises(NobodyThere, match="got nobody at"):
            request(Address(at), b"", 5)
    dead = f"{folder}/dead"  # as after kill -9
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(dead)
    with pytest.raises(NobodyThere):
        request(Address(f"ipc://{dead}"), b"", 5)


def test_no_answer_in_time(folder: str) -> None:
    hold = threading.Event()
    responder = Responder("ps0", [f"ipc://{folder}/r"], lambda _: bytes(hold.wait(20)), options=QUICK)
    clock = SystemClock()
    start = clock.now()
    try:
        with pytest.raises(NoAnswer, match="answers in time"):
            request(responder.addresses[0], b"", 0.1)
        responder.close(0.1)  # it does not wait for the answer that is being made
        assert clock.now() - start < 2
    finally:
        hold.set()


def test_keys_that_do_not_fit(tmp_path: Path) -> None:
    keys, others = Keyring.new(), Keyring.new()
    keys.save(tmp_path / "keys")
    responder = Responder(
        "ps0", ["tcp://127.0.0.1:0"], upper, keys=Keyring.load(tmp_path / "keys"), options=QUICK
    )
    try:
        (address,) = responder.addresses
        with pytest.raises(PeerRefused, match="have a key in common"):
            request(address, b"", 5, others)
        with pytest.raises(ConfigError, match="shows a key, and this process has none"):
            request(address, b"")
        changed = Keyring.load(tmp_path / "keys")
        changed.rotate()
        assert request(address, b"a", keys=changed) == b"A"
        changed.drop()
        clock = SystemClock()
        end = clock.now() + 10
        while True:  # the first knock tells it that the key it shows is worth nothing any more
            try:
                assert request(address, b"a", keys=changed) == b"A"
                break
            except (PeerRefused, NobodyThere, NoAnswer):
                assert clock.now() < end
        with pytest.raises(PeerRefused):
            request(address, b"a", keys=keys)
        assert responder.stats().refused
    finally:
        responder.close()


def test_it_is_bound_as_endpoints_are() -> None:
    with pytest.raises(ConfigError, match="without keys tcp stays on this machine"):
        Responder("ps0", ["tcp://10.1.1.1:0"], upper)
    assert not any(thread.name == "ps0 answers" for thread in threading.enumerate())
