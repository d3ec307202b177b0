"""A process is asked over its socket, also while its loop is held up."""

from __future__ import annotations

import asyncio
import logging
import threading
from pathlib import Path
from typing import Any

import pytest

from actorflow.actors.actor import Actor
from actorflow.actors.system import ActorSystem
from actorflow.cluster.inspect.debug_endpoint import folder_of, serve_debug_endpoint
from actorflow.cluster.inspect.monitor import sockets
from actorflow.cluster.inspect.poll_all import DebugAddress, PollResult, poll_all
from actorflow.cluster.inspect.reports import LookQuestion, ProcessReport
from actorflow.cluster.process.process import Process
from actorflow.launch.inherited import FOLDER
from actorflow.transport.rules.address import Address
from actorflow.transport.zeromq import request
from tests.support.busy import HANG_S
from tests.support.linear import regression

pytestmark = pytest.mark.wire
DEADLINE_S = HANG_S


def look(folder: Path) -> PollResult:
    """Asks all sockets of a folder, as another process would."""

    def place(name: str, path: Path) -> DebugAddress:
        return DebugAddress(name, lambda payload, s: request(Address(f"ipc://{path}"), payload, s))

    return poll_all([place(*each) for each in sockets(folder).items()], LookQuestion(), timeout_s=DEADLINE_S)


class Holding(Actor):
    def __init__(self, begun: threading.Event, until: threading.Event) -> None:
        self._begun = begun
        self._until = until

    def receive(self, message: Any) -> None:
        self._begun.set()
        self._until.wait(DEADLINE_S)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    tmp_path.chmod(0o700)
    return tmp_path


def test_whoever_enters_the_folder_may_ask_and_the_socket_goes_with_the_process(folder: Path) -> None:
    async def body() -> PollResult:
        async with ActorSystem(name="ps0") as system:
            process = Process("ps0", 5, system, regression())
            with serve_debug_endpoint(process, folder, lambda: (7, 8)):
                assert (folder / "ps0.5.m").exists()
                found = await asyncio.to_thread(look, folder)
            await process.close()
        return found

    found = asyncio.run(body())
    assert found.silent == {}
    assert found.reports["ps0"].loop.answers
    assert (found.reports["ps0"].totals.bytes_out, found.reports["ps0"].totals.bytes_in) == (7, 8)
    assert list(folder.iterdir()) == []


def test_it_answers_while_the_loop_is_held_up(folder: Path) -> None:
    begun, until = threading.Event(), threading.Event()
    found: list[ProcessReport] = []

    def ask() -> None:
        try:
            assert begun.wait(DEADLINE_S)
            found.append(look(folder).reports["worker0"])
        finally:
            until.set()

    async def body() -> None:
        async with ActorSystem(name="worker0") as system:
            process = Process("worker0", 1, system, regression())
            with serve_debug_endpoint(process, folder):
                system.spawn(Holding, begun, until, name="holding").tell("hold it up")
                thread = threading.Thread(target=ask)
                thread.start()
                await asyncio.to_thread(thread.join)
            await process.close()

    asyncio.run(body())
    assert not found[0].loop.answers
    assert found[0].loop.doing == "holding"
    assert any("until.wait" in call for call in found[0].loop.stack)


def test_where_no_socket_can_be_opened_the_process_goes_on(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def body() -> None:
        async with ActorSystem(name="ps0") as system:
            process = Process("ps0", 5, system, regression())
            with caplog.at_level(logging.WARNING), serve_debug_endpoint(process, folder / "nowhere"):
                pass
            with serve_debug_endpoint(process, None):
                pass
            await process.close()

    asyncio.run(body())
    assert "'ps0' cannot be asked what it does" in caplog.text


def test_the_folder_is_that_of_the_socket_file_or_what_the_launcher_says(folder: Path) -> None:
    assert folder_of(Address(f"ipc://{folder}/worker0-1f"), {FOLDER: "/elsewhere"}) == folder
    assert folder_of(Address("tcp://127.0.0.1:4001"), {FOLDER: str(folder)}) == folder
    assert folder_of(Address("tcp://127.0.0.1:4001"), {}) is None
    assert folder_of(Address("hub:chief"), {}) is None
