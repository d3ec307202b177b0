"""Who ran a cluster and on what: what the record says, and which differences it tells."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from threadpoolctl import threadpool_limits

import actorflow as af
from actorflow.cli.worker import write
from actorflow.cluster.process import process
from actorflow.cluster.process.record import DECIDING, ProcessRecord, RunRecord, about
from actorflow.errors import ConfigError, SessionClosed
from actorflow.kernels.device.libraries import libraries
from actorflow.transport.codec.registry import BY_TYPE
from tests.cluster.connecting import connected
from tests.support.linear import regression

MINE = about("chief", 3, "abc", 1)


def record(**changes: Any) -> RunRecord:
    """Of a chief, and of two others of which the last one is as told."""
    others = replace(MINE, name="ps0"), replace(MINE, name="worker0", **changes)
    return RunRecord("abc", 7, None, (MINE, *others))


def test_libraries_say_how_many_threads_blas_uses_now() -> None:
    with threadpool_limits(limits=1, user_api="blas"):
        assert libraries().blas_threads == 1
    assert libraries().blas
    assert libraries().simd


def test_processes_that_are_the_same_differ_in_nothing() -> None:
    same = record(incarnation=9, pid=1, host="elsewhere", python="3.12.1", kernel_threads=4)
    assert list(same.differences()) == []


@pytest.mark.parametrize("field", DECIDING)
def test_what_decides_bits_is_told_where_it_differs(field: str) -> None:
    other = 2 + MINE.blas_threads if field == "blas_threads" else "other"
    (line,) = record(**{field: other}).differences()
    assert line.startswith(f"processes differ in {field}, which decides bits: ")
    assert line.endswith(f" in chief, ps0; {other} in worker0")


def test_it_is_written_as_plain_data_under_a_policy(tmp_path: Path) -> None:
    write(record().under(af.Backup(3, 4)), tmp_path / "record.json")
    data = json.loads((tmp_path / "record.json").read_text())
    assert (data["policy"], data["seed"], data["program"]) == ("backup:3/4", 7, "abc")
    assert [process["name"] for process in data["processes"]] == ["chief", "ps0", "worker0"]
    assert {*data["processes"][0]} > {*DECIDING, "incarnation"}


def test_where_nothing_can_be_written_the_error_says_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no/record.json must be a file that can be written, got No such"):
        write(record(), tmp_path / "no" / "record.json")


def test_what_a_process_tells_of_itself_travels() -> None:
    assert ProcessRecord in BY_TYPE


@pytest.mark.wire
def test_the_chief_asks_all_and_warns_where_they_differ(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def telling(name: str, *args: Any) -> ProcessRecord:
        return replace(about(name, *args), numpy="1.26.4" if name == "worker1" else "2.4.6")

    monkeypatch.setattr(process, "about", telling)

    async def main() -> RunRecord:
        async with connected(regression, ps=2, workers=2) as cluster:
            return cluster.record

    record = af.run(main())

    assert [one.name for one in record.processes] == ["chief", "ps0", "ps1", "worker0", "worker1"]
    assert [one.message for one in caplog.records] == [
        "processes differ in numpy, which decides bits: 2.4.6 in chief, ps0, ps1, worker0; 1.26.4 in worker1"
    ]


def test_without_processes_there_is_no_record() -> None:
    with pytest.raises(SessionClosed):
        _ = af.Cluster.connect(regression(), "ipc:///tmp/af-never/chief").record
    assert af.Cluster.simulated(regression()).record is None
