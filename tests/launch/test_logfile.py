import errno
import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actorflow.launch.logfile import BEGIN_BYTES, NEWEST_BYTES, LogFile, files
from tests.support.faults import planted

BEGIN, NEWEST, OWN = 40, 30, 200
"""Limits of the law, and room for the lines of the log itself."""


def said(path: Path) -> bytes:
    return path.read_bytes() if path.exists() else b""


def judge(pieces: list[bytes], folder: Path, log_file: type[LogFile] = LogFile) -> None:
    """The beginning is there, and the end, and no more than the limits allow."""
    log = log_file(folder / "w.log", begin_bytes=BEGIN, newest_bytes=NEWEST)
    for piece in pieces:
        log.write(piece)
    log.close()

    printed = b"".join(pieces)
    begin, before, newest = map(said, files(folder / "w.log"))
    beginning = begin.split(b"[actorflow:")[0]
    assert printed.startswith(beginning)
    assert printed.endswith(before + newest)
    assert max(map(len, (beginning, before, newest))) <= max(BEGIN, NEWEST)
    assert len(begin) + len(before) + len(newest) <= BEGIN + 2 * NEWEST + OWN
    if len(printed) <= BEGIN:
        assert begin == printed
    assert len(beginning) + len(before) + len(newest) >= min(len(printed), NEWEST)
    assert {path.name for path in folder.iterdir()} <= {"w.log", "w.newest.1.log", "w.newest.log"}


PIECES = st.lists(st.binary(max_size=120).map(lambda piece: piece.replace(b"[", b"(")), max_size=12)
LINES = st.lists(st.sampled_from([b"\n", b"a\n", b"a line\n", b"b" * 50 + b"\n"]), max_size=40)


@given(PIECES | LINES)
def test_a_log_holds_the_beginning_and_the_end_of_what_was_printed_within_its_limits(pieces):
    with TemporaryDirectory() as folder:
        judge(pieces, Path(folder))


def test_the_law_finds_a_log_that_drops_what_came_before_the_last_file():
    class Forgets(LogFile):
        def _turn(self) -> None:
            super()._turn()
            self._newest.unlink(missing_ok=True)
            self._room = 10 * NEWEST

    with TemporaryDirectory() as folder, pytest.raises(AssertionError):
        judge([b"x" * 20 + b"\n"] * 15, Path(folder), Forgets)


def test_the_stated_limit_is_8_mib():
    assert BEGIN_BYTES + 2 * NEWEST_BYTES == 8 << 20


def test_the_beginning_names_the_file_of_the_end(tmp_path):
    log = LogFile(tmp_path / "worker0.log", begin_bytes=8, newest_bytes=8)
    for line in (b"one\n", b"two\n", b"three\n", b"four\n", b"five\n"):
        log.write(line)
    log.close()
    begin, before, newest = files(tmp_path / "worker0.log")
    assert begin.read_text() == (
        "one\ntwo\n[actorflow: this is the beginning; the end is in worker0.newest.log]\n"
    )
    assert (before.read_text(), newest.read_text()) == ("four\n", "five\n")
    assert begin.stat().st_mode & 0o777 == 0o600
    assert log.tail(2) == "four\nfive"


def test_what_an_earlier_run_has_left_is_kept_once(tmp_path):
    for run in ("first", "second", "third"):
        log = LogFile(tmp_path / "ps0.log")
        log.write(run.encode())
        log.close()
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {
        "ps0.log": "third",
        "ps0.log.old": "second",
    }


def test_a_full_disk_loses_lines_and_says_how_many_once_there_is_room(tmp_path, monkeypatch):
    full = False

    @planted(monkeypatch, os, "write")
    def writes(write: Any, descriptor, piece):
        if full:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(descriptor, piece)

    log = LogFile(tmp_path / "w.log")
    log.write(b"before\n")
    full = True
    log.write(b"lost\n")
    log.write(b"lost too\n")
    assert log.tail() == "before\nlost\nlost too"
    full = False
    log.write(b"after\n")
    log.close()
    note = "[actorflow: 14 bytes are missing here: No space left on device]"
    assert (tmp_path / "w.log").read_text() == f"before\n\n{note}\nafter\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a file that is always full")
def test_the_last_lines_are_there_though_none_could_be_written():
    log = LogFile(Path("/dev/full"))
    for number in range(5000):
        log.write(f"line {number}\n".encode())
    log.close()
    assert log.tail(2) == "line 4998\nline 4999"


def test_a_disk_that_is_full_at_the_beginning_is_no_reason_not_to_begin(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.EDQUOT, "Disk quota exceeded")

    with monkeypatch.context() as there:
        there.setattr(os, "open", full)
        log = LogFile(tmp_path / "w.log")
        log.write(b"lost\n")
    log.write(b"here\n")
    log.close()
    assert "5 bytes are missing here: Disk quota exceeded]\nhere\n" in (tmp_path / "w.log").read_text()


def test_a_folder_that_is_not_there_is_told(tmp_path):
    with pytest.raises(FileNotFoundError):
        LogFile(tmp_path / "none" / "w.log")


def test_a_log_whose_folder_is_removed_meanwhile_does_not_fail(tmp_path):
    folder = tmp_path / "logs"
    folder.mkdir()
    log = LogFile(folder / "w.log", begin_bytes=4, newest_bytes=4)
    log.write(b"one\n")
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()
    for _ in range(4):
        log.write(b"two\n")
    log.close()
    assert log.tail(1) == "two"
