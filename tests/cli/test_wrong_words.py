"""What is wrong on a command line, or in the environment, is told with what it may be, and ends with 2."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from actorflow.cli import command
from actorflow.launch.exits import Exit, meaning, worth_restart

DOCS = Path(__file__).parents[2] / "docs" / "launching.md"
PROGRAM = "tests.cluster.children:build"
WORKER = {
    "ACTORFLOW_JOB": "worker",
    "ACTORFLOW_TASK_INDEX": "0",
    "ACTORFLOW_PS": "1",
    "ACTORFLOW_WORKERS": "2",
    "ACTORFLOW_COORDINATOR": "localhost:4000",
}


def rows(heading: str) -> list[list[str]]:
    """Returns the rows of the table below a heading of the page, without its head."""
    text = DOCS.read_text(encoding="utf-8").split(f"\n{heading}\n", 1)[1]
    table = re.search(r"(?:^\|.*\n)+", text, re.MULTILINE)
    assert table is not None
    lines = table.group().replace("\\|", "¦").splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_the_page_has_every_exit_code() -> None:
    assert [int(code) for code, _, _ in rows("## Exit codes")] == [int(code) for code in Exit]


@pytest.mark.parametrize(("code", "what", "again"), rows("## Exit codes"))
def test_each_exit_code_is_what_the_page_says(code: str, what: str, again: str) -> None:
    said = meaning(int(code)).partition(": ")[2]
    assert what.startswith(said)
    assert worth_restart(int(code)) == (again == "yes")


def variables() -> list[str]:
    return re.findall(r"`(ACTORFLOW_\w+)`", " ".join(row[0] for row in rows("### Own variables")))


WRONG = {
    "ACTORFLOW_JOB": ("boss", "ACTORFLOW_JOB must be one of chief, ps, worker, got 'boss'"),
    "ACTORFLOW_TASK_INDEX": ("2", "ACTORFLOW_TASK_INDEX must be below 2 for worker, got 2"),
    "ACTORFLOW_COORDINATOR": ("here", "ACTORFLOW_COORDINATOR must be an address, host:port, "),
    "ACTORFLOW_PS": ("0", "ACTORFLOW_PS must be an integer of at least 1, got '0'"),
    "ACTORFLOW_WORKERS": ("two", "ACTORFLOW_WORKERS must be an integer of at least 1, got 'two'"),
    "ACTORFLOW_INCARNATION": ("-1", "ACTORFLOW_INCARNATION must be an integer of at least 1, got '-1'"),
    "ACTORFLOW_BIND": ("here", "ACTORFLOW_BIND must be an address, host:port, "),
    "ACTORFLOW_LOCAL_INDEX": ("x", "ACTORFLOW_LOCAL_INDEX must be an integer of at least 0, got 'x'"),
    "ACTORFLOW_FOLDER": ("", ""),
    "ACTORFLOW_DEATH_PIPE": ("x", "ACTORFLOW_DEATH_PIPE"),
    "ACTORFLOW_KEYS_PIPE": ("x", "ACTORFLOW_KEYS_PIPE"),
}


def test_every_variable_of_the_page_is_tried() -> None:
    assert set(variables()) == WRONG.keys()


@pytest.mark.parametrize("name", [name for name, (value, _) in WRONG.items() if value])
def test_a_wrong_variable_is_named_with_its_value(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    for source in ("RANK", "TF_CONFIG", "SLURM_PROCID"):
        monkeypatch.delenv(source, raising=False)
    value, said = WRONG[name]
    for variable, right in {**WORKER, name: value}.items():
        monkeypatch.setenv(variable, right)
    assert command.run(["worker", PROGRAM]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--index", "3"], "--index must be below 2 for worker, got 3\n"),
        (["--workers", "1", "--index", "1"], "--index must be below 1 for worker, got 1\n"),
        (["--coordinator", "here"], "--coordinator must be an address, host:port, "),
        (["--bind", "there"], "--bind must be an address, host:port, "),
    ],
)
def test_what_a_flag_said_is_told_by_its_name(
    argv: list[str], said: str, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    for variable, right in WORKER.items():
        monkeypatch.setenv(variable, right)
    assert command.run(["worker", PROGRAM, *argv]) == 2
    assert capsys.readouterr().err.startswith(f"ConfigError: {said}")


def test_what_neither_a_flag_nor_a_variable_says_is_told_by_both_names(
    monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    for variable in (*WORKER, "RANK", "TF_CONFIG", "SLURM_PROCID"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("ACTORFLOW_JOB", "worker")
    argv = ["--index", "3", "--workers", "1", "--coordinator", "localhost:4000"]
    assert command.run(["worker", PROGRAM, *argv]) == 2
    assert capsys.readouterr().err.splitlines() == [
        "ConfigError: ACTORFLOW_PS or --ps must be set where ACTORFLOW_JOB is, which is 'worker'",
        "  try:   set ACTORFLOW_PS or --ps, or unset ACTORFLOW_JOB",
    ]


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["worker", "p.py", "--job", "boss"], "invalid choice: 'boss'"),
        (["worker", "p.py", "--index", "-1"], "--index: must be an integer of at least 0, got '-1'"),
        (["worker", "p.py", "--ps", "0"], "--ps: must be an integer of at least 1, got '0'"),
        (["worker", "p.py", "--delay", "p=7"], "--delay: p is a number between 0 and 1, got 7.0"),
        (["worker", "p.py", "--threads", "-1"], "--threads: must be an integer of at least 0, got '-1'"),
        (["worker", "p.py", "--lost-s", "0"], "--lost-s: must be a number of seconds above 0, got '0'"),
        (["launch", "p.py", "--silence-s", "nan"], "--silence-s: must be a number of seconds above 0"),
        (["launch", "p.py", "--restarts", "x"], "--restarts: must be an integer of at least 0, got 'x'"),
        (["launch", "p.py", "--least", "0"], "--least: must be an integer of at least 1, got '0'"),
        (["top", "--every-s", "0"], "--every-s: must be a number of seconds between 0.1 and 3600, got '0'"),
        (["top", "--every-s", "nan"], "--every-s: must be a number of seconds between 0.1 and 3600"),
        (["dump", "--timeout-s", "0"], "--timeout-s: must be seconds, above 0 and at most 3600, got '0'"),
    ],
)
def test_a_wrong_flag_is_told_what_it_may_be(argv: list[str], said: str, capsys: Any) -> None:
    with pytest.raises(SystemExit) as caught:
        command.run(argv)
    assert caught.value.code == 2
    assert said in capsys.readouterr().err
