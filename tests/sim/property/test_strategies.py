from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st

from actorflow import sim
from actorflow.errors import ConfigError
from actorflow.sim.engine.choice import FAULTS
from actorflow.sim.engine.faults import Faults
from actorflow.sim.engine.schedulers import PCT, DelayBounded, Drawn, Schedule, Seeded
from actorflow.sim.engine.simulate import attempt
from actorflow.sim.property.strategies import faults, schedules

QUICK = settings(database=None, derandomize=True, max_examples=2_000)


def test_the_simplest_schedule_is_first_come_first_served_and_the_simplest_harm_none() -> None:
    assert find(schedules(), lambda _: True, settings=QUICK) == Drawn()
    assert find(faults(drop=2, crash=1), lambda _: True, settings=QUICK) == Faults()


@pytest.mark.parametrize("kind", [Drawn, Seeded, PCT, DelayBounded])
def test_every_kind_of_schedule_is_drawn(kind: type[Any]) -> None:
    found = find(schedules(), lambda schedule: isinstance(schedule, kind), settings=QUICK)

    assert isinstance(found, Schedule)


def test_a_drawn_schedule_shrinks_to_the_least_entry_that_does() -> None:
    found = find(
        schedules(), lambda s: isinstance(s, Drawn) and any(a >= 3 for a, _, _ in s.entries), settings=QUICK
    )

    assert found == Drawn(((3, 0, 0),))


@given(faults(crash=1, drop=2, split=1))
def test_there_are_no_more_harms_than_were_asked_for(drawn: Faults) -> None:
    kinds = [kind for kind, _, _ in drawn.faults]

    assert all(kinds.count(kind) <= most for kind, most in {"crash": 1, "drop": 2, "split": 1}.items())
    assert set(kinds) <= {"crash", "drop", "split"}


@given(faults())
def test_no_kind_of_harm_is_no_harm(drawn: Faults) -> None:
    assert drawn == Faults()


@pytest.mark.parametrize("kind", FAULTS)
def test_every_kind_of_harm_can_be_asked_for(kind: str) -> None:
    found = find(faults(**{kind: 1}), lambda drawn: bool(drawn.faults), settings=QUICK)

    assert found == Faults(((kind, 0, 0),))


@pytest.mark.parametrize(
    ("limits", "text"),
    [
        ({"quake": 1}, "unknown fault 'quake'"),
        ({"drop": 0}, "drop is how many there may be in one run, got 0"),
        ({"drop": -1}, "drop is how many there may be in one run, got -1"),
        ({"drop": True}, "drop is how many there may be in one run, got True"),
        ({"drop": 1.5}, "drop is how many there may be in one run, got 1.5"),
        ({"crash": 100_000}, "a run has at most 8 faults in all, got 100000"),
        ({"crash": 5, "drop": 4}, "(?s)at most 8 faults in all, got 9.*crash=5, drop=4"),
        ({"straggle": 1}, r"(?s)'straggle' is done by hand.*world\.straggle.*drawn are reorder, dup"),
        ({"swizzle": 1}, r"(?s)'swizzle' is done by hand.*world\.hold, world\.slow, world\.swizzle"),
    ],
)
def test_what_cannot_be_asked_for_is_refused(limits: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        faults(**limits)


def test_schedules_take_nothing() -> None:
    with pytest.raises(ConfigError, match=r"(?s)schedules\(\) takes nothing, got 3.*max_examples"):
        schedules(3)


def test_an_example_of_a_long_program_draws_no_more_than_one_of_a_short_program() -> None:
    """Hypothesis gives up an example after some thousand draws; all of ours come before the run."""
    steps: list[int] = []

    @settings(database=None, max_examples=15, phases=[Phase.generate])
    @given(schedules(), faults(drop=2), st.integers())
    def law(schedule: Schedule, harms: Faults, _n: int) -> None:
        del harms

        async def main() -> None:
            async def client() -> None:
                for _ in range(400):
                    await asyncio.sleep(0)

            await asyncio.gather(*(client() for _ in range(15)))

        outcome = attempt(main, schedule)
        assert outcome.error is None
        steps.append(sum(asked.count for asked in outcome.survey))

    law()

    assert max(steps) > 4_096  # choices of one run, and no example was too large


def test_the_strategies_are_reached_through_the_package() -> None:
    assert sim.schedules is schedules
    assert sim.faults is faults
    with pytest.raises(AttributeError, match="has no attribute 'schedule'"):
        _ = sim.schedule
