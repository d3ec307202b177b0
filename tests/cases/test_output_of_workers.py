"""A disk without room costs lines of a log, and nothing else: no run ends that need not, no half file is left."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.launch.children import short_folder
from tests.support.busy import HANG_S
from tests.support.runs import own_runs
from tests.support.small_disk import fill, program, small_disk

ROOT = Path(__file__).parents[2]

FLOOD = "print('x' * 500_000, flush=True)"


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "disk") as at:
        yield at


def ran(*argv: str, **env: str) -> subprocess.CompletedProcess[str]:
    whole = {"PYTHONPATH": str(ROOT), **os.environ, **env}
    command_line = [sys.executable, "-m", "actorflow", *argv]
    with own_runs():
        return subprocess.run(
            command_line, env=whole, text=True, capture_output=True, timeout=HANG_S, check=False
        )


def named(disk: Path) -> set[str]:
    return {path.name for path in disk.iterdir()} - {"filling"}


# ------------------------------------------------------------------------------------------ logs


@pytest.mark.processes
@pytest.mark.parametrize("where", ["early", "inside", "each"])
def test_a_cluster_trains_to_its_end_when_its_logs_fill_their_disk(
    where: str, disk: Path, tmp_path: Path
) -> None:
    """What a program prints when it is read, built and at each batch is more than there is room for."""
    given: dict[str, Any] = {where: FLOOD if where == "each" else "[print('x' * 99_999) for _ in range(40)]"}
    done = ran("launch", program(tmp_path, **given), "--logs", str(disk), "--no-progress")

    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.processes
def test_a_cluster_trains_to_its_end_when_there_is_no_room_for_a_log_at_all(
    disk: Path, tmp_path: Path
) -> None:
    fill(disk)

    done = ran("launch", program(tmp_path, each=FLOOD), "--logs", str(disk), "--no-progress")

    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.processes
def test_one_that_prints_without_end_leaves_room_for_the_others(tmp_path: Path) -> None:
    """Each process keeps 8 MiB of what it printed, of 40 here."""
    logs = tmp_path / "logs"

    done = ran(
        "launch",
        program(tmp_path, each="[print('x' * 999_999, flush=True) for _ in range(5)]"),
        "--logs",
        str(logs),
        "--no-progress",
        "--workers",
        "1",
    )

    assert done.returncode == 0, done.stderr[-2000:]
    assert sum(path.stat().st_size for path in logs.glob("worker0*")) < 9 << 20


# ----------------------------------------------------------------------- folders, records, files


@pytest.mark.processes
@pytest.mark.parametrize("where", ["early", "inside", "each"])
def test_a_program_that_finds_no_room_is_not_called_wrong(where: str, disk: Path, tmp_path: Path) -> None:
    given = {where: f"open({str(disk / 'mine')!r}, 'w').write('x' * 2_000_000)"}

    done = ran("launch", program(tmp_path, **given), "--no-progress")

    assert done.returncode == 1, done.stderr[-2000:]
    assert "No space left on device" in done.stderr


@pytest.mark.processes
def test_a_run_is_not_lost_for_its_record(disk: Path, tmp_path: Path) -> None:
    fill(disk)

    done = ran("launch", program(tmp_path), "--no-progress", "--record", str(disk / "record.json"))

    assert done.returncode == 0, done.stderr[-2000:]
    assert "No space left on device" in done.stderr


@pytest.mark.processes
def test_no_room_for_the_folder_of_a_run_is_no_wrong_use() -> None:
    with short_folder() as folder, small_disk(Path(folder) / "d") as disk:
        fill(disk)
        done = ran(
            "launch", program(Path(folder)), "--no-progress", XDG_RUNTIME_DIR=str(disk), TMPDIR=str(disk)
        )
        left = [path for path in disk.rglob("*") if path.is_file() and path.name != "filling"]

    assert done.returncode in (0, 1), done.stderr[-2000:]  # there may be room for names, which is enough
    assert "Traceback" not in done.stderr
    if done.returncode:
        assert "No space left on device" in done.stderr
    assert left == []


# ------------------------------------------------------------------------------------------ keys


def test_new_keys_leave_no_half_of_a_file(disk: Path) -> None:
    fill(disk)

    done = ran("keys", "new", str(disk / "keys"))

    assert done.returncode == 1
    assert f"must have room where they are written, got {disk / 'keys'}: No space left" in done.stderr
    assert "Traceback" not in done.stderr
    assert named(disk) == set()


@pytest.mark.parametrize("verb", ["rotate", "drop"])
def test_keys_that_cannot_be_changed_stay_as_they_were(verb: str, disk: Path) -> None:
    file = disk / "keys"
    assert ran("keys", "new", str(file)).returncode == 0
    before = file.read_bytes()
    fill(disk)

    done = ran("keys", verb, str(file))

    assert done.returncode == 1
    assert "must have room where they are written" in done.stderr
    assert "Traceback" not in done.stderr
    assert file.read_bytes() == before
    assert named(disk) == {"keys"}
    (disk / "filling").unlink()
    assert ran("keys", verb, str(file)).returncode == 0
