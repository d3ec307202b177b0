"""The programs in the README run as they stand."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.python import run_python

ROOT = Path(__file__).parents[1]


PROGRAMS = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)


def said_by(program: str) -> tuple[str, str]:
    ran = run_python("-c", program, cwd=ROOT)
    return ran.stdout, ran.stderr


@pytest.mark.slow
def test_the_program_of_the_readme_learns() -> None:
    out, err = said_by(PROGRAMS[0])

    assert err == ""
    found = re.fullmatch(r"loss (\d+\.\d+) after 200 steps, [\d,]+ messages\n", out)
    assert found is not None, out
    assert float(found[1]) < 0.5


@pytest.mark.processes
def test_the_processes_of_the_readme_learn() -> None:
    out, err = said_by(PROGRAMS[1])

    assert err == ""
    *epochs, last = out.splitlines()
    assert [line.partition(":")[0] for line in epochs] == [f"epoch {k}" for k in range(1, len(epochs) + 1)]
    found = re.fullmatch(r"test accuracy (0\.\d+)", last)
    assert found is not None, out
    assert float(found[1]) >= 0.85


@pytest.mark.slow
def test_the_actors_of_the_readme_answer_after_a_failure() -> None:
    out, err = said_by(PROGRAMS[2])

    assert out == "42\n"
    assert "ValueError" in err


@pytest.mark.slow
def test_the_cluster_of_the_readme_learns_without_its_slowest() -> None:
    (program,) = PROGRAMS[3:]

    out, err = said_by(program)

    assert err == ""
    found = re.fullmatch(r"loss (\d+\.\d+) after (\d+) updates and \d+ virtual seconds\n", out)
    assert found is not None, out
    assert float(found[1]) < 0.5
    assert 55 <= int(found[2]) <= 65, "of 240 batches a quarter is dropped"
