"""`actorflow dump`: which cluster, what it prints, and what it says of those who do not answer."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

import actorflow as af
from actorflow.actors.dump import ActorEntry, PeerEntry, WaitEntry
from actorflow.actors.tombstones import Tombstones
from actorflow.cli import dump, main, running_cluster
from actorflow.cluster.inspect.monitor import socket_name, sockets
from actorflow.cluster.inspect.reports import (
    LinkEntry,
    LoopEntry,
    MemberEntry,
    ProcessReport,
    RunEntry,
    ShardEntry,
    Totals,
    WorkerEntry,
)
from actorflow.cluster.local import LocalCluster
from actorflow.errors import PeerLost, PeerRefused
from actorflow.launch.rundir import RunDirectory
from actorflow.transport.codec.message_codec import encode, join
from tests.cluster.children import build

GOES = LoopEntry(True, 0.0002, 0.001, 0)
HELD = LoopEntry(False, 3.25, 3.25, 4, "worker", ("kernels/conv.py:12 in conv2d: blas(x)",))
SEATS = (
    MemberEntry("worker0", 0, 1, "alive", 0.2, 12, 1.5, False, ""),
    MemberEntry("worker1", 1, 2, "alive", 0.1, 0, 0.0, True, ""),
)
RUN = RunEntry("coordinator1", 1, 7, "sync", "idle", (), "sync waits; worker0 has permit 12", 1.0, SEATS)


def report(name: str, **more: Any) -> ProcessReport:
    peers = tuple(
        PeerEntry(other, True, 0, 0, 0, 0) for other in ("chief", "ps0", "worker0") if other != name
    )
    made = ProcessReport(name, 3, 100, 12.25, 50.0, GOES, Totals(mailbox=2, mailbox_limit=1024), peers=peers)
    return replace(made, **more)


def link(peer: str, phase: str = "open", in_line: int = 0) -> LinkEntry:
    return LinkEntry(peer, phase, "connected", 1, 5, 6, in_line, 7, 8, 9, 0, 0)


REPORTS = {
    "chief": report(
        "chief",
        run=RUN,
        links=(link("ps0"), link("worker0", in_line=3)),
        peers=(
            PeerEntry("ps0", True, 0, 0, 0, 0, story="met('1.1', '1.1')"),
            PeerEntry("worker0", True, 0, 0, 0, 0, story="met('1.1', '2.1') > wait(7, 64, 'no credit')"),
        ),
    ),
    "ps0": report("ps0", shard=ShardEntry(0, "idle", 7, (1,), 0, {"late": 4}, (0.0, 0))),
    "worker0": report(
        "worker0",
        loop=HELD,
        worker=WorkerEntry(12, 11, 9, 2, False),
        waits=(WaitEntry("worker", "ps0/shard", "ask", "Pull", 0.5),),
        actors=(
            ActorEntry("worker", "suspended", 1, 1, 1024, 2, 0, 1, 0, 0, ("assign(1, 0, 1) > permit(12)",)),
            ActorEntry("process_agent", "idle", 1, 0, 1024, 1, 0, 1, 0, 0),
        ),
        unread=("RuntimeError: dictionary changed size during iteration",),
    ),
}


def asking(reports: Mapping[str, ProcessReport]) -> Any:
    """Answers as processes at ipc sockets of these names would; others are silent."""

    def ask(address: str, payload: bytes, timeout_s: float, keys: Path | None) -> bytes:
        name = address.rpartition("/")[2].partition(".")[0]
        if name not in reports:
            message = f"no answer within {timeout_s:g} s"
            raise PeerLost(message)
        return join(encode(reports[name]))

    return ask


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where runs have their folders: a short path, for the names of sockets must have room."""
    with TemporaryDirectory(prefix="af-") as made:
        monkeypatch.setenv("XDG_RUNTIME_DIR", made)
        yield Path(made)


@pytest.fixture
def folder(home: Path) -> Iterator[RunDirectory]:
    with RunDirectory() as made:
        for name in REPORTS:
            (made.path / socket_name(name, 3)).touch()
        made.write({"worker1": {"pid": 2**22 + 1}})
        yield made


