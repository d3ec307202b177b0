"""Tests that interrupt programs end however the tests were started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

BEGUN = "ACTORFLOW_TESTS_BEGUN_IN_THE_BACKGROUND"


@pytest.mark.skipif(BEGUN not in os.environ, reason="the test below runs it")
def test_here_and_in_programs_signals_of_the_terminal_are_not_ignored() -> None:
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    program = "import signal; signal.raise_signal(signal.{})"
    for name in ("SIGINT", "SIGQUIT"):
        done = subprocess.run([sys.executable, "-c", program.format(name)], check=False, capture_output=True)
        assert done.returncode == -getattr(signal, name)


@pytest.mark.parametrize("workers", ["0", "1"])
def test_a_shell_that_begins_tests_in_the_background_makes_no_difference(workers: str) -> None:
    told = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-n",
        workers,
        __file__,
        "-k",
        "here",
    ]
    done = subprocess.run(
        ["sh", "-c", "trap '' INT QUIT; exec \"$@\"", "sh", *told],
        check=False,
        cwd=Path(__file__).parents[1],
        env={**os.environ, BEGUN: "1"},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout.count("1 passed")) == (0, 1), done.stdout + done.stderr
