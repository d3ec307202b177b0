"""A command whose reader has gone ends in order, and says so where that is news."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from actorflow.cli import main
from actorflow.cli.display.output import Output
from actorflow.cli.display.progress import Log
from tests.cli.test_launch import told
from tests.support.busy import HANG_S
from tests.support.runs import own_runs

ROOT = Path(__file__).parents[3]
SAID = "stopped: nobody reads standard output any more\n"


@pytest.fixture(name="pipe")
def _pipe() -> Iterator[Any]:
    """A file that nobody reads."""
    read, write = os.pipe()
    os.close(read)
    with open(write, "w", buffering=1) as file:
        yield file


def test_a_console_notes_that_nobody_reads_and_raises_only_where_it_is_asked(pipe: Any) -> None:
    console = Output(file=pipe)
    log = Log(console, seed=0)
    console.check()
    console.print("to nobody")
    console.print("and again")
    assert console.unread
    for ask in (console.check, lambda: log.show(None)):  # type: ignore[arg-type]
        with pytest.raises(BrokenPipeError, match="nobody reads standard output any more"):
            ask()
    pipe.write("what is left in its buffer goes nowhere\n")


@pytest.mark.parametrize(("name", "said"), [("train", SAID), ("launch", SAID), ("graph", ""), ("top", "")])
def test_the_exit_code_is_that_of_sigpipe_and_a_run_says_why(
    name: str, said: str, pipe: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(args: Any) -> int:
        raise BrokenPipeError

    broken.__module__ = f"actorflow.cli.{name}"
    monkeypatch.setattr(f"actorflow.cli.{name}.run", broken)
    monkeypatch.setattr(sys, "stdout", pipe)
    args = {"top": ["top"]}.get(name, [name, "p.py"])
    assert main(args) == 141
    assert capsys.readouterr().err == said


@pytest.mark.processes
def test_a_launch_into_head_ends_in_order() -> None:
    argv = [sys.executable, "-m", "actorflow", "launch", "tests.cluster.children:build"]
    with (
        own_runs() as left,
        subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT) as ran,
    ):
        assert ran.stdout is not None
        assert ran.stderr is not None
        ran.stdout.readline()
        ran.stdout.close()
        assert told(ran.stderr.read()) == SAID.splitlines()
        assert ran.wait(HANG_S) == 141
        assert left() == []
