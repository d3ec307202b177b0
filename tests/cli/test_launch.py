"""Whole clusters from the command line: how they end, and what they say."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from actorflow.cli import command, launch, worker
from actorflow.cli.cluster_arguments import common, links_of, training
from actorflow.cluster.sockets import inherited_keyring
from actorflow.errors import ConfigError
from actorflow.launch.inherited import FOLDER, NO_KEYS
from actorflow.launch.process_supervisor import Exited
from actorflow.launch.rundir import running
from actorflow.transport.rules.security import parse
from tests.cluster.children import alive
from tests.support.busy import HANG_S
from tests.support.python import run_python

PROGRAM = "tests.cluster.children:build"


Left = Callable[[], list[str]]


@contextmanager
def launched(*args: str) -> Iterator[subprocess.Popen[str]]:
    """Runs `actorflow launch` in a process of its own, which is killed with all it has if it is left."""
    argv = [sys.executable, "-m", "actorflow", "launch", PROGRAM, *args]
    process = subprocess.Popen(
        argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ}, cwd=Path.cwd()
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate(timeout=HANG_S)


def told(stderr: str) -> list[str]:
    """Returns the lines, without those on a chief that takes long to build on a busy machine."""
    return [line for line in stderr.splitlines() if not line.startswith("chief has not built ")]


def pids(launcher: int) -> dict[str, int]:
    """Returns the processes of a launcher, as it has written them down."""
    (run,) = [run for run in running() if run.launcher.pid == launcher]
    return {name: said["pid"] for name, said in run.processes.items()}


def until_epoch(process: subprocess.Popen[str], epoch: int) -> None:
    """Reads what it prints until that epoch is over."""
    assert process.stdout is not None
    for line in process.stdout:
        if f"epoch {epoch}/" in line or f"epoch {epoch} " in line:
            return
    raise AssertionError(process.communicate(timeout=HANG_S)[1])


@pytest.mark.processes
def test_it_trains_and_returns_what_its_chief_does(left: Left) -> None:
    with launched(
        "--workers", "2", "--policy", "backup:1/2", "--steps", "30", "--transport", "tcp"
    ) as process:
        said, wrong = process.communicate(timeout=HANG_S)
        assert process.returncode == 0, wrong
    assert "seed 0  done: 30 steps in " in said
    assert told(wrong) == []
    assert left() == []


@pytest.mark.processes
def test_a_chief_that_is_killed_ends_the_run(left: Left, tmp_path: Path) -> None:
    with launched("--logs", str(tmp_path)) as process:
        until_epoch(process, 1)
        there = pids(process.pid)
        assert there.keys() == {"chief", "ps0", "worker0"}
        os.kill(there["chief"], signal.SIGKILL)
        _, wrong = process.communicate(timeout=HANG_S)
        assert process.returncode == 69
    assert told(wrong)[0] == "chief was killed by SIGKILL, and with it the run"
    assert not any(map(alive, there.values()))
    assert {path.name for path in tmp_path.iterdir()} == {"ps0.log", "worker0.log"}
    assert left() == []


@pytest.mark.processes
def test_a_chief_that_ends_with_a_code_of_its_own_ends_the_run(left: Left, tmp_path: Path) -> None:
    program = tmp_path / "leaves.py"
    program.write_text(
        "import os\nif os.environ['ACTORFLOW_JOB'] == 'chief':\n    os._exit(3)\nprint('here', flush=True)\n"
        "import time\ntime.sleep(60)\n"
    )
    argv = [sys.executable, "-m", "actorflow", "launch", str(program), "--logs", str(tmp_path / "logs")]
    ran = subprocess.run(argv, capture_output=True, text=True, timeout=HANG_S)
    assert ran.returncode == 69
    assert told(ran.stderr)[0] == "chief ended with 3, and with it the run"
    assert {path.name for path in (tmp_path / "logs").iterdir()} == {"ps0.log", "worker0.log"}
    assert left() == []


@pytest.mark.processes
def test_a_worker_that_is_ended_before_all_are_there_is_not_waited_for(left: Left, tmp_path: Path) -> None:
    program = tmp_path / "one.py"
    program.write_text(
        "import os, signal\nfrom tests.cluster.children import build\n"
        "if os.environ['ACTORFLOW_JOB'] == 'worker':\n    os.kill(os.getpid(), signal.SIGTERM)\n"
    )
    argv = [sys.executable, "-m", "actorflow", "launch", str(program)]
    ran = subprocess.run(
        argv,
        capture_output=True,
        text=True,
        timeout=HANG_S,
        env={**os.environ, "PYTHONPATH": str(Path.cwd())},
    )
    assert ran.returncode == 69
    assert told(ran.stderr)[:2] == [
        "worker0 was killed by SIGTERM",
        "chief: NotReady: all processes must be there, and 'worker0' was killed by SIGTERM before it was",
    ]


@pytest.mark.processes
def test_sigterm_drains_all_of_it(left: Left) -> None:
    with launched("--seed", "3") as process:
        until_epoch(process, 1)
        there = pids(process.pid)
        process.send_signal(signal.SIGTERM)
        said, wrong = process.communicate(timeout=HANG_S)
        assert process.returncode == 143
    assert "stopped by SIGTERM at seed 3  epoch " in said
    assert told(wrong) == []
    assert not any(map(alive, there.values()))
    assert left() == []


class Started:
    """A supervisor that starts nothing, and keeps what it was to start; its chief is process 17.

    Attributes:
        environments: What each process was to find in its environment.
        keys: What each was to inherit.
        all_started: Called when the last process of the run was to start.
    """

    def __init__(self, names: Sequence[str], all_started: Callable[[Started], None]) -> None:
        self.names = names
        self.all_started = all_started
        self.environments: dict[str, Mapping[str, str]] = {}
        self.keys: dict[str, bytes | None] = {}
        self.hear: Callable[[Any], None]

    def __call__(self, hear: Callable[[Any], None]) -> Started:
        self.hear = hear
        return self

    async def __aenter__(self) -> Started:
        return self

    async def __aexit__(self, *failure: object) -> None: ...

    async def close(self, *, grace_s: float) -> None: ...

    async def end(self, name: str) -> None: ...

    def start(
        self, name: str, argv: Sequence[str], env: Mapping[str, str], *, keys: bytes | None, **_: Any
    ) -> None:
        self.environments[name], self.keys[name] = env, keys
        if self.environments.keys() == set(self.names):
            asyncio.get_running_loop().call_soon(self.all_started, self)

    def pids(self) -> dict[str, int]:
        return {"chief": 17}


def chief_ends(supervisor: Started) -> None:
    supervisor.hear(Exited("chief", 1, 0, "ended", asked=False))


@pytest.mark.usefixtures("left")
def test_variables_that_a_launcher_does_not_read_are_told_and_not_handed_on(
    monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    for name in ("TF_CONFIG", "WORLD_SIZE", "ACTORFLOW_JOB", "ACTORFLOW_PS"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"ACTORFLOW_WORKERS": "4", "ACTORFLOW_BIND": "tcp://127.0.0.1:1", "RANK": "0"}.items():
        monkeypatch.setenv(name, value)
    given = Started(["chief", "ps0", "ps1", "worker0"], chief_ends)
    monkeypatch.setattr(launch, "ProcessSupervisor", given)

    assert command.run(["launch", PROGRAM, "--ps", "2"]) == 0

    said = (
        "launch does not read ACTORFLOW_WORKERS, ACTORFLOW_BIND, RANK: it starts a chief, 2 ps and 1 worker "
    )
    assert capsys.readouterr().err == f"{said}of its own (--ps, --workers)\n"
    assert given.environments.keys() == {"chief", "ps0", "ps1", "worker0"}
    for env in given.environments.values():
        assert env["ACTORFLOW_WORKERS"] == "1"
        assert "ACTORFLOW_BIND" not in env
        assert env["RANK"] == "0"


@pytest.mark.usefixtures("left")
@pytest.mark.parametrize(("begun", "heard"), [(False, signal.SIGTERM), (True, signal.SIGINT)])
def test_ctrl_c_ends_a_chief_that_has_not_begun_without_a_traceback(
    begun: bool, heard: signal.Signals, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    sent: list[tuple[int, int]] = []
    kill = os.kill

    def interrupted(supervisor: Started) -> None:
        if begun:
            (Path(supervisor.environments["chief"][FOLDER]) / "chief.17.m").touch()
        monkeypatch.setattr(os, "kill", lambda *args: sent.append(args))
        kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(launch, "ProcessSupervisor", Started(["chief", "ps0", "worker0"], interrupted))

    assert command.run(["launch", PROGRAM]) == 130

    assert sent == [(17, heard), (17, signal.SIGCONT)]
    assert capsys.readouterr().err == ("" if begun else "stopped by Ctrl-C before it began\n")


@pytest.mark.usefixtures("left")
@pytest.mark.parametrize(
    ("said", "own"),
    [
        (["--transport", "tcp"], True),
        (["--transport", "tcp", "--keys", "none"], False),
        (["--transport", "tcp", "--keys", "FILE"], False),
        ([], False),
    ],
)
def test_over_tcp_a_run_has_keys_of_its_own_unless_something_is_said_of_them(
    said: list[str], own: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = Started(["chief", "ps0", "worker0"], chief_ends)
    monkeypatch.setattr(launch, "ProcessSupervisor", given)

    command.run(["launch", PROGRAM, *said])

    (keys,) = set(given.keys.values())
    assert (keys is not None) == own
    if keys is not None:
        assert len(parse(keys.decode(), "there").pairs) == 1


def test_none_names_no_file_of_keys() -> None:
    assert inherited_keyring(NO_KEYS) is None
    with pytest.raises(ConfigError, match="keys come from a file, got "):
        inherited_keyring(f"./{NO_KEYS}")


def test_what_all_processes_share_is_handed_on() -> None:
    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers()
    launch.add_to(commands)
    worker.add_to(commands)
    argv = ["launch", "p.py", "--policy", "stale:2", "--epochs", "3", "--no-progress", "--seed", "4"]
    argv += ["--links", "gone_s=4,lossy=bfloat16", "--silence-s", "3", "--keys", "ring", "--lost-s", "2.5"]
    args = parser.parse_args(argv)
    again = parser.parse_args(["worker", "p.py", *common(args), *training(args)])
    args.links = links_of(args)  # with --silence-s
    for name in ("policy", "epochs", "steps", "no_progress", "seed", "links", "keys", "lost_s", "ready_s"):
        assert getattr(again, name) == getattr(args, name), name


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["p.py", "--workers", "0"], "must be an integer of at least 1, got '0'"),
        (["p.py", "--policy", "best"], "argument --policy:"),
        (["p.py", "--links", "speed=9"], "links are told as NAME=VALUE, with commas between, got 'speed=9'"),
        (["p.py", "--ready-s", "-1"], "must be a number of seconds above 0, got '-1'"),
        (["p.py", "--transport", "pigeon"], "argument --transport: invalid choice"),
    ],
)
def test_a_wrong_command_line_is_refused(argv: list[str], said: str, capsys: Any) -> None:
    with pytest.raises(SystemExit) as caught:
        command.run(["launch", *argv])
    assert caught.value.code == 2
    assert said in capsys.readouterr().err


def test_a_wrong_program_is_told_before_anything_starts(left: Left, capsys: Any) -> None:
    assert command.run(["launch", "nowhere.py"]) == 2
    assert "there is no program file nowhere.py" in capsys.readouterr().err
    assert left() == []


@pytest.mark.processes
def test_what_is_wrong_with_a_program_is_told_once_by_the_chief(left: Left, tmp_path: Path) -> None:
    program = tmp_path / "wrong.py"
    program.write_text("def build(seed):\n    raise ValueError('no data here')\n")
    argv = [sys.executable, "-m", "actorflow", "launch", str(program), "--workers", "2"]
    ran = subprocess.run(argv, capture_output=True, text=True, timeout=HANG_S)

    assert ran.returncode == 2
    assert ran.stdout == ""
    assert told(ran.stderr) == [
        "chief: ProgramError: build(0) must not fail",
        "  where: defined at wrong.py:2",
        "  cause: ValueError: no data here",
    ]
    assert left() == []


def test_a_launcher_imports_neither_its_program_nor_what_trains() -> None:
    said = "import sys, actorflow.cli.launch; print([m for m in sys.modules if m.startswith('actorflow.')])"
    there = run_python("-c", said).stdout
    assert "'actorflow.launch.process_supervisor'" in there
    for heavy in ("session", "kernels", "ops", "actors", "cluster.trainer", "program_file"):
        assert f"'actorflow.{heavy}'" not in there, heavy


def test_logs_that_cannot_be_written_are_told_before_anything_starts(
    left: Left, tmp_path: Path, capsys: Any
) -> None:
    (tmp_path / "file").touch()
    assert command.run(["launch", PROGRAM, "--logs", str(tmp_path / "file" / "logs")]) == 2
    assert "--logs is a folder to write to, got " in capsys.readouterr().err
    assert left() == []


def _too_long(parent: Path) -> Path:
    return parent / ("x" * 90)


def _for_all(parent: Path) -> Path:
    (parent / f"af-{os.getuid()}").mkdir(mode=0o777)
    (parent / f"af-{os.getuid()}").chmod(0o777)
    return parent


def _occupied(parent: Path) -> Path:
    (parent / f"af-{os.getuid()}").touch()  # stands for a read-only folder, in which root may write
    return parent


@pytest.mark.parametrize("where", [_too_long, _for_all, _occupied])
def test_an_environment_without_a_folder_for_the_run_is_told_with_what_to_try(
    where: Callable[[Path], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    folder = where(tmp_path)
    folder.mkdir(exist_ok=True)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    assert command.run(["launch", PROGRAM]) == 2
    said = capsys.readouterr().err
    assert said.startswith("RunFolderError: ")
    assert "\n  try:   " in said
    assert "XDG_RUNTIME_DIR" in said
