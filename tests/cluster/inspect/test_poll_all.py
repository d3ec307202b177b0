"""Who answers, who does not, and why."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from actorflow.cluster.inspect.poll_all import DebugAddress, poll_all
from actorflow.cluster.inspect.procfs import Usage, usage
from actorflow.cluster.inspect.reports import LookQuestion, LoopEntry, ProcessReport, Totals
from actorflow.errors import PeerLost
from actorflow.transport.codec.message_codec import decode, encode, join
from tests.support.busy import HANG_S

DEADLINE_S = HANG_S


def report(name: str) -> ProcessReport:
    return ProcessReport(name, 1, os.getpid(), 1.0, 1.0, LoopEntry(True, 0.0, 0.0, 0), Totals())


def answers(name: str, as_: str | None = None, pid: int | None = None) -> DebugAddress:
    def ask(request: bytes, timeout_s: float) -> bytes:
        assert isinstance(decode(request), LookQuestion)
        return join(encode(report(as_ or name)))

    return DebugAddress(name, ask, pid)


def silent(name: str, pid: int | None = None) -> DebugAddress:
    def ask(request: bytes, timeout_s: float) -> bytes:
        message = f"no answer within {timeout_s:g} s"
        raise PeerLost(message)

    return DebugAddress(name, ask, pid)


@pytest.fixture
def child():
    process = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
    yield process
    assert process.stdin is not None
    process.stdin.close()
    process.kill()
    process.wait()


def test_those_who_answer_and_those_who_do_not_are_told_apart() -> None:
    found = poll_all(
        [answers("worker10"), answers("worker2"), silent("ps0"), answers("chief")], LookQuestion()
    )

    assert found.names == ("chief", "ps0", "worker2", "worker10")
    assert set(found.reports) == {"chief", "worker2", "worker10"}
    assert str(found.silent["ps0"]) == "ps0: no answer within 2 s"


def test_all_are_asked_at_once() -> None:
    barrier = threading.Barrier(5, timeout=DEADLINE_S)

    def ask(name: str) -> DebugAddress:
        def together(request: bytes, timeout_s: float) -> bytes:
            barrier.wait()
            return join(encode(report(name)))

        return DebugAddress(name, together)

    assert len(poll_all([ask(f"worker{k}") for k in range(5)], LookQuestion()).reports) == 5


def test_a_process_that_a_signal_has_stopped_is_named_with_it(child: subprocess.Popen[bytes]) -> None:
    os.kill(child.pid, signal.SIGSTOP)
    for _ in range(1000):  # a parent that waits for the stop takes the signal's number away
        seen = usage(child.pid)
        if seen is not None and seen.state == "T":
            break
        threading.Event().wait(0.01)

    found = poll_all([silent("worker1", child.pid)], LookQuestion(), timeout_s=0.5)

    why = "it was stopped by SIGSTOP; SIGCONT lets it go on; no answer within 0.5 s"
    assert str(found.silent["worker1"]) == f"worker1 (pid {child.pid}): {why}"
    assert found.used["worker1"].state == "T"


def test_a_process_that_is_gone_is_said_to_be(child: subprocess.Popen[bytes]) -> None:
    child.kill()
    child.wait()

    found = poll_all([silent("worker1", child.pid)], LookQuestion())
    assert found.silent["worker1"].why == f"there is no process {child.pid} any more"


def test_what_is_no_report_and_who_is_another_is_no_answer() -> None:
    strange = DebugAddress("ps0", lambda request, timeout_s: join(encode("hello")))
    found = poll_all(
        [strange, answers("worker0", as_="worker1"), DebugAddress("ps1", lambda *_: b"?")], LookQuestion()
    )

    assert found.reports == {}
    assert found.silent["ps0"].why == "a process answers with a Report, got str"
    assert found.silent["worker0"].why == "'worker1' answers at its address: the address is an old one"


def test_what_the_kernel_says_of_this_process() -> None:
    seen = usage(os.getpid())

    assert seen is not None
    assert seen.state in "RS"
    assert seen.rss > 1 << 20
    assert usage(2**22 + 1) is None


@pytest.mark.parametrize(
    ("state", "by", "said"),
    [
        ("D", 0, "it waits in the kernel"),
        ("R", 0, "it runs: one call may hold up its interpreter"),
        ("T", 20, "it was stopped by SIGTSTP"),
        ("T", 0, "it was stopped; SIGCONT"),
        ("Z", 0, "it has ended"),
        ("S", 0, "it sleeps"),
    ],
)
def test_how_a_process_stands_in_words(state: str, by: int, said: str, tmp_path: Path) -> None:
    fields = ["0"] * 49
    fields[21 - 1], fields[49 - 1] = "3", str(by)
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "stat").write_text(f"7 (a) (b) {state} {' '.join(fields)}")

    seen = usage(7, tmp_path)
    assert isinstance(seen, Usage)
    assert str(seen).startswith(said)
    assert seen.rss == 3 * os.sysconf("SC_PAGE_SIZE")
