"""A disk that is full is nobody's mistake: no run ends for it that need not, and none is told that it is wrong."""

from __future__ import annotations

import errno
import io
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from actorflow.cli import command
from actorflow.cli.worker import write
from actorflow.cluster.entry import code_of
from actorflow.errors import ConfigError, DiskFull, ProgramError
from actorflow.launch.exits import Exit, worth_restart
from actorflow.runtime import disk
from actorflow.runtime.disk import LossyStream, is_full, no_room
from actorflow.runtime.user_code import blame_user_code
from actorflow.training.program_file import ProgramFile
from actorflow.transport.codec.failures import chain, rebuild_error
from tests.launch.children import short_folder
from tests.support.busy import HANG_S
from tests.support.runs import own_runs
from tests.support.small_disk import program

ROOT = Path(__file__).parents[2]
FULL = Path("/dev/full")
needs_full = pytest.mark.skipif(not FULL.exists(), reason="only Linux has a file that is always full")

WRITES = "__import__('pathlib').Path('/dev/full').write_text('x' * 100_000)"


def full() -> OSError:
    return OSError(errno.ENOSPC, "No space left on device")


# ------------------------------------------------------------------------------ how it is told


def test_what_came_of_a_full_disk_is_told_from_other_errors() -> None:
    behind = ConfigError("a folder must be makeable")
    behind.__cause__ = full()
    try:
        try:
            raise OSError(errno.EDQUOT, "Disk quota exceeded")
        except OSError:
            raise ConfigError("nothing can be written") from None
    except ConfigError as error:
        within = error
    assert all(map(is_full, (full(), OSError(errno.EFBIG, "File too large"), behind, within, DiskFull("x"))))
    assert not any(map(is_full, (None, OSError(errno.EACCES, "no"), ConfigError("x"), ValueError("28"))))


def test_errors_that_bite_their_tail_are_looked_at_once() -> None:
    one, two = ConfigError("one"), ConfigError("two")
    one.__cause__, two.__cause__ = two, one
    assert not is_full(one)


def test_code_of_a_user_that_finds_no_room_is_not_wrong_also_after_a_journey() -> None:
    with (
        pytest.raises(
            DiskFull, match="batches must have room for what it writes, got OSError: .*No space"
        ) as told,
        blame_user_code("batches"),
    ):
        raise full()
    assert not isinstance(told.value, ProgramError | ConfigError)
    there = rebuild_error(chain(told.value))
    assert is_full(there)
    assert code_of(there) == Exit.FAILED
    assert worth_restart(code_of(there))


@needs_full
@pytest.mark.parametrize("where", ["early", "inside"])
def test_a_program_file_that_writes_to_a_full_disk_is_not_wrong(tmp_path: Path, where: str) -> None:
    given: dict[str, Any] = {where: WRITES}
    with pytest.raises(DiskFull, match="must have room for what it writes"):
        ProgramFile(program(tmp_path, **given)).program(0)


def test_what_is_configured_wrongly_stays_so() -> None:
    assert code_of(ProgramError("x")) == Exit.USAGE
    error = ConfigError("an endpoint is bound to an address of this machine")
    error.__cause__ = full()
    assert code_of(error) == Exit.FAILED


