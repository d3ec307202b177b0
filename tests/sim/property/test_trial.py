"""A failure is told by the plan that repeats it."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.errors import StopTest

from actorflow.errors import FaultNeverFired
from actorflow.sim.engine.faults import NO_FAULTS, Faults
from actorflow.sim.engine.plan import Plan
from actorflow.sim.engine.schedulers import FIFO, PCT, DelayBounded, Drawn, Schedule, Seeded
from actorflow.sim.engine.simulate import Outcome, attempt
from actorflow.sim.property import hash_seed, trial
from actorflow.sim.property.trial import StalePlanWarning, Trial, run


async def race() -> int:
    """A lost update: silent first come, first served, and lost when a late one overtakes."""
    state = {"value": 0}

    async def client(n: int) -> None:
        for _ in range(n):
            await asyncio.sleep(0)
        read = state["value"]
        await asyncio.sleep(0)
        state["value"] = read + 1

    await asyncio.gather(client(0), client(2))
    assert state["value"] == 2, f"2 were added, and the value is {state['value']}"
    return state["value"]


def failure(schedule: Schedule, main: Callable[[], Any] = race, faults: Faults = NO_FAULTS) -> BaseException:
    with pytest.raises(BaseException) as caught:  # noqa: PT011  its notes are looked at
        run(main, schedule, faults)
    return caught.value


def failing_seed(make: Callable[[int], Schedule]) -> Schedule:
    for seed in range(200):
        schedule = make(seed)
        if Trial(race).attempt(schedule).error is not None:
            return schedule
    raise AssertionError("no seed of 200 finds it")


@pytest.mark.parametrize(
    "make",
    [lambda seed: Seeded(seed, 0.3), PCT, lambda seed: DelayBounded(seed, 3)],
    ids=["seeded", "pct", "bounded"],
)
def test_a_failure_by_seed_is_told_by_one_deviation_that_repeats_it(make: Callable[[int], Schedule]) -> None:
    error = failure(failing_seed(make))

    says, paste, _ = error.__notes__
    plan = Plan(says.removeprefix("it takes one deviation: "))
    assert len(plan) == 1
    assert paste == f"schedule={plan!r}"
    again = failure(plan)
    assert (type(again), str(again)) == (type(error), str(error))
    assert again.__notes__ == error.__notes__


def test_a_failure_first_come_first_served_says_so() -> None:
    async def wrong() -> None:
        await asyncio.sleep(1)
        raise ValueError("always")

    for schedule in (FIFO, Seeded(1), PCT(1), Drawn(((1, 2, 3),))):
        error = failure(schedule, wrong)

        assert repr(error) == "ValueError('always')"
        assert error.__notes__ == [
            "it fails first come, first served, without any deviation:",
            'schedule=Plan("")',
            hash_seed.describe(),
        ]


def test_a_plan_of_several_deviations_is_told_whole() -> None:
    async def needs_two() -> None:
        order: list[str] = []

        async def lane(name: str) -> None:
            order.append(name)

        await asyncio.gather(lane("a"), lane("b"), lane("c"))
        assert order != ["c", "b", "a"]

    error = failure(Plan("lane-1#1 +2; lane-2#1 +1"), needs_two)

    assert error.__notes__ == [
        "it takes 2 deviations: lane-1#1 +2; lane-2#1 +1",
        'schedule=Plan("lane-1#1 +2; lane-2#1 +1")',
        hash_seed.describe(),
    ]


async def reversed_lanes() -> None:
    """Fails only where ten strands go in exactly the reverse order: nine deviations."""
    order: list[int] = []

    async def lane(k: int) -> None:
        order.append(k)

    await asyncio.gather(*(lane(k) for k in range(10)))
    assert order != list(range(10))[::-1]


class Backwards:
    """A schedule that is no plan: every strand is delayed behind all that come after it."""

    needs_survey = False

    def scheduler(self, survey: Any) -> Any:
        del survey
        return self

    def meet(self, point: Any) -> None:
        pass

    def draw(self, point: Any) -> int:
        name, _, number = point.label.partition("-")
        return 10 - int(number) if name == "lane" else 0

    def __repr__(self) -> str:
        return "Backwards()"


def test_a_failure_that_takes_more_than_a_plan_holds_names_the_schedule() -> None:
    says, paste, _ = failure(Backwards(), reversed_lanes).__notes__

    assert says.startswith("it takes 9 deviations: lane-1#1 +")
    assert paste == "more than a plan holds (8): repeat it with schedule=Backwards()"


def test_the_error_that_is_raised_is_that_of_the_run_that_the_plan_repeats() -> None:
    """The reduced run may fail elsewhere with the same kind of error: its words go with its plan."""

    async def main() -> None:
        order: list[str] = []

        async def lane(name: str) -> None:
            order.append(name)

        await asyncio.gather(*(lane(name) for name in "abc"))
        assert order == ["a", "b", "c"], "".join(order)

    for seed in range(30):
        if Trial(main).attempt(Seeded(seed, 0.5)).error is None:
            continue
        error = failure(Seeded(seed, 0.5), main)
        plan = Plan(error.__notes__[1].removeprefix('schedule=Plan("').removesuffix('")'))
        assert str(Trial(main).attempt(plan).error) == str(error)


def test_a_failure_of_another_kind_is_not_taken_for_it() -> None:
    async def main() -> None:
        order: list[str] = []

        async def lane(name: str) -> None:
            order.append(name)

        await asyncio.gather(*(lane(name) for name in "abcd"))
        if order[0] != "a":
            raise KeyError(order[0])
        assert order[1] == "b"

    kinds = set()
    for seed in range(40):
        outcome = Trial(main).attempt(Seeded(seed, 0.5))
        if outcome.error is not None:
            assert type(failure(Seeded(seed, 0.5), main)) is type(outcome.error)
            kinds.add(type(outcome.error))
    assert kinds == {KeyError, AssertionError}


def test_a_run_that_does_not_repeat_is_told_as_it_was() -> None:
    runs: list[int] = []

    async def once() -> None:
        runs.append(1)
        await asyncio.gather(asyncio.sleep(0), asyncio.sleep(0))
        if len(runs) == 1:
            raise ValueError("the first time")

    error = failure(Seeded(3, 1.0), once)

    assert str(error) == "the first time"
    assert error.__notes__[0].startswith("it takes ")


def test_pytest_fail_is_told_by_its_plan_as_well() -> None:
    async def main() -> None:
        order: list[str] = []

        async def lane(name: str) -> None:
            order.append(name)

        await asyncio.gather(lane("a"), lane("b"))
        if order != ["a", "b"]:
            pytest.fail("out of order")

    error = failure(Plan("lane-1#1 +1"), main)

    assert isinstance(error, pytest.fail.Exception)
    says = "it takes one deviation: lane-1#1 +1"
    assert error.__notes__ == [says, 'schedule=Plan("lane-1#1 +1")', hash_seed.describe()]


def test_a_plan_whose_place_is_gone_warns_at_the_callers_line() -> None:
    with pytest.warns(
        StalePlanWarning, match="the plan was not followed, never reached: gone#1 drop"
    ) as caught:
        run(race, Plan("client-1#1 +1; gone#1 drop"))

    assert caught[0].filename == __file__


def test_a_plan_that_is_followed_warns_of_nothing() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")

        outcome = run(race, Plan("main-1#1 +1") if _asked("main-1") else FIFO)

    assert outcome.unused == ()


def _asked(label: str) -> bool:
    return any(asked.label == label for asked in Trial(race).attempt(FIFO).survey)


def test_a_failing_plan_with_a_stale_entry_is_told_without_it() -> None:
    plan = failure(failing_seed(PCT)).__notes__[0].removeprefix("it takes one deviation: ")

    error = failure(Plan(f"{plan}; gone#1 drop"))

    assert error.__notes__[0] == f"it takes one deviation: {plan}"


def test_a_harm_that_has_no_place_fails() -> None:
    with pytest.raises(FaultNeverFired, match="'drop' was requested and can never fire"):
        run(race, FIFO, Faults((("drop", 0, 0),)))


def test_a_hint_is_tried_first_and_kept_for_the_next_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    tries: list[Plan] = []
    attempt = Trial.attempt

    def counts(self: Trial, schedule: Schedule, *args: Any, **kwargs: Any) -> Outcome:
        if isinstance(schedule, Plan):
            tries.append(schedule)
        return attempt(self, schedule, *args, **kwargs)

    monkeypatch.setattr(trial.Trial, "attempt", counts)
    schedule = failing_seed(lambda seed: Seeded(seed, 0.8))
    first = Trial(race)
    with pytest.raises(AssertionError):
        first.run(schedule, NO_FAULTS, repr)
    without = len(tries)
    tries.clear()
    second = Trial(race, hint=first.hint)

    with pytest.raises(AssertionError):
        second.run(schedule, NO_FAULTS, repr)

    assert tries[0] == first.hint == second.hint
    assert len(tries) < without


def test_an_assumption_that_fails_is_not_reduced() -> None:
    runs: list[int] = []

    @settings(max_examples=20, database=None)
    @given(st.integers(0, 3), st.integers(0, 1000))
    def law(n: int, seed: int) -> None:
        async def main() -> None:
            runs.append(1)
            await asyncio.gather(asyncio.sleep(0), asyncio.sleep(0))
            assume(n > 0)

        run(main, Seeded(seed, 1.0))

    law()

    assert len(runs) < 100


def test_a_failure_whose_runs_hypothesis_ends_is_told_as_it_was() -> None:
    """A program that draws while it runs may have drawn all that there is before it is reduced."""
    runs: list[int] = []

    async def draws() -> None:
        runs.append(1)
        await asyncio.gather(asyncio.sleep(0), asyncio.sleep(0))
        if len(runs) == 1:
            raise ValueError("the first time")
        raise StopTest(0)

    error = failure(Seeded(3, 1.0), draws)

    assert str(error) == "the first time"
    assert error.__notes__[0].startswith("it takes ")


def test_runs_of_one_program_share_what_made_it_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = 0

    def counted(*args: Any, **kwargs: Any) -> Outcome:
        nonlocal runs
        runs += 1
        return attempt(*args, **kwargs)

    schedule = failing_seed(lambda seed: Seeded(seed, 0.5))
    monkeypatch.setattr(trial, "attempt", counted)
    took = []
    for _ in range(2):

        async def main() -> None:
            await race()

        runs = 0
        with pytest.raises(AssertionError) as raised:
            run(main, schedule)
        took.append(runs)
        assert raised.value.__notes__[0].startswith("it takes one deviation")

    assert took[1] == 2 < took[0]
