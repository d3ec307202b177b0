"""A cluster of one worker trains as a local session does, bit for bit, wherever its variables lie."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import actorflow as af
from actorflow import sim
from actorflow.coord.rules.contribution_table import ContributionTable
from actorflow.coord.rules.policy import Policy
from actorflow.training.events import EpochDone, StepDone
from actorflow.training.trainer import train
from tests.cluster.policies import MANY, policies
from tests.cluster.programs import OPTIMIZERS, Task
from tests.cluster.training import in_world
from tests.support.faults import planted
from tests.support.strategies import examples

NAMES = ("table", "w", "b")
Told = list[tuple[str, int, int, float]]
"""Each update and each epoch: its kind, epoch, step and loss."""


def generated(batches: Sequence[Any]) -> Iterator[Any]:
    """Batches whose number nobody knows."""
    yield from batches


async def awaited(batches: Sequence[Any]) -> AsyncIterator[Any]:
    """Likewise, and each has to be awaited."""
    for batch in batches:
        await asyncio.sleep(0)
        yield batch


def piped(batches: Sequence[Any]) -> Any:
    """A pipeline that mixes them by a seed of its own."""
    return af.data.arrays(np.arange(len(batches))).shuffle(4, seed=3).map(lambda k: batches[int(k)])


SOURCES: tuple[Callable[[Sequence[Any]], Any], ...] = (list, generated, awaited, piped)


def told(events: Sequence[Any]) -> Told:
    """Returns what both kinds of run tell alike."""
    kinds = ((StepDone, "step"), (EpochDone, "epoch"))
    return [
        (name, event.epoch, event.step, event.loss)
        for event in events
        for kind, name in kinds
        if isinstance(event, kind)
    ]


async def locally(program: af.Program) -> tuple[Told, Any]:
    async with af.Session(program.graph) as session:
        events = [event async for event in train(program, session)]
        return told(events), [np.asarray(await session.run(name)).tobytes() for name in NAMES]


async def alone(world: sim.World, program: af.Program, policy: Policy, ps: int) -> tuple[Told, Any]:
    async with af.Cluster.simulated(program, ps=ps, workers=1, world=world) as cluster:
        events = [event async for event in af.Trainer(cluster, policy).run()]
        return told(events), [np.asarray(await cluster.run(name)).tobytes() for name in NAMES]


def check(task: Task, source: Callable[[Sequence[Any]], Any], policy: Policy, ps: int, schedule: Any) -> None:
    """Asserts that both runs tell the same losses, and end in the same bits."""
    expected = asyncio.run(locally(task.program(source)))
    program = task.program(source)
    found = in_world(ps, 1, lambda world: alone(world, program, policy, ps))(schedule=schedule)
    assert found == expected


@settings(max_examples=examples(40), deadline=None)
@given(
    rows=st.lists(st.integers(1, 3), min_size=1, max_size=5).map(tuple),
    optimizer=st.sampled_from(sorted(OPTIMIZERS)),
    sparse=st.booleans(),
    dropout=st.sampled_from([0.0, 0.5]),
    epochs=st.integers(1, 3),
    source=st.sampled_from(SOURCES),
    which=st.integers(0, MANY - 1),
    ps=st.integers(1, 3),
    schedule=sim.schedules(),
)
def test_one_worker_trains_as_a_session_does(
    rows: tuple[int, ...],
    optimizer: str,
    sparse: bool,
    dropout: float,
    epochs: int,
    source: Any,
    which: int,
    ps: int,
    schedule: Any,
) -> None:
    task = Task(rows, 3, optimizer, sparse, dropout, epochs)

    check(task, source, policies(1)[which], ps, schedule)


def test_the_law_finds_dropout_that_counts_by_permits(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was granted in vain, beyond the end of an epoch, would count."""

    @planted(monkeypatch, ContributionTable, "grant")
    def by_number(grant: Any, self: ContributionTable, *args: Any) -> Any:
        permit = grant(self, *args)
        return None if permit is None else type(permit)(**{**fields(permit), "step": permit.number})

    def fields(permit: Any) -> dict[str, Any]:
        return {name: getattr(permit, name) for name in permit.__slots__}

    with pytest.raises(AssertionError):
        check(Task(dropout=0.5, epochs=2), generated, policies(1)[0], 2, sim.FIFO)
