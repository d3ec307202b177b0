"""The command that shows that replay is exact: what it prints, and its exit status."""

from __future__ import annotations

import re
import subprocess
from io import StringIO
from pathlib import Path

import pytest

from actorflow.sim.selftest import Progress, main
from tests.support.python import run_python

ROOT = Path(__file__).parents[2]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return run_python("-m", "actorflow.sim.selftest", *arguments, cwd=ROOT)


def test_it_says_that_replay_is_exact_and_ends_with_0() -> None:
    done = run("--pairs", "60")

    assert done.stderr == ""
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert lines[0] == "12 of 60 pairs"
    assert re.fullmatch(r"30 programs, 60 pairs, \d+ of which end with an error; \d+\.\d s", lines[-3])
    assert re.fullmatch(
        r"compared: 60 runs with a second one, [1-9]\d with one by their plan, "
        r"180 with one in another process \(hash seeds 0, 1, random\)",
        lines[-2],
    )
    assert re.fullmatch(r"replay is exact: 60 pairs, 0 differ, digest [0-9a-f]{16} in 4 processes", lines[-1])


def test_a_difference_in_one_process_ends_with_1_and_shows_it() -> None:
    done = run("--programs", "tests.sim.irregular:NUMBERS", "--pairs", "4")

    assert done.returncode == 1
    assert done.stdout.splitlines()[-1] == "replay is not exact: 2 of 4 pairs differ"
    assert "two runs in one process: line" in done.stdout
    assert re.search(r"! result 0 +\| result 1\n", done.stdout)
    assert (
        "repeat it: python -m actorflow.sim.selftest --programs tests.sim.irregular:NUMBERS"
        " --program numbers --schedule fifo --seed 0\n"
    ) in done.stdout


def test_a_difference_between_hash_seeds_ends_with_1_and_shows_it() -> None:
    done = run("--programs", "tests.sim.irregular:STRINGS", "--program", "strings", "--pairs", "3")

    assert done.returncode == 1
    assert done.stdout.splitlines()[-1] == "replay is not exact: 1 of 1 pairs differ"
    assert "here and in a process with hash seed 0: line" in done.stdout
    assert "two runs in one process" not in done.stdout


def test_a_program_may_print() -> None:
    done = run("--programs", "tests.sim.irregular:PRINTING", "--pairs", "1")

    assert done.returncode == 0
    assert done.stdout.count("what a program prints") == 2  # here
    assert done.stderr.count("what a program prints") == 3  # once in each other process


def test_what_cannot_be_compared_ends_with_2(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, said in [
        (["--pairs", "0"], "--pairs must be at least 1, got 0"),
        (["--program", "nothing"], "no program 'nothing'; there are waited,"),
        (["--programs", "tests.sim.irregular:NOTHING"], "no programs at 'tests.sim.irregular:NOTHING'"),
        (["--programs", "tests.sim.irregular:EMPTY"], "programs are a dict of coroutine functions by name"),
        (["--pairs", "1", "--program", "stuck"], "none of the first 1 pairs is asked for"),
    ]:
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        assert ended.value.code == 2
        assert said in capsys.readouterr().err


def test_one_pair_is_repeated_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--program", "waited", "--schedule", "seeded", "--seed", "1234"]) == 0
    assert "replay is exact: 1 pairs, 0 differ" in capsys.readouterr().out


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


def test_on_a_terminal_one_line_is_written_over() -> None:
    out = Terminal()
    progress = Progress(out, 3)
    for done in (1, 2, 3):
        progress.show(done)
    progress.say("over")

    assert out.getvalue() == "\r1 of 3 pairs \r2 of 3 pairs \r3 of 3 pairs \r\033[Kover\n"


def test_elsewhere_every_fifth_part_is_a_line() -> None:
    out = StringIO()
    progress = Progress(out, 1000)
    for done in range(1, 1001):
        progress.show(done)

    assert out.getvalue().splitlines() == [f"{n:,} of 1,000 pairs" for n in (200, 400, 600, 800, 1000)]
