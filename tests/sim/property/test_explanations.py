"""What hypothesis explains of a failing law names lines of the program, and none of the library."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from hypothesis.internal import scrutineer

import actorflow
from actorflow.sim.property import explanations
from tests.support.python import run_python

HARMED = """
import asyncio
from hypothesis import given, settings, strategies as st
from actorflow import sim

@settings(database=None, derandomize=True)
@given(schedule=sim.schedules(), faults=sim.faults(drop=1), n=st.integers(0, 5))
@sim.world("a", "b")
async def law(world, n):
    order = []
    async def lane(name):
        await asyncio.sleep(0)
        order.append(name)
    await asyncio.gather(lane("a"), lane("b"))
    assert n < 3
    assert order == ["a", "b"]
"""
STUCK = """
import asyncio
from hypothesis import given, settings, strategies as st
from actorflow import sim

@settings(database=None, derandomize=True)
@given(n=st.integers(0, 50))
def law(n):
    async def main():
        await asyncio.sleep(0)
        if n > 2:
            await asyncio.Event().wait()
    sim.run(main)
"""
ITS_OWN = """
from hypothesis import given, settings, strategies as st
from actorflow import sim

@settings(database=None, derandomize=True)
@given(n=st.integers(0, 50))
def law(n):
    wrong = 0
    if n > 2:
        wrong = 1
    async def main():
        if wrong:
            raise ValueError("n is too large")
    sim.run(main)
"""


def told(program: str, place: Path) -> str:
    """What pytest, in a process of its own, prints of a law that fails."""
    file = place / "test_law.py"
    file.write_text(program.replace("law(", "test_law("))
    package = Path(actorflow.__file__).parents[1]
    ran = run_python(
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--rootdir",
        place,
        file,
        env={"PYTHONPATH": str(package), "PATH": ""},
        cwd=place,
    )
    assert ran.returncode == 1, ran.stdout + ran.stderr
    return ran.stdout


def explained(output: str) -> list[str]:
    """The places that it lists under "Explanation"."""
    lines = iter(output.splitlines())
    places: list[str] = []
    for line in lines:
        if "These lines were always and only run" in line:
            for place in lines:
                text = place.strip("E| ")
                if ".py:" not in text:
                    break
                places.append(text)
    return places


@pytest.mark.parametrize("program", [HARMED, STUCK, ITS_OWN], ids=["harmed", "stuck", "its own"])
def test_no_line_of_the_library_explains_a_failure(program: str, tmp_path: Path) -> None:
    output = told(program, tmp_path)

    library = str(Path(actorflow.__file__).parent)
    assert "test_law(" in output
    assert [place for place in explained(output) if library in place] == []


def test_a_line_of_the_program_still_does(tmp_path: Path) -> None:
    assert "test_law.py:10" in [Path(place).name for place in explained(told(ITS_OWN, tmp_path))]


def test_it_is_laid_over_hypothesis_once() -> None:
    explanations.of_the_program_alone()
    first = scrutineer.should_trace_file
    explanations.of_the_program_alone()

    assert scrutineer.should_trace_file is first
    assert not first(explanations.__file__)
    assert first(__file__)


def test_a_hypothesis_of_other_insides_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "hypothesis.internal.scrutineer", sys)  # which has no such function

    explanations.of_the_program_alone()

    assert not hasattr(sys, "should_trace_file")