def arguments(*argv: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    dump.add_to(parser.add_subparsers())
    return parser.parse_args(["dump", *argv])


EXPECTED = """\
run RUN: 3 of 4 processes answer

process  pid      up      loop               mailbox  in line  does
chief    100      12.2 s  0.2 ms late        2/1024   0        coordinator1 at version 7, idle: sync waits; worker0 has permit 12
ps0      100      12.2 s  0.2 ms late        2/1024   0        shard 0 at version 7, idle, keeps those of ranks 1, refused 4 late
worker0  100      12.2 s  held up for 3.2 s  2/1024   0        permit 12; 11 computed, 9 used, 2 missed
worker1  4194305          no answer

who waits for whom
  chief/coordinator1 -> worker0/worker: the contribution of permit 12, for 1.5 s
  worker0/worker -> ps0/shard: an answer to Pull, for 0.5 s
  chief -> worker0: 3 in line for credit
  worker1/worker -> chief/coordinator1: the update after version 7

rings of waits
  none

links
  chief -> worker0: open, contact connected, session 1, 3 in line, credit 7, 8 unacknowledged, 9 resent, 0 refused, 0 malformed
    met('1.1', '2.1') > wait(7, 64, 'no credit')

busy actors
  worker0/worker: suspended, 1/1024 messages (peak 2), 0/1 bytes (peak 0)

what they did last
  worker0/worker: assign(1, 0, 1) > permit(12)

the loop of worker0 is held up for 3.2 s in a turn of worker
  kernels/conv.py:12 in conv2d: blas(x)
  could not be read: RuntimeError: dictionary changed size during iteration

no answer
  worker1 (pid 4194305): there is no process 4194305 any more
"""


def test_all_of_a_cluster_in_one_text(folder: RunDirectory, capsys: pytest.CaptureFixture[str]) -> None:
    assert dump.run(arguments(), asking(REPORTS)) == 0

    assert capsys.readouterr().out == EXPECTED.replace("RUN", folder.run)


def test_all_actors_are_listed_when_asked_for(
    folder: RunDirectory, capsys: pytest.CaptureFixture[str]
) -> None:
    dump.run(arguments("--actors"), asking(REPORTS))

    assert "  worker0/process_agent: idle" in capsys.readouterr().out


def test_an_input_that_stands_still_is_told_with_its_line(
    folder: RunDirectory, capsys: pytest.CaptureFixture[str]
) -> None:
    what = "batch 3 of epoch 0, of generator 'batches' at train.py:41"
    told = {"worker0": report("worker0", worker=WorkerEntry(12, 11, 9, 2, False, what, 4.8))}

    dump.run(arguments(), asking(told))

    out = capsys.readouterr().out
    assert f"permit 12, waits for {what}, for 4.8 s; 11 computed" in out
    assert f"  worker0/worker -> worker0/input: {what}, for 4.8 s\n" in out


def test_dead_actors_are_told_with_when_and_why(
    folder: RunDirectory, capsys: pytest.CaptureFixture[str]
) -> None:
    dead = Tombstones()
    dead.add("reader", 1.0, ValueError("out of paper"))
    dead.add("process_agent", 2.0, None)
    told = {"chief": report("chief", dead=dead.all(), at_s=3.5)}

    dump.run(arguments(), asking(told))
    assert "\ndead actors\n  chief/reader: died 2.5 s ago: out of paper\n\n" in capsys.readouterr().out
    dump.run(arguments("--actors"), asking(told))
    assert "  chief/process_agent: was stopped 1.5 s ago\n" in capsys.readouterr().out


def test_json_has_all_that_was_told(folder: RunDirectory, capsys: pytest.CaptureFixture[str]) -> None:
    assert dump.run(arguments("--json", folder.run[:3]), asking(REPORTS)) == 0

    told = json.loads(capsys.readouterr().out)
    assert told["run"] == folder.run
    assert told["processes"]["chief"]["run"]["members"][1]["incarnation"] == 2
    assert told["processes"]["worker0"]["loop"]["doing"] == "worker"
    assert told["silent"]["worker1"]["why"] == "there is no process 4194305 any more"
    assert [wait["kind"] for wait in told["waits"]] == ["permit", "ask", "line", "update"]
    assert told["rings"] == []


def test_a_ring_is_told(folder: RunDirectory, capsys: pytest.CaptureFixture[str]) -> None:
    ring = {
        "ps0": report("ps0", waits=(WaitEntry("a", "worker0/b", "ask", "X", 2.0),)),
        "worker0": report("worker0", waits=(WaitEntry("b", "ps0/a", "ask", "Y", 1.0),)),
    }
    dump.run(arguments(), asking(ring))

    out = capsys.readouterr().out
    assert "rings of waits\n  ps0/a -> worker0/b -> ps0/a\n" in out
    assert "chief: no answer within 2 s" in out


def test_where_nobody_answers_the_exit_code_is_1(
    folder: RunDirectory, capsys: pytest.CaptureFixture[str]
) -> None:
    assert dump.run(arguments("--timeout-s", "0.5"), asking({})) == 1
    assert "0 of 4 processes answer" in capsys.readouterr().out


def test_a_wrong_key_is_said_of_each(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def refuses(address: str, payload: bytes, timeout_s: float, keys: Path | None) -> bytes:
        assert (address, keys) == ("tcp://10.0.0.1:4001", Path("ring"))
        raise PeerRefused("'worker0' refuses our key")

    args = arguments("--address", "worker0=tcp://10.0.0.1:4001", "--keys", "ring")
    assert dump.run(args, refuses) == 1
    assert "  worker0: 'worker0' refuses our key\n" in capsys.readouterr().out


def test_a_process_without_a_socket_yet_is_said_to_have_none(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with RunDirectory() as made:
        made.write({"ps0": {"pid": None}, "worker0": "what an older launcher wrote"})
        assert dump.run(arguments(), asking({})) == 1
    assert "  worker0: it has not opened its socket for questions\n" in capsys.readouterr().out


def test_without_a_cluster_it_says_what_to_try(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dump"]) == 1
    err = capsys.readouterr().err
    assert err.startswith(
        "LaunchError: no cluster of this user runs on this machine\n  try:   start one with"
    )


def test_of_several_clusters_one_has_to_be_named(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with RunDirectory() as one, RunDirectory() as other:
        assert main(["dump"]) == 1
        err = capsys.readouterr().err
        assert "LaunchError: 2 clusters fit:\n  run " in err
        assert f"  {one.run}  unknown  " in err and f"  {other.run}  unknown  " in err
        assert main(["dump", "nothing"]) == 1
        assert "no run begins with 'nothing'; running: " in capsys.readouterr().err


@pytest.mark.parametrize("command", ["dump", "top"])
def test_it_lists_the_clusters_with_what_they_run_and_for_how_long(
    command: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command, "--list"]) == 1
    assert capsys.readouterr().out == "no cluster of this user runs on this machine\n"
    with RunDirectory(program="examples/digits.py") as one, RunDirectory() as other:
        one.write({"ps0": {"pid": 1}, "worker0": {"pid": 2}})
        assert main([command, "--list"]) == 0
        head, *rows = capsys.readouterr().out.splitlines()

    assert head.split() == ["run", "program", "age", "processes"]
    cells = {row.split()[0]: (row.split()[1], row.split()[-1]) for row in rows}
    assert cells == {one.run: ("examples/digits.py", "2"), other.run: ("unknown", "0")}


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (-1, "0 s"), (0.4, "0 s"), (42, "42 s"), (60, "1 min"), (200, "3 min 20 s"), (3600, "1 h"),
        (3605, "1 h"), (18_120, "5 h 2 min"), (273_600, "3 d 4 h"),
    ],
)  # fmt: skip
def test_an_age_has_its_two_largest_units(seconds: float, said: str) -> None:
    assert running_cluster.duration(seconds) == said


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--address", "worker0"], "--address: must read NAME=ADDRESS"),
        (["--timeout-s", "0"], "--timeout-s: must be seconds, above 0"),
        (["--timeout-s", "soon"], "--timeout-s: must be seconds, above 0"),
    ],
)
def test_a_wrong_command_line_is_explained(
    argv: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["dump", *argv])

    assert caught.value.code == 2
    assert said in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.wire
