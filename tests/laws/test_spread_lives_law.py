"""Processes come and go at any moment of a step: it has its value or says who was lost, and the next has its value."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import actorflow as af
from actorflow import errors, sim
from actorflow.dataflow.remote.runner import Lost
from actorflow.session.distributed import DistributedBackend
from actorflow.session.plan_cache import PlanCache
from actorflow.sim.engine.schedulers import Schedule
from tests.support.spreading import SCOPES, Cluster, spread
from tests.support.strategies import LIMITS, examples
from tests.support.turns import turns


class Change(NamedTuple):
    """What happens to a process: after some turns it is gone, and after some more it is back.

    Attributes:
        restarts: Whether it comes back as another life; else the link was down, and the same one is there.
        told: Whether the session hears of the loss before it hears of the return.
    """

    process: str
    before: int
    after: int
    restarts: bool
    told: bool


changes = st.builds(
    Change,
    process=st.sampled_from(["p1", "p2"]),
    before=st.integers(0, 40),
    after=st.integers(0, 8),
    restarts=st.booleans(),
    told=st.booleans(),
)


class Weights:
    """`w` at p1, `v` at p2, whose first value is made of that of `w`; and steps that need one or both."""

    def __init__(self) -> None:
        with af.Graph(seed=1) as self.graph:
            self.x = x = af.placeholder("float32", (), name="x")
            with af.device(SCOPES[1]):
                w = af.Variable(np.float32(3), name="w")
                near = w.read() * x
            with af.device(SCOPES[2]):
                v = af.Variable(w.read() + np.float32(1), name="v")
                far = v.read() * x
            both = near + far
        self.expected = {near: 6.0, far: 8.0, both: 14.0}

    async def judged(self, cluster: Cluster, happens: Sequence[Change]) -> int:
        """Returns how many of the steps that ran meanwhile have their values."""
        session, feeds = cluster.session, {self.x: np.float32(2)}
        running = {
            asyncio.create_task(session.run(fetch, feeds)): value
            for _ in range(2)
            for fetch, value in self.expected.items()
        }
        lives = {"p1": 1, "p2": 1}
        for change in happens:
            await turns(change.before)
            await self.change(cluster, change, lives)
        results: list[Any] = await asyncio.gather(*running, return_exceptions=True)
        for result, value in zip(results, running.values(), strict=True):
            assert isinstance(result, errors.PeerLost) or result == value, results
        for fetch, value in self.expected.items():
            assert float(await session.run(fetch, feeds)) == value
        await cluster.check_empty()
        plans = session.stats().plans
        assert all(len(runner.parts) <= plans for runner in cluster.runners.values())
        return sum(not isinstance(result, errors.PeerLost) for result in results)

    async def change(self, cluster: Cluster, change: Change, lives: dict[str, int]) -> None:
        process, lost = change.process, errors.PeerLost(f"{change.process!r} is gone")
        if change.told or not change.restarts:
            cluster.session.lost(process, lost)
        if change.restarts:
            for name in cluster.runners:
                if name != process:
                    cluster.refs[f"{name}/runner"].signal(Lost(process, lost))
            old = cluster.refs[f"{process}/runner"]
            lives[process] += 1
            cluster.start(process, lives[process])
            await turns(change.after if change.told else 0)
            cluster.session.joined(process, lives[process])
            await cluster.system.stop(old)
        else:  # the link was down: both ends hear of it
            cluster.refs[f"{process}/runner"].signal(Lost("p0", errors.PeerLost("'p0' is gone")))
            await turns(change.after)
            cluster.session.joined(process, lives[process])


@settings(max_examples=examples(60), deadline=None)
@given(happens=st.lists(changes, min_size=1, max_size=3), schedule=sim.schedules())
def test_a_step_has_its_value_or_says_who_was_lost_and_the_next_has_its_value(
    happens: list[Change], schedule: Schedule
) -> None:
    weights = Weights()

    sim.run(spread(weights.graph, lambda c: weights.judged(c, happens)), schedule, limits=LIMITS)


def restarted(before: int) -> int:
    """Runs the steps with one restart of p1 after so many turns, in the plain order."""
    weights = Weights()
    happens = [Change("p1", before, 0, restarts=True, told=True)]
    found: int = sim.run(spread(weights.graph, lambda c: weights.judged(c, happens)), limits=LIMITS).result
    return found


def test_most_moments_of_a_restart_cost_no_step_and_some_do() -> None:
    kept = [restarted(before) for before in range(60)]

    assert min(kept) < 6
    assert kept[0] == kept[-1] == 6


def find_fault() -> None:
    weights = Weights()

    @settings(max_examples=400, deadline=None, database=None, derandomize=True, phases=(Phase.generate,))
    @given(happens=st.lists(changes, min_size=1, max_size=3), schedule=sim.schedules())
    def law(happens: list[Change], schedule: Schedule) -> None:
        sim.run(spread(weights.graph, lambda c: weights.judged(c, happens)), schedule, limits=LIMITS)

    law()


def test_the_law_finds_a_first_value_that_counts_though_its_life_is_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def trusting(self: DistributedBackend, process: str, error: errors.ActorflowError) -> None:
        self.steps.lost(process, error)

    monkeypatch.setattr(DistributedBackend, "lost", trusting)

    with pytest.raises((errors.UninitialisedError, AssertionError)):
        find_fault()


def test_the_law_finds_a_step_that_begins_with_a_plan_of_a_life_that_is_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def clear(self: PlanCache[Any]) -> None:
        self.known.clear()

    monkeypatch.setattr(PlanCache, "clear", clear)

    with pytest.raises((errors.StepAborted, AssertionError)):
        find_fault()
