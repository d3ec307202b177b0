"""The note of a job that is complete, and who believes it."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actorflow.cluster.entry import code_of
from actorflow.cluster.process import completion_note as notes
from actorflow.cluster.process.completion_note import (
    HOLDS_S,
    CompletionNote,
    forget,
    leave,
    over,
    path_of,
    read,
)
from actorflow.errors import JobOver
from actorflow.launch.exits import Exit

HOLDS_MS = int(HOLDS_S * 1e3)
MS = st.integers(-HOLDS_MS, 2 * HOLDS_MS)
LIVES = st.integers(0, 3)


@given(st.sampled_from("ab"), LIVES, MS, LIVES, MS, st.booleans())
def test_a_note_is_believed_for_its_program_and_by_whom_it_can_concern(
    program: str, incarnation: int, ended_ms: int, chief: int, now_ms: int, waited: bool
) -> None:
    told = over(CompletionNote(program, incarnation, ended_ms), "a", chief, now_ms, waited=waited) is not None
    if program != "a":
        assert not told
    elif chief:  # the process was part of a job: that one, or an earlier one at this address
        assert told == (chief <= incarnation)
    else:  # it is new, and could be of a job that has not begun
        assert told == (waited and 0 <= now_ms - ended_ms <= HOLDS_MS)


def test_no_note_says_nothing() -> None:
    assert over(None, "a", 1, 0, waited=True) is None


def test_a_note_is_read_as_it_was_left_and_goes_when_a_job_begins(tmp_path: Path) -> None:
    address = f"ipc://{tmp_path}/chief"
    assert read(address) is None
    leave(address, "p/0", 7, lambda: 12)
    assert read(address) == CompletionNote("p/0", 7, 12)
    assert [path.name for path in tmp_path.iterdir()] == ["chief.over"]
    forget(address)
    forget(address)
    assert read(address) is None
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("address", ["tcp://10.0.0.1:4000", "hub:chief-0"])
def test_there_are_no_notes_but_beside_socket_files(address: str) -> None:
    assert path_of(address) is None
    leave(address, "p", 1)
    forget(address)
    assert read(address) is None


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", '{"program": 1, "incarnation": "x", "ended_ms": 1}', "x" * 9000]
)
def test_what_is_no_note_says_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / "chief.over").write_text(text)
    assert read(f"ipc://{tmp_path}/chief") is None


def test_a_link_or_a_pipe_in_the_place_of_a_note_is_not_read(tmp_path: Path) -> None:
    leave(f"ipc://{tmp_path}/other", "p", 1)
    (tmp_path / "chief.over").symlink_to(tmp_path / "other.over")
    assert read(f"ipc://{tmp_path}/chief") is None
    (tmp_path / "chief.over").unlink()
    os.mkfifo(tmp_path / "chief.over")
    assert stat.S_ISFIFO((tmp_path / "chief.over").stat().st_mode)
    assert read(f"ipc://{tmp_path}/chief") is None


def test_a_note_that_cannot_be_left_fails_nobody(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    leave(f"ipc://{tmp_path}/none/chief", "p", 1)
    assert "who starts late will not hear that the job is complete" in caplog.text


def test_who_hears_it_ends_in_order() -> None:
    assert code_of(notes.complete()) == Exit.DONE
    assert isinstance(notes.complete(), JobOver)
    assert json.dumps(str(notes.complete())) == '"the job is complete, and there is nothing left to do"'
