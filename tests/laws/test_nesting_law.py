"""Steps and actors that run and ask each other, drawn: every await ends, and alone only a real ring is refused."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import actorflow as af
from actorflow import sim
from actorflow.actors.system import ActorSystem
from actorflow.actors.waits import Blocked
from actorflow.dataflow.engine import step
from actorflow.dataflow.user import nested_steps
from actorflow.errors import AskCycle, Livelock
from actorflow.sim.engine.schedulers import FIFO, Schedule
from tests.support.strategies import examples, plan_of_the_fault

ENDLESS_S = 1e6
ACTORS = 3


@dataclass(frozen=True)
class Work:
    """A step, or a question to actor `who`; either does all of `inner`, one after the other or at once."""

    who: int | None
    inner: tuple[Work, ...] = ()
    at_once: bool = False


works = st.recursive(
    st.builds(Work, st.none() | st.integers(0, ACTORS - 1)),
    lambda inner: st.builds(
        Work,
        st.none() | st.integers(0, ACTORS - 1),
        st.lists(inner, min_size=1, max_size=2).map(tuple),
        st.booleans(),
    ),
    max_leaves=6,
)


def has_ring(work: Work, above: frozenset[int] = frozenset()) -> bool:
    """Whether an actor would be asked while it waits for that very answer."""
    if work.who in above:
        return True
    within = above if work.who is None else above | {work.who}
    return any(has_ring(inner, within) for inner in work.inner)


class Doer(af.Actor):
    def __init__(self, world: World) -> None:
        self.world = world

    async def receive(self, message: Any) -> Any:
        await self.world.inner(message)


class World:
    """A session and actors that do drawn work."""

    def __init__(self) -> None:
        self.session: Any = None
        self.actors: list[af.Ref] = []
        self.todo: list[Work] = []
        with af.Graph() as self.graph:
            self.number = af.placeholder("int64", (), name="number")

            async def code(number: Any) -> Any:
                await self.inner(self.todo[int(number)])
                return np.int64(number)

            self.step = af.py_actor(code, [self.number], af.Spec((), np.dtype("int64")))

    async def do(self, work: Work) -> None:
        if work.who is not None:
            await self.actors[work.who].ask(work, ENDLESS_S)
            return
        self.todo.append(work)
        await self.session.run(self.step, {self.number: np.int64(len(self.todo) - 1)})

    async def inner(self, work: Work) -> None:
        await asyncio.sleep(0)
        if work.at_once:
            ends = await asyncio.gather(*map(self.do, work.inner), return_exceptions=True)
            for end in ends:
                if isinstance(end, BaseException):
                    raise end
        else:
            for each in work.inner:
                await self.do(each)

    async def all(self, roots: tuple[Work, ...], max_steps: int) -> Any:
        async with ActorSystem() as system:
            self.actors = [system.spawn(Doer, self, name=f"doer{k}") for k in range(ACTORS)]
            async with af.Session(self.graph, system=system, max_steps=max_steps) as self.session:
                return await asyncio.gather(*map(self.do, roots), return_exceptions=True)


def ends(roots: tuple[Work, ...], max_steps: int, schedule: Schedule = FIFO) -> list[BaseException | None]:
    found: list[BaseException | None] = sim.run(lambda: World().all(roots, max_steps), schedule).result
    assert all(end is None or isinstance(end, AskCycle) for end in found), found
    return found


@settings(max_examples=examples(80), deadline=None)
@given(st.lists(works, min_size=1, max_size=3).map(tuple), st.integers(1, 3), sim.schedules())
def test_whatever_runs_and_asks_ends(roots: tuple[Work, ...], max_steps: int, schedule: Schedule) -> None:
    ends(roots, max_steps, schedule)


@settings(max_examples=examples(80), deadline=None)
@given(works, st.integers(1, 64))
def test_alone_what_is_no_ring_ends_well_and_what_is_one_is_refused(work: Work, max_steps: int) -> None:
    def in_order(work: Work) -> Work:
        return Work(work.who, tuple(map(in_order, work.inner)))

    (end,) = ends((in_order(work),), max_steps)

    assert (end is not None) == has_ring(work)


RING = Work(None, (Work(0, (Work(None, (Work(0),)),)),))
"""A step -> actor 0 -> a step -> actor 0."""


def test_the_law_finds_steps_that_are_no_part_of_the_graph_of_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step.Step, "blocked", lambda self: Blocked())

    plan_of_the_fault(lambda: World().all((RING,), 64), Livelock)


def test_the_law_finds_code_that_asks_in_nobodys_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nested_steps.Code, "enter", lambda self, context: None)

    plan_of_the_fault(lambda: World().all((RING,), 64), Livelock)
