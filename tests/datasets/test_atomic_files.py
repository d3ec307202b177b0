"""Files are whole or not there, whoever is killed and whoever writes beside."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from actorflow.datasets import atomic_files
from actorflow.datasets.dataset import Absent
from actorflow.errors import ConfigError
from tests.support.busy import HANG_S

ROOT = Path(__file__).parents[2]

DIES = """
import os, signal, sys
from pathlib import Path
from actorflow.datasets import atomic_files


call, after = sys.argv[2], sys.argv[3] == "after"
real = getattr(os, call)

def dies(*args):
    if after:
        real(*args)
    os.kill(os.getpid(), signal.SIGKILL)

setattr(os, call, dies)
atomic_files.keep(Path(sys.argv[1]), b"new" * 100_000)
"""


@pytest.mark.parametrize("before", [None, b"old"])
@pytest.mark.parametrize(
    ("call", "moment", "done"),
    [
        ("fsync", "before", False),
        ("fchmod", "after", False),
        ("replace", "before", False),
        ("replace", "after", True),
    ],
)
def test_a_process_that_is_killed_leaves_the_old_or_the_new(
    call: str, moment: str, done: bool, before: bytes | None, tmp_path: Path
) -> None:
    path = tmp_path / "made.txt"
    if before is not None:
        atomic_files.keep(path, before)

    ran = subprocess.run(
        [sys.executable, "-c", DIES, path, call, moment], cwd=ROOT, timeout=HANG_S, check=False
    )

    assert ran.returncode == -9
    if done:
        assert atomic_files.read(path) == b"new" * 100_000
    elif before is None:
        assert not path.exists()
    else:
        assert atomic_files.read(path) == before


def test_parts_of_the_dead_go_after_a_day_and_those_of_the_living_stay(tmp_path: Path) -> None:
    path, old, young, other = (
        tmp_path / name for name in ("made.txt", ".made.txt.a.part", ".made.txt.b.part", ".else.c.part")
    )
    for part in (old, young, other):
        part.write_bytes(b"half")
    for part in (old, other):
        os.utime(part, (part.stat().st_mtime - 90_000,) * 2)

    atomic_files.keep(path, b"whole")

    assert sorted(tmp_path.iterdir()) == [other, young, path]


def test_a_failed_write_leaves_nothing_and_says_where_it_should_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ConfigError, match=f"got {tmp_path}: No space left on device\n.*ACTORFLOW_CACHE=DIR"):
        atomic_files.keep(tmp_path / "made.txt", b"whole")

    assert list(tmp_path.iterdir()) == []


def test_a_folder_is_made_and_its_files_can_be_read_by_others(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "made.txt"

    atomic_files.keep(path, b"whole")

    assert atomic_files.read(path) == b"whole"
    assert path.stat().st_mode & 0o777 == 0o644
    assert os.listdir(path.parent) == ["made.txt"]


def test_a_folder_in_the_place_of_one_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(ConfigError, match="must go to a folder that can be written"):
        atomic_files.keep(tmp_path / "file" / "made.txt", b"whole")
    with pytest.raises(Absent, match="no made.txt"):
        atomic_files.read(tmp_path / "file" / "made.txt")
