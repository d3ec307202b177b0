"""`--history FILE`: every figure that a run tells is in the file, as JSON lines or as CSV."""

from __future__ import annotations

import csv
import json
from argparse import ArgumentTypeError
from pathlib import Path
from typing import Any

import pytest

from actorflow.cli import main
from actorflow.cli.cluster_arguments import history_file
from actorflow.cli.display import run_history as module
from actorflow.cli.display.run_history import COLUMNS, RunHistory
from actorflow.errors import ConfigError
from actorflow.training.batches import InputStats
from actorflow.training.events import EpochDone, Event, RunDone, StepDone
from tests.cli.test_train import write

KNOWN: dict[str, Any] = {
    "epoch": 2, "step": 7, "total": None, "loss": 0.5, "metrics": {"accuracy": 0.75}, "train_s": 2.0,
    "messages": 100, "input": InputStats(0.0, 2.0), "training_position": None,
}  # fmt: skip


def events() -> list[Event]:
    return [
        StepDone(**KNOWN),
        StepDone(**{**KNOWN, "step": 8, "loss": float("nan")}),
        EpochDone(**KNOWN, scores={"error": 0.25}),
        RunDone(**KNOWN, scores={"error": 0.25}, test={"error": 0.125}, dropped=3, reasons={"late": 3}),
    ]


def test_json_lines_have_an_object_an_event_with_all_of_its_figures(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    with RunHistory(path) as history:
        for event in events():
            history.tell(3, event)

    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert [row["event"] for row in rows] == ["step", "step", "epoch", "run"]
    same = {"seed": 3, "epoch": 2, "step": 7, "train_s": 2.0, "loss": 0.5, "accuracy": 0.75}
    assert rows[0] == {**same, "event": "step", "steps_per_s": 3.5, "messages": 100}
    assert rows[1]["loss"] == "nan"
    assert rows[2]["evaluated error"] == 0.25
    assert (rows[3]["evaluated error"], rows[3]["test error"]) == (0.25, 0.125)
    assert [row.get("dropped") for row in rows] == [None, None, None, 3]


def test_csv_has_a_row_a_figure_and_says_the_same(tmp_path: Path) -> None:
    for path in (tmp_path / "run.csv", tmp_path / "run.jsonl"):
        with RunHistory(path) as history:
            for event in events():
                history.tell(3, event)

    with (tmp_path / "run.csv").open(newline="") as file:
        head, *rows = csv.reader(file)
    assert tuple(head) == COLUMNS
    told = [json.loads(line) for line in (tmp_path / "run.jsonl").read_text().splitlines()]
    fixed = COLUMNS[:-2]
    assert rows == [
        [*(str(row[name]) for name in fixed), name, str(value)]
        for row in told
        for name, value in row.items()
        if name not in fixed
    ]


def test_an_epoch_that_is_over_is_in_the_file_while_the_run_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    with RunHistory(path) as history:
        for event in events()[:3]:
            history.tell(0, event)
        assert len(path.read_text().splitlines()) == 3


def test_without_a_file_nothing_is_written(tmp_path: Path) -> None:
    with RunHistory(None) as history:
        history.tell(0, events()[0])


@pytest.mark.parametrize("text", ["run", "run.json", "run.txt", ""])
def test_the_ending_says_the_form(text: str) -> None:
    with pytest.raises(ArgumentTypeError, match=r"a history is FILE.jsonl or FILE.csv"):
        history_file(text)


def test_a_file_that_cannot_be_written_is_refused_before_the_run(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="must be a file that can be written"):
        RunHistory(tmp_path / "nowhere" / "run.csv")


def test_a_full_disk_ends_the_history_and_not_the_run(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "run.jsonl").symlink_to("/dev/full")

    with RunHistory(tmp_path / "run.jsonl") as history:
        for event in events():
            history.tell(0, event)

    assert [r.message for r in caplog.records if r.name == module.log.name] == [
        f"the run goes on without its history: No space left on device, {tmp_path / 'run.jsonl'}"
    ]


def test_train_writes_what_it_says_for_every_seed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "run.jsonl"
    assert main(["train", write(tmp_path), "--seed", "1", "--seeds", "2", "--history", str(path)]) == 0

    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert [row["event"] for row in rows] == [*[*["step"] * 4, "epoch"] * 3, "run"] * 2
    assert [row["seed"] for row in rows] == [1] * 16 + [2] * 16
    assert f"test error {rows[15]['test error']:.4f}" in capsys.readouterr().out
