"""The race of the example: a law of ten lines finds it, and shows it with one deviation."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import Phase, given, seed, settings

from actorflow import sim

SCRIPT = Path(__file__).parents[2] / "examples" / "racy_optimizer.py"


def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("racy_optimizer", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # ORDER: its dataclasses look for their module
    spec.loader.exec_module(module)
    return module


racy_optimizer = script()


def law(optimizer: Any) -> Callable[[], None]:
    @given(schedule=sim.schedules())
    @sim.world("machine")
    async def every_update_is_counted_once(world: sim.World) -> None:
        steps = 3

        count, _ = await racy_optimizer.train(optimizer, steps)

        assert count == 2 * steps

    return every_update_is_counted_once


@pytest.mark.parametrize("optimizer", ["Racy", "Repaired"])
def test_first_come_first_served_shows_nothing(optimizer: str) -> None:
    sim.run(lambda: racy_optimizer.counted(getattr(racy_optimizer, optimizer)))


@pytest.mark.slow
@pytest.mark.parametrize("number", range(8))
def test_the_law_finds_the_race_and_shows_it_with_one_deviation(number: int) -> None:
    phases = [Phase.generate, Phase.shrink]  # explaining traces every line, which is seven times slower
    chosen = settings(deadline=None, database=None, max_examples=100, phases=phases)

    with pytest.raises(AssertionError) as failure:
        seed(number)(chosen(law(racy_optimizer.Racy)))()

    assert failure.value.__notes__[0].startswith("it takes one deviation: ")


@pytest.mark.slow
def test_the_law_holds_for_the_repaired_one() -> None:
    law(racy_optimizer.Repaired)()


def test_the_script_finds_the_race_and_a_plan_that_repeats_it() -> None:
    found = racy_optimizer.explore(racy_optimizer.Racy)

    (plan,) = [line for line in found.splitlines() if line.startswith('schedule=Plan("')]
    with pytest.raises(AssertionError):
        sim.run(
            lambda: racy_optimizer.counted(racy_optimizer.Racy), sim.Plan(plan[len('schedule=Plan("') : -2])
        )


def test_the_script_says_that_none_of_the_repaired_runs_failed() -> None:
    assert racy_optimizer.explore(racy_optimizer.Repaired, runs=20) == "20 runs, and none failed"