@pytest.mark.parametrize(("error", "code"), [(full(), 1), (OSError(errno.EACCES, "Permission denied"), 2)])
def test_a_command_ends_with_1_where_a_disk_is_full_and_with_2_where_it_is_wrong(
    error: OSError, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(Path, "mkdir", fail)
    assert command.run(["launch", "tests.cluster.children:build", "--logs", "/none/there"]) == code
    assert f"/none/there: {error.strerror}" in capsys.readouterr().err


def test_a_run_goes_on_without_its_record(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise full()

    monkeypatch.setattr(Path, "write_text", fail)
    record: Any = SimpleNamespace(as_data=dict)
    write(record, Path("r.json"))
    assert "the run goes on without its record: No space left on device, r.json" in caplog.text


# ---------------------------------------------------------------------------------- streams


@needs_full
def test_a_stream_on_a_full_disk_loses_what_finds_no_room_and_counts_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with FULL.open("w") as file:
        monkeypatch.setattr(sys, "stdout", file)
        disk.outlive("stdout")
        assert disk.loss_of("stdout") is None
        sys.stdout.write("to nowhere\n")
        sys.stdout.flush()
        sys.stdout.write("and again\n")
        sys.stdout.flush()
        loss = disk.loss_of("stdout")
    assert loss is not None
    assert (loss.lost_bytes, loss.reason) == (21, "No space left on device")


def test_a_stream_that_has_room_gets_all_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (tmp_path / "out").open("w", encoding="utf-8") as file:
        monkeypatch.setattr(sys, "stdout", file)
        disk.outlive("stdout")
        sys.stdout.write("häuser\n")
        sys.stdout.flush()
        assert disk.loss_of("stdout") is None
    assert (tmp_path / "out").read_text(encoding="utf-8") == "häuser\n"


def test_a_stream_whose_reader_is_gone_says_so() -> None:
    read, out = os.pipe()
    os.close(read)
    with open(out, "w") as stream, pytest.raises(BrokenPipeError):
        LossyStream(stream).write(b"x")


def test_a_stream_of_a_test_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stdout", stream)
    disk.outlive("stdout")
    assert sys.stdout is stream
    assert disk.loss_of("stdout") is None
    assert str(no_room("build(0)", full())).startswith("build(0) must have room")


# ------------------------------------------------------------------------------ whole runs


def ran(*argv: str, **streams: Any) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    command_line = [sys.executable, "-m", "actorflow", *argv]
    return subprocess.run(command_line, env=env, text=True, timeout=HANG_S, check=False, **streams)


@needs_full
@pytest.mark.slow
def test_training_goes_on_while_nothing_that_it_prints_finds_room(tmp_path: Path) -> None:
    note = tmp_path / "trained"
    each = f"print('a batch', flush=True); open({str(note)!r}, 'a').write('.')"
    with FULL.open("w") as out:
        done = ran(
            "train", program(tmp_path, inside="print('built', flush=True)", each=each), stdout=out, stderr=-1
        )
    assert (done.returncode, done.stderr) == (
        1,
        "standard output must be writable, got No space left on device\n",
    )
    assert note.read_text() == "." * 8


@needs_full
@pytest.mark.processes
def test_a_cluster_trains_to_its_end_while_nothing_that_it_prints_finds_room(tmp_path: Path) -> None:
    record = tmp_path / "r.json"
    path = program(tmp_path, early="print('imported', flush=True)", each="print('a batch', flush=True)")
    with own_runs() as left:
        with FULL.open("w") as out:
            done = ran("launch", path, "--record", str(record), stdout=out, stderr=subprocess.PIPE)
        assert left() == []
    assert done.returncode == 0, done.stderr
    assert "chief went on, and " in done.stderr
    assert " bytes of its output are lost: No space left on device" in done.stderr
    assert json.loads(record.read_text())


@needs_full
@pytest.mark.processes
def test_processes_that_are_started_one_by_one_train_on_full_streams_to_their_end(tmp_path: Path) -> None:
    path = program(tmp_path, early="print('imported', flush=True)", each="print('a batch', flush=True)")
    with short_folder() as folder, FULL.open("w") as out:
        argv = [sys.executable, "-m", "actorflow", "worker", path, "--ps", "1", "--workers", "1"]
        argv += ["--coordinator", f"ipc://{folder}/chief", "--ready-s", "60"]
        started = [
            subprocess.Popen([*argv, "--job", job, "--index", "0"], stdout=out, stderr=out)
            for job in ("chief", "ps", "worker")
        ]
        assert [process.wait(HANG_S) for process in started] == [0, 0, 0]


@needs_full
@pytest.mark.processes
def test_a_program_that_finds_no_room_ends_its_run_with_1(tmp_path: Path) -> None:
    with own_runs():
        done = ran("launch", program(tmp_path, each=WRITES), "--no-progress", stdout=-1, stderr=-1)
    assert done.returncode == 1, done.stderr
    assert "DiskFull: " in done.stderr
    assert "must have room for what it writes, got OSError: [Errno 28] No space left on device" in done.stderr
