"""How laws run under drawn schedules, how a law is shown to be able to fail, and how much is drawn."""

from __future__ import annotations

import ast
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from hypothesis import Phase, given, settings

import actorflow as af
from actorflow import sim
from actorflow.sim.choosers import Schedule
from actorflow.sim.simulate import Limits, Main

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


def plan_of_the_fault(main: Main, kind: type[BaseException] = AssertionError, tries: int = 200) -> sim.Plan:
    """Returns the plan to which hypothesis shrinks a failure of `main`; run again, it fails the same way.

    It fails the test when none of `tries` drawn schedules shows the failure.
    """

    @settings(
        max_examples=tries,
        deadline=None,
        database=None,
        derandomize=True,
        phases=(Phase.generate, Phase.shrink),
        report_multiple_bugs=False,
    )
    @given(schedule=sim.schedules())
    def law(schedule: Schedule) -> None:
        sim.run(main, schedule, limits=LIMITS)

    with pytest.raises(kind) as caught:
        law()
    told = [note for note in caught.value.__notes__ if note.startswith("schedule=Plan(")]
    assert len(told) == 1, caught.value.__notes__
    plan = sim.Plan(ast.literal_eval(told[0].removeprefix("schedule=Plan(").removesuffix(")")))
    with pytest.raises(kind):
        sim.run(main, plan, limits=LIMITS)
    return plan