def test_real_processes_answer_and_one_that_was_stopped_is_named(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever asks has no keys: they answer at sockets in the folder of the run, over whatever they train."""

    async def asked(timeout_s: str) -> dict[str, Any]:
        code = await asyncio.to_thread(dump.run, arguments("--json", "--timeout-s", timeout_s))
        assert code == 0
        told: dict[str, Any] = json.loads(capsys.readouterr().out)
        return told

    async def main() -> None:
        async with (
            LocalCluster(build, workers=1, transport="tcp") as cluster,
            aclosing(af.Trainer(cluster).run()) as events,
        ):
            async for event in events:
                if event.step == 10:
                    break
            told = await asked("5")
            assert set(told["processes"]) == {"chief", "ps0", "worker0"}
            assert told["silent"] == {}
            assert told["processes"]["ps0"]["shard"]["version"] >= 10
            assert told["processes"]["worker0"]["totals"]["bytes_in"] > 0
            pid = told["processes"]["worker0"]["pid"]
            os.kill(pid, signal.SIGSTOP)
            try:
                told = await asked("1.5")
            finally:
                os.kill(pid, signal.SIGCONT)
            assert told["silent"]["worker0"]["why"].startswith("it was stopped by SIGSTOP; SIGCONT lets")

    af.run(main())


def test_the_socket_of_the_latest_life_is_asked(tmp_path: Path) -> None:
    for name in ("worker0.9.m", "worker0.10.m", "ps0.3.m", "chief", "x.m", "a.b.m", ".4.m"):
        (tmp_path / name).touch()

    assert {name: path.name for name, path in sockets(tmp_path).items()} == {
        "ps0": "ps0.3.m",
        "worker0": "worker0.10.m",
    }
