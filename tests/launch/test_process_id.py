import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from actorflow.launch import process_id
from actorflow.launch.process_id import ProcessId
from tests.support.busy import until
from tests.support.faults import planted


def test_this_process_is_alive():
    own = ProcessId.own()

    assert own == ProcessId.of(os.getpid())
    assert own.is_alive() is True
    assert ProcessId.read(own.data()) == own


def test_a_process_that_has_ended_is_not_though_nobody_has_reaped_it():
    with subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE) as process:
        pid = ProcessId.of(process.pid)
        assert pid is not None
        assert pid.is_alive() is True
        process.kill()
        until(lambda: pid.is_alive() is False)
    assert pid.is_alive() is False
    assert ProcessId.of(process.pid) is None


def test_another_process_of_the_same_number_is_another():
    assert replace(ProcessId.own(), started=ProcessId.own().started + 1).is_alive() is False


def test_a_process_of_an_earlier_boot_is_dead_and_one_of_another_container_unknown():
    boot, space = ProcessId.own().world.split()

    assert replace(ProcessId.own(), world=f"another {space}").is_alive() is False
    assert replace(ProcessId.own(), world=f"{boot} pid:[1]").is_alive() is None


@pytest.mark.parametrize("said", [None, {}, [], {"pid": 0, "started": 1, "world": ""}, {"pid": "1"}])
def test_what_is_no_process_is_not_read(said):
    assert ProcessId.read(said) is None


def test_a_name_in_brackets_confuses_nobody(tmp_path):
    odd = tmp_path / "a) R 1 (b"
    odd.symlink_to("/bin/cat")
    with subprocess.Popen([odd], stdin=subprocess.PIPE) as process:
        pid = ProcessId.of(process.pid)
        assert pid is not None
        assert abs(pid.started - ProcessId.own().started) < 10**9
        assert pid.is_alive() is True


def test_without_proc_a_number_is_all_there_is(monkeypatch):
    def nowhere(*parts):
        return Path("/nowhere", *(str(part).lstrip("/") for part in parts))

    @planted(monkeypatch, process_id, "_world")
    def world(kept):
        return kept.__wrapped__()  # which is not remembered

    monkeypatch.setattr(process_id, "Path", nowhere)
    own = ProcessId.of(os.getpid())
    assert own is not None
    assert (own.started, own.is_alive()) == (0, True)
