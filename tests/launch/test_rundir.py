import json
import os
import socket
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest

from actorflow.errors import RunFolderError
from actorflow.launch import rundir
from actorflow.launch.filesystems import in_memory
from actorflow.launch.rundir import LONGEST, RunDirectory, ended_processes, home, running, sweep
from actorflow.runtime.clock import epoch_ms
from tests.launch.children import short_folder
from tests.support.python import run_python


@pytest.fixture
def base():
    with short_folder() as folder:
        yield folder / "af-0"


def test_only_this_user_can_enter_and_the_path_has_room_for_sockets(base):
    with RunDirectory(base) as folder:
        for path in (base, folder.path, folder.log("ps0").parent):
            assert path.stat().st_mode & 0o777 == 0o700
        with socket.socket(socket.AF_UNIX) as bound:
            bound.bind(str(folder.socket("worker0-1700000000000")))
    assert not folder.path.exists()


def test_two_runs_have_two_folders(base):
    with RunDirectory(base) as one, RunDirectory(base) as other:
        assert one.run != other.run


def test_it_lies_where_the_system_has_folders_of_the_user(tmp_path):
    assert home({"XDG_RUNTIME_DIR": str(tmp_path)}) == tmp_path / f"af-{os.getuid()}"
    assert home({"XDG_RUNTIME_DIR": str(tmp_path / "none")}).parent == home({}).parent
    with short_folder() as parent, RunDirectory(environ={"XDG_RUNTIME_DIR": str(parent)}) as folder:
        assert folder.path.parent.parent == parent


def test_a_folder_that_somebody_else_could_enter_is_refused(base):
    base.mkdir()
    base.chmod(0o750)

    with pytest.raises(RunFolderError, match=rf"folder of user {os.getuid()} alone, got drwxr-x--- of user"):
        RunDirectory(base)


def test_a_link_that_somebody_has_put_there_is_refused(base):
    (base.parent / "elsewhere").mkdir(mode=0o700)
    base.symlink_to(base.parent / "elsewhere")

    with pytest.raises(RunFolderError, match="got a symbolic link"):
        RunDirectory(base)
    assert running(base) == [] == sweep(base)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a folder away")
def test_a_folder_of_another_user_is_refused(base):
    base.mkdir(mode=0o700)
    os.chown(base, 12345, 12345)

    with pytest.raises(RunFolderError, match="of user 12345"):
        RunDirectory(base)


def test_a_file_in_its_place_and_a_parent_that_is_not_there_are_told(base):
    with pytest.raises(RunFolderError, match="must be makeable, got No such file"):
        RunDirectory(base / "deeper")
    base.touch()
    with pytest.raises(RunFolderError, match="must be makeable, got File exists"):
        RunDirectory(base)


def test_a_full_disk_and_no_folder_for_temporary_files_are_told_with_what_to_try(base, monkeypatch):
    monkeypatch.setattr(Path, "rename", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left")))
    with pytest.raises(RunFolderError, match="got No space left\n  try:   set XDG_RUNTIME_DIR or TMPDIR"):
        RunDirectory(base)
    monkeypatch.setattr(
        tempfile, "gettempdir", lambda: (_ for _ in ()).throw(FileNotFoundError(2, "No such"))
    )
    assert home({}).parent == Path("/tmp")  # all are full, as far as anybody can tell: who writes hears why
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(RunFolderError, match="must be a folder for temporary files, got No such\n  try: "):
        home({})


def test_a_path_without_room_for_sockets_is_told_before_anything_is_made(base):
    base.mkdir(mode=0o700)
    long = base / ("x" * 80)
    with pytest.raises(RunFolderError, match=f"at most {LONGEST} bytes") as refused:
        RunDirectory(long)
    assert "TMPDIR" in str(refused.value)
    assert list(long.iterdir()) == []

    with RunDirectory(base) as folder:
        room = LONGEST - len(os.fsencode(folder.path)) - 1
        assert len(os.fsencode(folder.socket("x" * room))) == LONGEST
        with pytest.raises(RunFolderError, match=f"got {LONGEST + 1}"):
            folder.socket("é" + "x" * (room - 1))


def test_what_is_written_is_what_others_find(base, monkeypatch):
    with RunDirectory(base) as one:
        one.write({"ps0": {"pid": 7}})
        later = epoch_ms() + 1000
        monkeypatch.setattr(rundir, "epoch_ms", lambda: later)
        with RunDirectory(base) as other:
            other.write({})
            found = running(base)
            assert [run.run for run in found] == [other.run, one.run]
            assert found[1].processes == {"ps0": {"pid": 7}}
            assert found[1].launcher.pid == os.getpid()
            assert found[1].path == one.path
    assert running(base) == []


def test_who_has_ended_for_good_is_told_and_how(base):
    with RunDirectory(base) as one:
        assert ended_processes(one.path) == {}
        one.write({"ps0": {"pid": 7}}, {"worker0": "was killed by SIGTERM"})
        assert ended_processes(one.path) == {"worker0": "was killed by SIGTERM"}
        (one.path / "cluster.json").write_text('{"ended": 3}')
        assert ended_processes(one.path) == {}
    assert ended_processes(one.path) == {}


def test_a_reader_never_sees_half_of_the_file(base, monkeypatch):
    with RunDirectory(base) as folder:
        folder.write({"ps0": 1})
        monkeypatch.setattr(Path, "replace", lambda *_: (_ for _ in ()).throw(OSError("killed here")))
        with pytest.raises(OSError, match="killed here"):
            folder.write({"ps0": "x" * 10_000})
        monkeypatch.undo()
        assert running(base)[0].processes == {"ps0": 1}


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"launcher": {}}', "\xff"])
def test_a_file_that_cannot_be_read_is_no_running_cluster(base, text):
    with RunDirectory(base) as folder:
        (folder.path / "cluster.json").write_text(text, encoding="latin-1")
        assert running(base) == []


