"""How laws run under drawn schedules, how a law is shown to be able to fail, and how much is drawn."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias

import pytest
from hypothesis import Phase, given, settings

import actorflow as af
from actorflow import sim
from actorflow.sim.engine.choice import Asked, Scheduler
from actorflow.sim.engine.schedulers import Schedule
from actorflow.sim.engine.simulate import Limits, Main, attempt

Kinds: TypeAlias = type[BaseException] | tuple[type[BaseException], ...]

LIMITS = Limits(max_steps=20_000)
"""A law takes some hundred steps; what takes so many more does not end, and is told soon."""


def examples(n: int) -> int:
    """Returns how many examples the chosen profile asks of a law that by default draws `n`."""
    return max(1, n * settings().max_examples // 100)


def simulated(graph: af.Graph, body: Callable[[af.Session], Awaitable[Any]], **options: Any) -> Main:
    """Returns a program for `sim.run`: `body` in a session of its own, with one worker for slow kernels.

    `body` is called for every run, so what it keeps between its steps it makes itself; and it asserts
    itself, so that a failure is told by its plan.
    """
    options = {"threads": 1, **options}

    async def main() -> Any:
        result = None
        async with (
            af.ActorSystem(name="system") as system,
            af.Session(graph, system=system, **options) as session,
        ):
            result = await body(session)
        return result

    return main


def run_drawn(
    graph: af.Graph, schedule: Schedule, body: Callable[[af.Session], Awaitable[Any]], **options: Any
) -> Any:
    """Runs `body` in a session in the simulator, and returns what it returned."""
    return sim.run(simulated(graph, body, **options), schedule, limits=LIMITS).result


FOUND: dict[str, Any] = {
    "deadline": None,
    "database": None,
    "derandomize": True,
    "phases": (Phase.generate,),
    "report_multiple_bugs": False,
}
"""Settings of a law that is to find a planted fault, the same way every time: what it finds is not shrunk."""


class Surveyed:
    """A schedule that is given the points of a FIFO run, and so need not make one of its own each time."""

    needs_survey = False

    def __init__(self, schedule: Schedule, survey: Sequence[Asked]) -> None:
        self._schedule = schedule
        self._survey = survey

    def scheduler(self, survey: Sequence[Asked]) -> Scheduler:
        return self._schedule.scheduler(self._survey)


def plan_of_the_fault(
    main: Main, kind: Kinds = AssertionError, tries: int = 200, *, most: int | None = None
) -> sim.Plan:
    """Returns a plan under which `main` fails, of at most so many deviations if that is said.

    It fails the test when none of `tries` drawn schedules shows the failure, or none that is about so short:
    twice as many are borne, since what hypothesis draws depends on the modules that are loaded.

    A failing schedule is not shrunk as hypothesis would, which took most of the time of all planted faults:
    deviations are left out, and if too many are left the next drawn schedule is tried.
    """
    first = attempt(main, limits=LIMITS)
    if first.error is not None:
        with pytest.raises(kind):
            raise first.error
        return sim.Plan()
    shown: list[sim.Plan] = []

    def fails(schedule: Schedule) -> sim.Plan | None:
        outcome = attempt(main, schedule, limits=LIMITS)
        if outcome.error is not None:
            with pytest.raises(kind):
                raise outcome.error
        return outcome.plan if outcome.error is not None else None

    @settings(**FOUND, max_examples=tries)
    @given(schedule=sim.schedules())
    def law(schedule: Schedule) -> None:
        if shown and (most is None or len(shown[-1]) <= most):
            return
        plan = fails(Surveyed(schedule, first.survey))
        if plan is not None:
            shown.append(_shorter(plan, fails))

    law()
    assert shown, f"none of {tries} schedules shows the fault"
    assert most is None or len(shown[-1]) <= 2 * most, (
        f"no schedule is as short as {most}, got {min(map(len, shown))}"
    )
    return shown[-1]


def _shorter(plan: sim.Plan, fails: Callable[[Schedule], sim.Plan | None]) -> sim.Plan:
    """Returns the plan without the deviations that it does not take: half of them at once, then fewer."""
    needed = plan.deviations
    many = max(1, len(needed) // 2)
    while many:
        first = 0
        while first < len(needed):
            fewer = needed[:first] + needed[first + many :]
            if fails(sim.Plan.of(fewer)) is not None:
                needed = fewer
            else:
                first += many
        many //= 2
    plan = sim.Plan.of(needed)
    assert fails(plan) is not None, f"{plan!r} does not repeat what it came of"
    return plan
