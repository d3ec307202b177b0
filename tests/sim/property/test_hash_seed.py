"""A law that depends on the order of a set says under which hash seed it failed."""

from __future__ import annotations

import os

import pytest

from tests.support.python import run_python

BY_A_SET = """
from actorflow import sim

@sim.world("a")
async def law(world):
    assert next(iter({"a", "b", "c", "d"})) is None, "always"

try:
    PROGRAM
except AssertionError as error:
    print(*error.__notes__, sep="\\n")
"""
IN_A_LAW = BY_A_SET.replace("PROGRAM", "law()")
IN_A_PROGRAM = BY_A_SET.replace("PROGRAM", "sim.run(law.program())")
BY_SEED = BY_A_SET.replace("PROGRAM", "law(schedule=sim.Seeded(1, 0.5))")


def noted(program: str, *options: str, **seed: str) -> list[str]:
    """The lines noted on the failure, in a process of its own."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONHASHSEED"}
    ran = run_python(*options, "-c", program, env={**env, "PYTHONPATH": ".", **seed}, check=True)
    return ran.stdout.splitlines()


@pytest.mark.parametrize("program", [IN_A_LAW, IN_A_PROGRAM, BY_SEED], ids=["law", "program", "seeded"])
@pytest.mark.parametrize("seed", ["0", "5"])
def test_the_note_of_a_failure_names_the_hash_seed(program: str, seed: str) -> None:
    notes = noted(program, PYTHONHASHSEED=seed)

    assert [line for line in notes if line.startswith(f"PYTHONHASHSEED={seed}: ")] == notes[-1:]


@pytest.mark.parametrize("seed", [{}, {"PYTHONHASHSEED": "random"}], ids=["unset", "random"])
def test_where_nobody_knows_the_seed_it_says_how_to_fix_it(seed: dict[str, str]) -> None:
    notes = noted(IN_A_LAW, **seed)

    assert notes[-1].startswith("PYTHONHASHSEED was not set: ")
