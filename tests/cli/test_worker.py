"""One process of a cluster from the command line: which one it is, and how it ends."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Queue
from threading import Thread
from typing import Any

import pytest

from actorflow.cli import command
from actorflow.cluster.entry import StopCalls, Stopped, code_of
from actorflow.errors import (
    ActorDied,
    ActorflowError,
    CoordinatorLost,
    Fenced,
    NotReady,
    PeerRefused,
    ProgramError,
    QuorumLost,
    ShardLost,
)
from actorflow.launch.exits import ending
from actorflow.transport.zeromq import Endpoint, Keyring

PROGRAM = "tests.cluster.children:build"
TASK = ["--job", "worker", "--index", "0", "--ps", "1", "--workers", "2", "--coordinator"]


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "TF_CONFIG", "SLURM_PROCID", "ACTORFLOW_JOB", "ACTORFLOW_TASK_INDEX"):
        monkeypatch.delenv(name, raising=False)


@contextmanager
def chief_with_keys(keys: Keyring) -> Iterator[str]:
    """An address at which a chief would be, in a thread of its own."""
    ready: Queue[tuple[str, Callable[[], object]]] = Queue()

    async def main() -> None:
        loop, over = asyncio.get_running_loop(), asyncio.Event()
        made = Endpoint(loop, "chief", ["tcp://127.0.0.1:0"], keys=keys)
        try:
            ready.put((made.addresses[0].at, lambda: loop.call_soon_threadsafe(over.set)))
            await over.wait()
        finally:
            made.close()

    thread = Thread(target=asyncio.run, args=(main(),))
    thread.start()
    address, end = ready.get(timeout=10)
    try:
        yield address
    finally:
        end()
        thread.join(10)


def test_who_is_told_nothing_says_what_is_missing(capsys: Any) -> None:
    assert command.run(["worker", PROGRAM]) == 2
    said = capsys.readouterr().err
    assert "a process of a cluster must know which one it is, and no variable says so" in said
    assert "--job worker --index 0 --ps 1 --workers 2 --coordinator" in said


def test_a_chief_that_is_never_there_is_lost(tmp_path: Path, capsys: Any) -> None:
    tmp_path.chmod(0o700)
    argv = ["worker", PROGRAM, *TASK, f"ipc://{tmp_path}/chief", "--ready-s", "0.2"]
    assert command.run(argv) == 69
    said = capsys.readouterr().err
    assert said.startswith("worker0: CoordinatorLost: the chief has not answered for 0.2 s\n")
    assert not list(tmp_path.iterdir())


@pytest.mark.wire
@pytest.mark.parametrize("keyed", [True, False])
def test_other_keys_than_the_chiefs_are_told_of_with_their_file(
    tmp_path: Path, keyed: bool, capsys: Any
) -> None:
    ours = tmp_path / "ring.keys"
    Keyring.new().save(ours)
    with chief_with_keys(Keyring.new()) as address:
        argv = ["worker", PROGRAM, *TASK, address, "--ready-s", "0.6"]
        assert command.run([*argv, "--keys", str(ours)] if keyed else argv) == 2
    said = capsys.readouterr().err
    assert "worker0: PeerRefused: a process and its chief have a key in common; " in said
    assert (
        f"refused at {address}: most likely by keys, got {f'those of {ours}' if keyed else 'no keys'} here"
        in said
    )
    assert "`actorflow keys`" in said


def test_variables_say_who_it_is_and_arguments_overrule_them(
    tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmp_path.chmod(0o700)
    said = {
        "JOB": "worker",
        "TASK_INDEX": "1",
        "PS": "1",
        "WORKERS": "2",
        "COORDINATOR": f"ipc://{tmp_path}/chief",
    }
    for name, value in said.items():
        monkeypatch.setenv(f"ACTORFLOW_{name}", value)
    assert command.run(["worker", PROGRAM, "--job", "ps", "--index", "0", "--ready-s", "0.1"]) == 69
    assert capsys.readouterr().err.startswith("ps0: CoordinatorLost")


@pytest.mark.parametrize("job", ["chief", "worker", "ps"])
def test_an_address_that_no_life_could_use_is_not_worth_another_one(
    job: str, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    for name, value in {"PS": "1", "WORKERS": "1", "JOB": job, "TASK_INDEX": "0"}.items():
        monkeypatch.setenv(f"ACTORFLOW_{name}", value)
    monkeypatch.setenv("ACTORFLOW_COORDINATOR", "digits-0.digits:4000")

    assert command.run(["worker", PROGRAM]) == 2
    assert "without keys tcp stays on this machine, got address 'digits-0.digits'" in capsys.readouterr().err


def test_a_chief_without_the_others_says_who_is_missing(tmp_path: Path, capsys: Any) -> None:
    tmp_path.chmod(0o700)
    argv = ["worker", PROGRAM, "--job", "chief", "--ps", "1", "--workers", "2", "--ready-s", "0.2"]
    assert command.run([*argv, "--coordinator", f"ipc://{tmp_path}/chief"]) == 69
    said = capsys.readouterr().err
    assert said.startswith(
        "chief: NotReady: all processes must be there within 0.2 s, and ps0, worker0 and worker1"
    )
    assert not list(tmp_path.iterdir())


def test_a_program_that_cannot_be_built_is_not_worth_another_life(tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "p.py").write_text("def build(seed):\n    return seed\n")
    argv = ["worker", str(tmp_path / "p.py"), *TASK, f"ipc://{tmp_path}/chief"]
    assert command.run(argv) == 2
    assert "worker0: ProgramError: build(seed) must return an af.Program, got int" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("reason", "code"),
    [
        (None, 0),
        (ShardLost("gone"), 1),
        (ActorflowError("?"), 1),
        (ProgramError("?"), 2),
        (PeerRefused("other program"), 2),
        (CoordinatorLost("gone"), 69),
        (QuorumLost("few"), 69),
        (NotReady("few"), 69),
        (ActorDied("failed"), 70),
        (Fenced("later life"), 75),
        (Stopped(2), 130),
        (Stopped(15), 143),
    ],
)
def test_exit_codes_mean_something(reason: ActorflowError | None, code: int) -> None:
    assert code_of(reason) == code


@pytest.mark.parametrize("number", ending())
def test_a_signal_is_heard_as_a_reason_to_end(number: signal.Signals) -> None:
    heard: list[ActorflowError] = []

    async def main() -> None:
        with StopCalls(asyncio.get_running_loop()).handle_first(heard.append):
            signal.raise_signal(number)
            for _ in range(100):
                if heard:
                    return
                await asyncio.sleep(0.01)

    asyncio.run(main())
    (reason,) = heard
    assert reason.what == f"stopped by {number.name}"
    assert code_of(reason) == 128 + number
