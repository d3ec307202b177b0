"""A shared name is one variable for all sessions, with one first value, until a reset makes it anew."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import actorflow as af
from actorflow import errors, sim
from actorflow.dataflow.engine.resources import InitialValue, Resources
from actorflow.dataflow.state.register import Register
from actorflow.dataflow.state.shared_names import Containers
from actorflow.sim.engine.schedulers import Schedule
from tests.support.faults import planted
from tests.support.strategies import LIMITS, examples, plan_of_the_fault

FIRST = 1 << 20  # more than all that is added


def shared(adds: list[int], reset: int | None = None) -> Any:
    """A program of one session for each entry, which adds so often; each has a first value of its own.

    Args:
        reset: The container is reset when the loop has come round so often.
    """

    async def adding(system: af.ActorSystem, k: int, count: int) -> list[int]:
        """Adds distinct powers of two one after the other, each in a session that opens and closes."""
        done = []
        for n in range(count):
            with af.Graph() as graph:
                w = af.Variable(np.int64((k + 1) * FIRST), name=f"mine{k}", shared_name="w")
                add = w.assign_add(np.int64(1 << (4 * k + n)))
            async with af.Session(graph, system=system, threads=1) as session:
                try:
                    await session.run(add)
                    done.append(1 << (4 * k + n))
                except errors.ActorDied:
                    assert reset is not None
        return done

    async def main() -> None:
        async with af.ActorSystem(name="system") as system:
            tasks = [asyncio.create_task(adding(system, k, count)) for k, count in enumerate(adds)]
            if reset is not None:
                for _ in range(reset):
                    await asyncio.sleep(0)
                await af.state.reset(system)
            done = [number for added in await asyncio.gather(*tasks) for number in added]
            with af.Graph() as graph:
                w = af.Variable(np.int64(FIRST), name="look", shared_name="w")
                look = [w.read(), w.version()]
            async with af.Session(graph, system=system, threads=1) as session:
                value, version = (int(v) for v in await session.run(look))
        first, added = value - value % FIRST, value % FIRST
        assert first // FIRST in range(1, len(adds) + 1), "it has the first value of one of them"
        assert version == 1 + added.bit_count(), "every add was applied to it, once"
        assert added & sum(done) == added
        assert reset is not None or added == sum(done)

    return main


@settings(max_examples=examples(40), deadline=None)
@given(
    adds=st.lists(st.integers(0, 3), min_size=1, max_size=3),
    reset=st.none() | st.integers(0, 40),
    schedule=sim.schedules(),
)
def test_sessions_share_one_variable_and_its_first_value(
    adds: list[int], reset: int | None, schedule: Schedule
) -> None:
    sim.run(shared(adds, reset), schedule, limits=LIMITS)


def test_the_law_finds_sessions_that_each_give_a_first_value(monkeypatch: pytest.MonkeyPatch) -> None:
    def initialise(self: Register, value: Any) -> bool:
        self.value, self.version = value, 1
        return True

    monkeypatch.setattr(Register, "initialise", initialise)
    monkeypatch.setattr(
        Resources, "first", lambda self, name: self._firsts.setdefault(name, InitialValue(name))
    )

    plan_of_the_fault(shared([1, 1]), most=2)


def test_the_law_finds_a_table_that_forgets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every session makes state of its own under the shared name."""

    @planted(monkeypatch, Containers, "open")
    def forgetful(found: Any, self: Containers[Any], definition: Any, *contents: Any) -> Any:
        held = found(self, definition, *contents)
        if held is not None and definition.name == "look":
            self.entries.clear()
            return None
        return held

    plan_of_the_fault(shared([2]), most=2)
