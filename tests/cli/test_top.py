"""`actorflow top`: the rates between two looks, the table, and how it ends."""

from __future__ import annotations

import argparse
import os
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from rich.console import Console

from actorflow.cli import top
from actorflow.cli.display.output import Output
from actorflow.cli.exit_codes import STOPPED
from actorflow.cluster.inspect.monitor import socket_name
from actorflow.cluster.inspect.poll_all import PollResult, Silent
from actorflow.cluster.inspect.procfs import Usage
from actorflow.cluster.inspect.reports import Totals, WorkerEntry
from actorflow.launch.rundir import RunDirectory
from tests.cli.test_dump import REPORTS, RUN, asking, report


def survey(at_s: float, cpu_s: float, **reports: Any) -> PollResult:
    silent = {"worker1": Silent("worker1", "it was stopped by SIGSTOP", 77)}
    return PollResult(reports, silent, {"chief": Usage("S", cpu_s, 50_000_000)}, at_s)


def rows(now: PollResult, before: PollResult) -> dict[str, list[str]]:
    console = Console(width=200, record=True, file=open(os.devnull, "w"))  # noqa: SIM115
    console.print(top.table("run 1a", now, before))
    console.file.close()
    text = console.export_text().splitlines()
    assert text[0].strip() == "run 1a"
    return {line.split()[0]: line.split() for line in text[2:] if line.strip() and "(pid" not in line}


FIRST = report("chief", run=RUN, totals=Totals(turns=1000, bytes_in=0, bytes_out=1_000_000))
LATER = replace(
    FIRST,
    at_s=52.0,
    run=replace(RUN, version=27),
    totals=Totals(
        turns=3000, bytes_in=4_000_000, bytes_out=2_000_000, in_line=3, mailbox=2, mailbox_limit=64
    ),
)


def test_rates_are_what_was_done_between_two_looks() -> None:
    assert top.rates(LATER, FIRST) == top.Rates(10.0, 1000.0, 2e6, 0.5e6)


def test_another_life_has_no_rates_yet() -> None:
    assert top.rates(LATER, None) is None
    assert top.rates(LATER, replace(FIRST, incarnation=2)) is None
    assert top.rates(FIRST, FIRST) is None


def test_a_row_a_process() -> None:
    held = replace(REPORTS["worker0"], at_s=52.0)
    found = rows(survey(2.0, 1.5, chief=LATER, worker0=held), survey(0.0, 1.0, chief=FIRST))

    assert found["chief"] == [
        "chief", "100", "idle,", "2/2", "alive", "27", "10.0", "1,000", "2.00", "0.50", "3", "2/64", "0.2", "25", "50",
    ]  # fmt: skip
    assert found["worker0"][1:6] == ["100", "held", "up", "by", "worker"]
    assert "3,250.0" in found["worker0"]
    assert found["worker1"] == ["worker1", "77", "no", "answer"]


def test_on_a_narrow_terminal_whole_columns_are_left_out() -> None:
    console = Console(width=90, record=True, file=open(os.devnull, "w"))  # noqa: SIM115
    console.print(top.table("", survey(2.0, 1.5, chief=LATER), survey(0.0, 1.0, chief=FIRST), 90))
    console.file.close()
    head, chief, *_ = console.export_text().splitlines()

    assert head.split() == [
        "process",
        "state",
        "version",
        "steps/s",
        "messages/s",
        "lag",
        "ms",
        "cpu",
        "%",
        "MB",
    ]
    assert chief.split() == ["chief", "idle,", "2/2", "alive", "27", "10.0", "1,000", "0.2", "25", "50"]


def test_a_worker_whose_input_stands_still_is_told_with_what_it_waits_for() -> None:
    what = "batch 3 of epoch 0, of generator 'batches' at train.py:41"
    reports = {
        "worker0": report("worker0", worker=WorkerEntry(12, 11, 9, 2, False, what, 4.8)),
        "worker2": report("worker2", worker=WorkerEntry(13, 11, 9, 2, False, what, 0.2)),
    }
    console = Console(width=200, record=True, file=open(os.devnull, "w"))  # noqa: SIM115
    console.print(top.table("", PollResult(reports, {}), PollResult({}, {})))
    console.file.close()

    text = console.export_text()
    assert f"worker0 waits for {what}, for 4.8 s" in text
    assert "worker2 waits" not in text
    assert [top.state(each) for each in reports.values()] == ["waits for input", "at work"]


def test_below_the_table_stands_why_some_do_not_answer() -> None:
    console = Console(width=200, record=True, file=open(os.devnull, "w"))  # noqa: SIM115
    console.print(top.table("", survey(2.0, 1.5, chief=LATER), survey(0.0, 1.0, chief=FIRST)))
    console.file.close()

    assert "worker1 (pid 77): it was stopped by SIGSTOP" in console.export_text()


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[RunDirectory]:
    with TemporaryDirectory(prefix="af-") as short:
        monkeypatch.setenv("XDG_RUNTIME_DIR", short)
        with RunDirectory() as made:
            for name in REPORTS:
                (made.path / socket_name(name, 3)).touch()
            yield made


def arguments(*argv: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    top.add_to(parser.add_subparsers())
    return parser.parse_args(["top", *argv])


def test_once_prints_one_table_of_two_looks(
    folder: RunDirectory, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(top, "_ONCE_S", 0.01)
    monkeypatch.setenv("COLUMNS", "200")
    assert top.run(arguments("--once"), asking(REPORTS)) == 0

    out = capsys.readouterr().out
    assert out.count("messages/s") == 1
    assert folder.run in out
    assert "held up by worker" in out


def test_ctrl_c_ends_it_with_130(folder: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(self: threading.Event, timeout: float | None = None) -> bool:
        raise KeyboardInterrupt

    monkeypatch.setattr(threading.Event, "wait", stopped)
    monkeypatch.setattr(top, "_look", lambda found, args: survey(0.0, 0.0, chief=FIRST))
    assert top.run(arguments(), asking(REPORTS)) == STOPPED


def test_it_looks_again_and_again_on_a_terminal_until_the_cluster_has_ended(
    folder: RunDirectory, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(top, "Output", lambda **options: Output(force_terminal=True, width=200))
    looks: list[int] = []

    def ask(address: str, payload: bytes, timeout_s: float, keys: Path | None) -> bytes:
        looks.append(1)
        if len(looks) == 3 * len(REPORTS):
            folder.close()
        answer: bytes = asking(REPORTS)(address, payload, timeout_s, keys)
        return answer

    assert top.run(arguments("--every-s", "0.1"), ask) == 0
    assert len(looks) == 3 * len(REPORTS)
    assert capsys.readouterr().out.endswith(f"run {folder.run} has ended\n")
