"""What the simulator is judged by: three seeded bugs, each found and shown with one deviation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import Phase, given, seed, settings

from actorflow import sim
from actorflow.sim.engine.faults import Faults
from actorflow.sim.engine.schedulers import PCT, DelayBounded, Drawn, Schedule, Seeded
from tests.programs.seeded_bugs import PLANTED

planted = pytest.mark.parametrize("name", sorted(PLANTED))


@planted
def test_it_is_silent_first_come_first_served(name: str) -> None:
    PLANTED[name]()
    PLANTED[name](repaired=True)


def shrunk(law: Callable[..., Any], number: int) -> BaseException:
    """Returns the failure that hypothesis ends with."""

    @seed(number)
    @settings(max_examples=1_000, database=None, phases=[Phase.generate, Phase.shrink])
    @given(schedule=sim.schedules())
    def test(schedule: Schedule) -> None:
        law(schedule=schedule)

    with pytest.raises(AssertionError) as caught:
        test()
    return caught.value


@planted
@pytest.mark.slow
@pytest.mark.parametrize("number", range(8))
def test_it_is_found_and_shown_with_one_deviation(name: str, number: int) -> None:
    error = shrunk(PLANTED[name], number)

    notes = [note for note in error.__notes__ if note.startswith(("it takes", "@example"))]
    assert notes[0].startswith("it takes one deviation: ")
    plan = sim.Plan(notes[0].removeprefix("it takes one deviation: "))
    assert len(plan) == 1
    with pytest.raises(AssertionError) as again:
        PLANTED[name](schedule=plan)
    assert str(again.value) == str(error)


def many() -> list[Schedule]:
    """Returns 200 schedules of every kind."""
    drawn = [Drawn(tuple((n * 7 % 31, n * k % 17, n + k) for k in range(4))) for n in range(50)]
    return [
        *drawn,
        *(Seeded(n, (0.05, 0.2, 1.0)[n % 3]) for n in range(50)),
        *(PCT(n, 1 + n % 4) for n in range(50)),
        *(DelayBounded(n, 1 + n % 4) for n in range(50)),
    ]


@planted
@pytest.mark.slow
def test_its_repaired_twin_holds_under_two_hundred_schedules(name: str) -> None:
    for schedule in many():
        PLANTED[name](schedule=schedule, repaired=True)


@planted
@pytest.mark.slow
def test_seeds_alone_find_it(name: str) -> None:
    """A sweep without hypothesis, as on a build machine."""
    for make in (lambda n: Seeded(n, 0.2), lambda n: PCT(n, 3)):
        assert any(_fails(PLANTED[name], make(n)) for n in range(60)), make(0)


def _fails(law: Callable[..., Any], schedule: Schedule) -> bool:
    try:
        law(schedule=schedule, faults=Faults())
    except AssertionError:
        return True
    return False
