"""What a run is given: slips are told before it begins."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

from actorflow import sim
from actorflow.errors import ConfigError


async def main() -> int:
    return 3


def test_the_usual_things_pass() -> None:
    for schedule in (sim.FIFO, sim.Plan(), sim.Seeded(1), sim.PCT(1), sim.DelayBounded(1), sim.Drawn()):
        assert sim.run(main, schedule, sim.NO_FAULTS, seed=1, limits=sim.Limits(100, 1.0)).result == 3


@pytest.mark.parametrize(
    ("schedule", "text"),
    [
        ("a>b#1 +1", r"got 'a>b#1 \+1'\n +try: +sim\.Plan\('a>b#1 \+1'\)"),
        (sim.schedules(), r"got .*\n +try: +@given\(schedule=\.\.\.\) draws"),
        (None, r"got None\n +try: +sim\.FIFO, sim\.Plan\(\"\.\.\.\"\), sim\.Seeded"),
        (7, r"got 7\n +try: +sim\.Seeded\(7\)"),
        (sim.Seeded, r"got <class .*\n +try: +sim\.FIFO, sim\.Plan"),
        (sim.NO_FAULTS, r"got Faults\(faults=\(\)\)\n +try: +faults="),
    ],
)
def test_what_is_no_schedule_is_refused(schedule: Any, text: str) -> None:
    with pytest.raises(ConfigError, match=f"a schedule says how a run goes, {text}"):
        sim.run(main, schedule)


def test_a_coroutine_is_no_program_and_is_closed() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(
            ConfigError, match=r"(?s)got a coroutine of main\n +try: +pass main, or lambda: ma"
        ):
            sim.run(main())  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"takes the function that makes its main coroutine, got 3"):
        sim.run(3)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"limits": 100}, r"limits are a sim\.Limits, got 100\n +try: +sim\.Limits\(max_steps=100\)"),
        ({"limits": "x"}, r"limits are a sim\.Limits, got 'x'\n +try: +sim\.Limits\(max_steps=1000\)"),
        ({"faults": {"crash": 1}}, r"faults are a sim\.Faults, got {'crash': 1}\n +try: +@given\(faults=sim"),
        ({"faults": None}, r"faults are a sim\.Faults, got None\n +try: +sim\.NO_FAULTS"),
        ({"seed": "x"}, r"seed is a whole number, got 'x'"),
        ({"seed": True}, r"seed is a whole number, got True"),
    ],
)
def test_other_slips_are_told_with_what_to_pass(given: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        sim.run(main, **given)


@pytest.mark.parametrize(
    ("limits", "text"),
    [
        ({"max_steps": 0}, "max_steps is a whole number of at least 1, got 0"),
        ({"max_steps": 1.5}, r"max_steps is a whole number of at least 1, got 1\.5"),
        ({"max_seconds": "1"}, "max_seconds is a number of at least 0, got '1'"),
        ({"max_seconds": float("nan")}, "max_seconds is a number of at least 0, got nan"),
        ({"max_seconds": -1}, "max_seconds is a number of at least 0, got -1"),
    ],
)
def test_limits_are_numbers(limits: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        sim.Limits(**limits)
