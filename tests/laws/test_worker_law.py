"""A worker concludes every permit once, with the bits of the serial computation, whatever comes in between."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import actorflow as af
from actorflow import sim
from actorflow.coord.actors import worker
from actorflow.coord.actors.batch_reader import BatchReader
from actorflow.coord.actors.contribution_pipeline import ContributionPipeline
from actorflow.coord.actors.replica import Replica
from actorflow.coord.actors.worker import AwaitEnd, Worker, WorkerDone
from actorflow.coord.rules import worker_state
from actorflow.coord.rules.messages import Computed, Exhausted, Heartbeat, Missed, Stored
from actorflow.coord.rules.worker_state import WorkerState
from actorflow.sim.engine.schedulers import Schedule
from actorflow.sim.engine.simulate import Main
from actorflow.training.batches import opening
from tests.coord.counterparts import BEAT_S, Chief, Net, Shard, Turn, version_of
from tests.coord.replicas import executor
from tests.support.faults import planted
from tests.support.strategies import LIMITS, examples, plan_of_the_fault

delays = st.tuples(*[st.sampled_from([0.0, 0.0, 0.3, 3.0])] * 2)
turns_drawn = st.lists(
    st.builds(
        Turn,
        index=st.integers(0, 4),
        ahead=st.sampled_from([(0, 0), (0, 0), (0, 1), (1, 0), (1, 1)]),
        pull_s=delays,
        keep_s=delays,
        refuses=st.sampled_from([None, None, None, 0, 1]),
        then=st.sampled_from(["wait", "wait", "next", "drop", "fence", "twice", "old"]),
        then_s=st.sampled_from([0.0, 0.2, 0.4, 2.0, 5.0]),
    ),
    min_size=1,
    max_size=5,
)


def judged(turns: list[Turn], *, fresh: bool = True, awaits: bool = False, signals: bool = False) -> Main:
    """Lets a worker go through the turns, and judges what it did."""

    async def main() -> None:
        net = Net()
        serial = await net.serial(turns)
        chief = Chief(turns, signals=signals)
        shards = [Shard(turns, k, net.held[k]) for k in range(2)]

        done = await played(net, chief, shards, fresh=fresh, awaits=awaits)

        judge_conclusions(chief, done)
        for number, turn in enumerate(turns, 1):
            late = fresh and turn.ahead != (0, 0)
            kept = [[c for c in shard.kept if c.number == number] for shard in shards]
            judge_contributions(turn, number, net.trained, kept, serial[number], late=late)
            for conclusion in chief.conclusions()[number]:
                judge_conclusion(turn, conclusion, kept, serial[number][0], late=late)

    return main


async def played(net: Net, chief: Chief, shards: list[Shard], *, fresh: bool, awaits: bool) -> WorkerDone:
    """Lets a worker go through the turns, to the end, and looks whether it is still then."""

    async def read(epoch: int) -> AsyncIterator[Any]:
        for feeds in net.batches:
            await asyncio.sleep(0)
            yield feeds

    async with af.ActorSystem(name="system") as system:
        runs = executor(net.graph, system)
        refs = [system.spawn(lambda s=s: s, name=f"shard{k}") for k, s in enumerate(shards)]
        coordinator = system.spawn(lambda: chief, name="chief")
        replica = Replica(net.graph, net.loss, (), net.train, runs, system)
        supply = BatchReader(read if awaits else lambda _: net.batches, opening(system.clock, 0))
        ref = system.spawn(Worker, replica, supply, coordinator, refs, "here", fresh, name="worker")
        done: WorkerDone = await ref.ask(AwaitEnd(), 1000.0)
        await asyncio.sleep(0.1)
        heard = len(chief.heard)
        await asyncio.sleep(50.0)
        assert heard == len(chief.heard), "nothing is said after the end"
        await system.stop(ref)
        await runs.close()
    return done


def judge_conclusions(chief: Chief, done: WorkerDone) -> None:
    """Every permit has been concluded once; the last may have ended with the run."""
    conclusions = chief.conclusions()
    assert chief.number == len(chief.turns)
    for number, found in conclusions.items():
        assert len(found) == 1 or (number == chief.number and not found), (number, found)
    said = [message for found in conclusions.values() for message in found]
    assert done.error is None
    assert done.computed == done.accepted == sum(isinstance(m, Computed) for m in said)
    assert done.missed == sum(isinstance(m, Missed) for m in said)
    beats = [message for message in chief.heard if isinstance(message, Heartbeat)]
    assert beats
    assert all(0 <= beat.number <= chief.number for beat in beats)


def judge_contributions(
    turn: Turn, number: int, trained: Any, kept: list[Any], serial: tuple[float, Any], *, late: bool
) -> None:
    """What each shard got is what the serial computation gives, of its own variables, once."""
    for contributions, names in zip(kept, trained, strict=True):
        assert len(contributions) <= 1
        for contribution in contributions:
            assert not late
            assert turn.index < 3
            assert contribution.base == version_of(number) + min(turn.ahead)
            assert set(contribution.gradients) == set(names)
            for name, value in contribution.gradients.items():
                assert value.tobytes() == serial[1][name].tobytes()


def judge_conclusion(turn: Turn, conclusion: Any, kept: list[Any], loss: float, *, late: bool) -> None:
    """What is said of a permit is so."""
    match conclusion:
        case Computed(number=number, base=base, scalars=scalars):
            assert all(kept), "all shards keep what was computed"
            assert turn.refuses is None
            assert (base, scalars) == (version_of(number) + min(turn.ahead), (loss,))
        case Exhausted(size=size):
            assert (turn.index >= 3, size) == (True, 3)
        case Missed(error=error):
            assert error is None
            assert turn.then in ("next", "drop", "fence") or late or turn.refuses is not None


@settings(max_examples=examples(100), deadline=None)
@given(
    turns=turns_drawn,
    fresh=st.booleans(),
    awaits=st.booleans(),
    signals=st.booleans(),
    schedule=sim.schedules(),
)
def test_every_permit_is_concluded_once_and_with_the_bits_of_the_serial_computation(
    turns: list[Turn], fresh: bool, awaits: bool, signals: bool, schedule: Schedule
) -> None:
    sim.run(judged(turns, fresh=fresh, awaits=awaits, signals=signals), schedule, limits=LIMITS)


# -- faults that it finds --------------------------------------------------------------------------


@pytest.mark.usefixtures("only_the_law")
def test_the_law_finds_work_that_goes_on_under_a_permit_of_old(monkeypatch: pytest.MonkeyPatch) -> None:
    @planted(monkeypatch, WorkerState, "_drop_work")
    def going_on(dropped: Any, self: WorkerState) -> Any:
        return dropped(self)[1:]

    monkeypatch.setattr(
        WorkerState, "conclude", lambda state, message: (worker_state.TellCoordinator(message),)
    )

    assert len(plan_of_the_fault(judged([Turn(pull_s=(0.3, 0.0), then="next"), Turn()]))) == 0


@pytest.mark.usefixtures("only_the_law")
def test_the_law_finds_a_worker_that_drops_a_permit_in_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    @planted(monkeypatch, WorkerState, "_drop_work")
    def silent(dropped: Any, self: WorkerState) -> Any:
        return dropped(self)[:1]

    plan_of_the_fault(judged([Turn(pull_s=(0.3, 0.0), then="next"), Turn()]), most=2)


def test_the_law_finds_gradients_of_parameters_that_have_moved_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_state, "base_of", lambda permit, versions, fresh: permit.version)

    assert len(plan_of_the_fault(judged([Turn(ahead=(0, 1)), Turn()]))) == 0


def test_the_law_finds_a_step_that_is_numbered_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then dropout draws something else than the serial computation does."""
    begin = Replica.begin
    monkeypatch.setattr(Replica, "begin", lambda self, number, batch: begin(self, 1, batch))

    assert len(plan_of_the_fault(judged([Turn(), Turn()]))) == 0


def test_the_law_finds_a_worker_that_tells_before_all_shards_keep(monkeypatch: pytest.MonkeyPatch) -> None:
    @planted(monkeypatch, ContributionPipeline, "_contribute")
    async def hasty(contributed: Any, self: ContributionPipeline, shard: Any, *rest: Any) -> Any:
        return Stored(0) if shard is not self._shards[0] else await contributed(self, shard, *rest)

    plan_of_the_fault(judged([Turn(), Turn()]), most=2)


def test_the_law_finds_a_worker_that_beats_after_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    def beating(self: Worker) -> None:
        self._coordinator.signal(Heartbeat(0, 1, 0))
        self.after(BEAT_S, worker._Alive())

    monkeypatch.setattr(Worker, "_heartbeat", beating)

    assert len(plan_of_the_fault(judged([Turn()]))) == 0
