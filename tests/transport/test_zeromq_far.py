"""Where a connection comes from, by the number of its descriptor."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from actorflow.transport.zeromq.peer_address import peer_address

pytestmark = pytest.mark.wire


def test_a_host_is_told_without_its_port() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()):
        accepted, _ = server.accept()
        with accepted:
            assert peer_address(accepted.fileno()) == "127.0.0.1"
            assert accepted.fileno() != -1
            accepted.send(b"it is still ours")


def test_at_a_socket_file_it_is_a_process() -> None:
    one, other = socket.socketpair()
    with one, other:
        assert peer_address(one.fileno()) == f"process {os.getpid()}"


def test_what_is_no_connection_any_more_is_nowhere(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    with (tmp_path / "file").open("w") as file:
        assert peer_address(file.fileno()) == ""
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert peer_address(server.fileno()) == "", "it listens"
        closed = server.fileno()
    assert peer_address(closed) == ""
    assert len(os.listdir("/proc/self/fd")) == before