def test_logs_are_kept_where_something_failed(base):
    with suppress(ZeroDivisionError), RunDirectory(base) as folder:
        folder.log("worker0").write_text("Traceback")
        folder.socket("ps0").touch()
        raise ZeroDivisionError

    assert [path.name for path in folder.path.iterdir()] == ["logs"]
    assert folder.log("worker0").read_text() == "Traceback"
    assert running(base) == []
    assert sweep(base) == []


def test_close_says_where_logs_are_and_keeps_none_that_are_empty(base):
    folder = RunDirectory(base)
    folder.log("ps0").touch()
    assert folder.close(keep_logs=True) is None
    assert not folder.path.exists()

    folder = RunDirectory(base)
    folder.log("ps0").write_text("x")
    assert folder.close(keep_logs=True) == folder.path / "logs"
    assert folder.close() is None
    assert folder.close() is None


MEMORY = Path("/dev/shm")


@pytest.mark.skipif(not in_memory(MEMORY), reason="this machine has no folder that is memory at /dev/shm")
def test_logs_are_on_a_disk_where_the_folder_of_the_run_is_memory(tmp_path):
    with short_folder() as on_disk, tempfile.TemporaryDirectory(dir=MEMORY) as memory:
        for keep_logs in (False, True):
            folder = RunDirectory(environ={"XDG_RUNTIME_DIR": memory}, on_disk=on_disk)
            log = folder.log("worker0")
            assert log == on_disk / f"af-{os.getuid()}-logs" / folder.run / "logs" / "worker0.log"
            log.write_text("x")
            assert folder.socket("ps0").is_relative_to(memory)
            assert folder.close(keep_logs=keep_logs) == (log.parent if keep_logs else None)
            assert (log.exists(), folder.path.exists()) == (keep_logs, False)
        left = RunDirectory(environ={"XDG_RUNTIME_DIR": memory}, on_disk=tmp_path / "none")
        assert left.log("worker0").is_relative_to(memory)  # better than nowhere
        left.close()


DIES = """
import os, signal, sys
from pathlib import Path
from actorflow.runtime.clock import epoch_ms
from actorflow.launch.rundir import RunDirectory
folder = RunDirectory(Path(sys.argv[1]))
folder.log("ps0").write_text("x")
print(folder.run, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_launcher_has_left_goes_when_the_next_run_begins(base):
    dead = run_python("-c", DIES, base)
    run = dead.stdout.strip()
    assert (base / run / "cluster.json").exists(), dead.stderr
    assert running(base) == []

    with RunDirectory(base) as folder:
        assert [path.name for path in base.iterdir()] == [folder.run]


def test_what_a_launcher_of_another_container_has_left_stays(base):
    with RunDirectory(base) as folder:
        file = folder.path / "cluster.json"
        said = json.loads(file.read_text())
        said["launcher"]["world"] = said["launcher"]["world"].split()[0] + " pid:[1]"
        file.write_text(json.dumps(said))
        assert sweep(base) == []
        assert running(base) == []


def test_old_logs_and_folders_that_nobody_finished_go_in_time(base):
    (base / "0kept" / "logs").mkdir(parents=True)
    (base / ".half").mkdir()
    base.chmod(0o700)
    now_ms = int((base / ".half").stat().st_mtime * 1e3)

    assert sweep(base, now_ms=lambda: now_ms + 50_000) == []
    assert sweep(base, now_ms=lambda: now_ms + 70_000) == ["half"]
    assert sweep(base, now_ms=lambda: now_ms + int(rundir.KEPT_S * 1e3) - 10_000) == []
    assert sweep(base, now_ms=lambda: now_ms + int(rundir.KEPT_S * 1e3) + 10_000) == ["0kept"]


def test_a_full_disk_leaves_nothing_half_made(base, monkeypatch):
    monkeypatch.setattr(Path, "write_text", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left")))
    with pytest.raises(RunFolderError, match="must be makeable, got No space left"):
        RunDirectory(base)
    assert list(base.iterdir()) == []
