from __future__ import annotations

import _thread
import multiprocessing
import os
import queue
import select
import selectors
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from socket import socket as socket_bound_before

import pytest
import zmq
import zmq.asyncio

from actorflow.errors import Escape
from actorflow.sim.engine import forbidden_calls, patched_environment
from tests.sim.spinning import is_set


def nothing() -> None:
    """What would run elsewhere."""


def pooled() -> None:
    with ThreadPoolExecutor(1) as pool:
        pool.submit(nothing)


# What a program may reach for -> (how, what the refusal says). Each would do no harm if it went through.
REACHES: dict[str, tuple[Callable[[], object], str]] = {
    "thread": (lambda: threading.Thread(target=nothing, name="pump").start(), "'pump', which runs nothing"),
    "timer thread": (lambda: threading.Timer(0, nothing).start(), "which runs Timer"),
    "thread pool": (pooled, "start a thread"),
    "bare thread, old name": (lambda: _thread.start_new(nothing, ()), "_thread.start_new"),
    "bare thread": (lambda: _thread.start_new_thread(nothing, ()), "_thread.start_new_thread"),
    "multiprocessing": (
        lambda: multiprocessing.get_context("spawn").Process(target=nothing, name="far").start(),
        "'far', which runs nothing",
    ),
    "socket": (lambda: socket.socket().close(), "open a socket: socket.__new__"),
    "socket, bound before": (lambda: socket_bound_before().close(), "open a socket: socket.__new__"),
    "socket pair": (lambda: [end.close() for end in socket.socketpair()], "_socket.socketpair"),
    "name look-up": (lambda: socket.getaddrinfo("localhost", 80), "getaddrinfo('localhost')"),
    "host look-up": (lambda: socket.gethostbyname("localhost"), "look up a host"),
    "subprocess": (lambda: subprocess.run(["true"], check=True), "subprocess.Popen('true')"),
    "shell": (lambda: os.system("true"), "start a process: os.system(b'true')"),
    "select": (lambda: select.select([], [], [], 0), "wait for descriptors: select.select"),
    "selector": (
        lambda: selectors.DefaultSelector().select(0),
        "Selector.select(0)",
    ),
    "signal": (lambda: os.kill(os.getpid(), 0), "send a signal: os.kill(0)"),
    "zmq context": (lambda: zmq.Context().term(), "zmq.Context"),
    "zmq asyncio context": (lambda: zmq.asyncio.Context().term(), "zmq.Context"),
}
if hasattr(select, "poll"):
    REACHES["poll"] = lambda: select.poll().poll(0), "select.poll"
if hasattr(select, "epoll"):
    REACHES["epoll"] = lambda: select.epoll().close(), "select.epoll"
if hasattr(os, "fork"):
    REACHES["spawn"] = lambda: os.waitpid(os.posix_spawn("/bin/true", ["true"], {}), 0), "os.posix_spawn"
    REACHES["thread signal"] = lambda: signal.pthread_kill(threading.get_ident(), 0), "signal.pthread_kill(0)"
    REACHES["alarm"] = lambda: signal.alarm(0), "signal.alarm"
    REACHES["timer"] = lambda: signal.setitimer(signal.ITIMER_REAL, 0), "signal.setitimer"


def refused(reach: Callable[[], object]) -> str | None:
    """What a program that reaches out is told, or None where it got through."""
    with patched_environment.patch_environment(now=float, seed=7):
        try:
            reach()
        except Escape as error:
            return str(error)
        return None


@pytest.mark.parametrize("name", REACHES)
def test_a_program_that_reaches_out_is_told_what_where_and_what_to_do(name: str) -> None:
    reach, said = REACHES[name]

    told = refused(reach)

    assert told is not None
    assert said in told
    assert "tests/sim/engine/test_forbidden_calls.py:" in told
    assert "  try:   " in told


# Not multiprocessing: a process that is spawned would import the tests.
@pytest.mark.parametrize("name", [name for name in REACHES if name != "multiprocessing"])
def test_what_is_refused_in_a_run_works_before_and_after_it(name: str) -> None:
    """The planted fault of the test above: without the patches each of these goes through."""
    reach, _ = REACHES[name]
    refused(reach)

    reach()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform has none")
