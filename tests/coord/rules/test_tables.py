"""The tables of the state machines are whole, and their code takes no other event."""

from __future__ import annotations

from enum import Enum
from types import ModuleType
from typing import Any

import pytest

from actorflow.coord.rules import commit, lifecycle, membership, participant, worker_state
from actorflow.coord.rules.commit import CommitEvent, Commitment, CommitPhase
from actorflow.coord.rules.lifecycle import Lifecycle, RunEvent, RunPhase
from actorflow.coord.rules.membership import MemberEvent, MemberState
from actorflow.coord.rules.participant import Participant, ShardEvent, ShardPhase
from actorflow.coord.rules.worker_state import WorkerEvent, WorkerPhase, WorkerState
from actorflow.errors import InternalError

MACHINES: dict[ModuleType, tuple[type[Enum], type[Enum]]] = {
    commit: (CommitPhase, CommitEvent),
    lifecycle: (RunPhase, RunEvent),
    membership: (MemberState, MemberEvent),
    participant: (ShardPhase, ShardEvent),
    worker_state: (WorkerPhase, WorkerEvent),
}
machines = pytest.mark.parametrize("module", MACHINES, ids=lambda module: module.__name__.rpartition(".")[2])


@machines
def test_every_state_is_reached_from_the_first_and_every_event_matters(module: ModuleType) -> None:
    states, events = MACHINES[module]
    reached = {next(iter(states))}
    for _ in states:
        reached |= {after for (before, _), after in module.TRANSITIONS.items() if before in reached}

    assert reached == set(states)
    assert {event for _, event in module.TRANSITIONS} == set(events)


@pytest.mark.parametrize(
    ("machine", "event"),
    [
        (Commitment(1, 2), CommitEvent.ALL_STAGED),
        (Lifecycle(), RunEvent.ENOUGH),
        (Participant(0), ShardEvent.APPLY),
        (WorkerState(), WorkerEvent.CONCLUDE),
    ],
    ids=lambda each: type(each).__name__,
)
def test_an_event_that_the_table_has_not_breaks_with_the_story(machine: Any, event: Any) -> None:
    machine.story.append(("before",))

    with pytest.raises(InternalError, match=f"knows no {event}") as raised:
        machine._move(event)

    assert raised.value.__notes__ == ["  story: before"]