def test_a_fork_is_refused_before_there_is_a_child() -> None:
    parent = os.getpid()

    told = refused(lambda: os.fork() or os._exit(0))

    assert os.getpid() == parent
    assert told is not None
    assert "may not fork: os.fork" in told


def test_becoming_another_program_is_refused() -> None:
    told = refused(lambda: os.execv(sys.executable, [sys.executable, "-c", "raise SystemExit(3)"]))

    assert told is not None
    assert "become another process" in told


# Raised by another platform or a newer Python, or by what would do harm if it went through.
@pytest.mark.parametrize(
    "event",
    [
        "_thread.start_joinable_thread", "_thread.start_new_thread", "_winapi.CreateProcess", "os.forkpty",
        "os.killpg", "os.spawn", "os.startfile", "socket.gethostbyaddr", "socket.getnameinfo",
        "socket.sendmsg", "time.sleep",
    ],
)  # fmt: skip
def test_what_is_audited_elsewhere_is_refused(event: str) -> None:
    told = refused(lambda: sys.audit(event, "first", "second"))

    assert told is not None
    assert event in told


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="this platform has no timers")
@pytest.mark.parametrize("wait", ["pause", "sigwait"])
def test_a_wait_for_a_signal_is_refused(wait: str) -> None:
    waits = {"pause": lambda: signal.pause(), "sigwait": lambda: signal.sigwait({signal.SIGALRM})}
    before = signal.signal(signal.SIGALRM, lambda *_: None)
    signal.setitimer(signal.ITIMER_REAL, 1.0)  # so that a wait that gets through ends, and is seen
    try:
        told = refused(waits[wait])
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)

    assert told is not None
    assert f"use signals: signal.{wait}" in told


def test_a_zmq_socket_of_a_context_made_before_is_refused() -> None:
    with zmq.Context() as context:
        told = refused(lambda: context.socket(zmq.PUB))

    assert told is not None
    assert "zmq.Socket" in told


def test_a_socket_made_before_may_not_connect_or_bind() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as made_before:
        bound = refused(lambda: made_before.bind(("127.0.0.1", 0)))
        connected = refused(lambda: made_before.connect(("127.0.0.1", 9)))
        sent = refused(lambda: made_before.sendto(b"x", ("127.0.0.1", 9)))

    assert bound is not None
    assert "('127.0.0.1', 0)" in bound
    assert connected is not None
    assert sent is not None


def test_files_stay_open_to_the_program(tmp_path: Path) -> None:
    file = tmp_path / "a"

    told = refused(lambda: file.write_text("x") and file.read_text())

    assert told is None
    assert file.read_text() == "x"


def test_another_thread_may_reach_out() -> None:
    go, gone = threading.Event(), threading.Event()
    errors: list[Escape] = []

    def reach() -> None:
        go.wait(10)
        try:
            for name in ("thread", "socket", "select", "zmq context", "shell"):
                REACHES[name][0]()
        except Escape as error:
            errors.append(error)
        gone.set()

    thread = threading.Thread(target=reach)
    thread.start()
    with patched_environment.patch_environment(now=float, seed=7) as outside:
        go.set()
        assert is_set(gone)
    thread.join()

    assert errors == outside.refused == []


def test_the_hook_is_installed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    refused(nothing)
    installed: list[object] = []
    monkeypatch.setattr(sys, "addaudithook", installed.append)

    refused(nothing)

    assert installed == []
    assert forbidden_calls._installed


@pytest.mark.parametrize(
    "wait",
    [
        lambda: threading.Event().wait(),
        lambda: threading.Event().wait(0.2),
        lambda: queue.Queue().get(timeout=0.2),
        lambda: threading.Semaphore(0).acquire(),
        lambda: Future().result(0.2),
    ],
    ids=["event", "event in time", "queue", "semaphore", "future"],
)
def test_a_wait_for_another_thread_is_refused(wait: Callable[[], object]) -> None:
    with (
        patched_environment.patch_environment(now=float, seed=7),
        pytest.raises(Escape, match="wait for another thread.*test_forbidden_calls.py"),
    ):
        wait()
