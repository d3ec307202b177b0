"""A worker takes its assignment, works, and leaves; and says what went wrong."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import actorflow as af
from actorflow import errors, sim
from actorflow.coord.actors.worker import AwaitEnd, Worker, WorkerDone
from actorflow.coord.rules.messages import (
    Batch,
    Computed,
    ContributionOutcome,
    Exhausted,
    Heartbeat,
    Join,
    Leave,
    Missed,
    Permit,
    Refused,
    Rejected,
    RunEnded,
)
from actorflow.runtime.messages import Terminated
from actorflow.sim.engine.schedulers import Schedule
from tests.coord.counterparts import Turn
from tests.coord.crew import Computes, Crew, Listens, Steps, Supplies, crewed
from tests.support.faults import planted
from tests.support.strategies import LIMITS, examples


def test_it_joins_computes_and_hears_the_receipt() -> None:
    async def body(crew: Crew) -> WorkerDone:
        assert repr(crew.actor) == "<Worker 'here', idle>"
        await crew.permit(1, 2)
        await crew.worker.tell(ContributionOutcome(1, True, 11))
        await crew.worker.tell(RunEnded(1))
        done = await crew.ended()
        assert crew.chief.said() == [Join("here"), Computed(1, 1, 2, 10, (0.5, 2.0), (10, 10))]
        assert crew.computes.given == [(1, {"w": pytest.approx(1.1), "b": pytest.approx(2.2)}, {"x": 2})]
        assert [list(c.gradients) for s in crew.shards for c in s.kept] == [["w"], []]
        assert (crew.supplies.ahead, crew.supplies.closed) == (1, 1)
        assert repr(crew.actor) == "<Worker 'here', over>"
        return done

    assert crewed(body) == WorkerDone(None, computed=1, accepted=1, missed=0)


def test_it_beats_while_it_computes_and_says_at_what() -> None:
    async def body(crew: Crew) -> list[tuple[float, int]]:
        await crew.permit(1, for_s=3.4)
        await crew.system.stop(crew.worker)
        return [(round(t), m.number) for t, m in crew.chief.heard if isinstance(m, Heartbeat)]

    assert crewed(body, computes=Computes(2.5)) == [(0, 0), (1, 1), (2, 1), (3, 0)]


def test_work_is_done_once_a_contribution() -> None:
    async def body(crew: Crew) -> None:
        for number in (1, 2):
            await crew.permit(number, for_s=2.0)
        assert [type(m) for m in crew.chief.said()] == [Join, Computed, Computed]
        assert worked == [1.0, 1.0]
        assert crew.chief.heard[2][0] >= 1.0

    worked: list[float] = []

    async def work() -> None:
        worked.append(1.0)
        await asyncio.sleep(1.0)

    crewed(body, work=work)


def test_it_says_how_long_an_epoch_is() -> None:
    async def body(crew: Crew) -> None:
        await crew.permit(1, 3)
        assert crew.chief.said(Exhausted) == [Exhausted(1, 1, 2, 0, 3)]
        assert crew.computes.given == []

    crewed(body)


def test_what_it_does_not_know_is_an_error() -> None:
    async def body(crew: Crew) -> None:
        with pytest.raises(errors.InternalError, match="takes permits, outcomes and the end, got str"):
            await crew.worker.ask("what")

    crewed(body)


def test_a_worker_without_shards_is_refused() -> None:
    with pytest.raises(errors.ConfigError, match="pulls from one shard or more, got none for 'here'"):
        Worker(Computes(), Supplies(), None, [], "here", True)  # type: ignore[arg-type]


# -- the seat --------------------------------------------------------------------------------------


def test_it_waits_for_a_coordinator_that_starts_late() -> None:
    async def main() -> None:
        async with af.ActorSystem(name="system") as system:
            late: Any = Late(system)
            worker = system.spawn(
                lambda: Worker(Computes(), Supplies(), late, [late], "here", True, join_s=20.0), name="worker"
            )
            await asyncio.sleep(3.0)
            late.chief = Listens()
            late.there = system.spawn(lambda: late.chief, name="chief")
            await asyncio.sleep(3.0)
            assert late.chief.said() == [Join("here")]
            assert 2 < late.tries < 12
            await system.stop(worker)

    sim.run(main, limits=LIMITS)


class Late:
    """The ref of an actor that need not be there yet."""

    name = "chief"

    def __init__(self, system: af.ActorSystem) -> None:
        self.system = system
        self.there: Any = None
        self.tries = 0

    def __getattr__(self, verb: str) -> Any:
        return getattr(self.there, verb)

    def watch(self, watcher: Any) -> None:
        if self.there is None:
            watcher.signal(Terminated("chief", errors.PeerLost("no such process")))

    async def ask(self, message: Any, deadline_s: float | None = None) -> Any:
        self.tries += 1
        if self.there is None:
            raise errors.PeerLost("no such process")
        return await self.there.ask(message, deadline_s)


def test_it_ends_when_nobody_gives_it_a_seat_in_time() -> None:
    async def main() -> None:
        async with af.ActorSystem(name="system") as system:
            late: Any = Late(system)
            began = system.now()
            worker = system.spawn(
                lambda: Worker(Computes(), Supplies(), late, [late], "here", True, join_s=5.0), name="worker"
            )
            done = await worker.ask(AwaitEnd(), 100.0)
            assert isinstance(done.error, errors.CoordinatorLost)
            assert "'here' got no seat from the coordinator within 5 s" in str(done.error)
            assert isinstance(done.error.__cause__, errors.PeerLost)
            assert 4.9 <= system.now() - began <= 5.1

    sim.run(main, limits=LIMITS)


def test_it_ends_when_the_coordinator_will_not_have_it_or_the_run_is_over() -> None:
    full = errors.CoordinationError("all seats are taken")

    assert crewed(Crew.ended, seat=full).error.what == "all seats are taken"
    assert crewed(Crew.ended, seat=RunEnded(4, None)).error is None


def test_it_ends_when_the_coordinator_stops_without_a_word() -> None:
    async def body(crew: Crew) -> Any:
        await crew.permit(1)
        await crew.system.stop(crew.coordinator)
        done = await crew.ended()
        await asyncio.sleep(0.1)  # what it waits for has to end first
        assert crew.computes.at_work == 0
        return done

    done = crewed(body, computes=Computes(100.0))
    assert isinstance(done.error, errors.CoordinatorLost)
    assert "the coordinator of 'here' is gone: it was stopped" in str(done.error)


def test_an_end_that_the_notice_of_its_death_overtakes_counts() -> None:
    async def body(crew: Crew) -> Any:
        crew.worker.signal(Terminated("chief", None))
        await asyncio.sleep(0.1)
        await crew.worker.tell(RunEnded(1, errors.QuorumLost("too few")))
        return await crew.ended()

    assert isinstance(crewed(body).error, errors.QuorumLost)


def test_cut_off_from_the_coordinator_it_takes_its_seat_anew() -> None:
    async def body(crew: Crew) -> None:
        await crew.permit(1)
        crew.worker.signal(Terminated("chief", errors.PeerLost("silent for 3 s")))
        await asyncio.sleep(0.5)
        assert crew.computes.at_work == 0
        await crew.permit(2)
        assert crew.computes.at_work == 1
        assert crew.chief.said() == [Join("here"), Missed(1, 1, 2), Join("here")]
        assert [m.incarnation for m in crew.chief.said(Heartbeat)][-1] == 2

    crewed(body, computes=Computes(100.0))


@pytest.mark.parametrize("word", [Refused(0, "fenced"), RunEnded(1, errors.Fenced("silent for 3 s"))])
def test_fenced_it_takes_its_seat_anew(word: Any) -> None:
    async def body(crew: Crew) -> None:
        crew.worker.signal(word)
        await asyncio.sleep(0.5)
        await crew.permit(1)
        assert [type(m) for m in crew.chief.said()] == [Join, Join, Computed]

    crewed(body)


def test_a_stopped_worker_takes_its_leave() -> None:
    async def body(crew: Crew) -> None:
        await crew.permit(1)
        await crew.system.stop(crew.worker)
        await asyncio.sleep(0.1)
        assert (crew.computes.at_work, crew.supplies.closed) == (0, 1)
        assert crew.chief.said() == [Join("here"), Leave(2, 1)]

    crewed(body, computes=Computes(100.0))


def test_a_worker_that_is_over_says_nothing_when_it_is_stopped() -> None:
    async def body(crew: Crew) -> None:
        await crew.worker.tell(RunEnded(1))
        await crew.ended()
        await crew.system.stop(crew.worker)
        await asyncio.sleep(0.1)
        assert crew.chief.said() == [Join("here")]
        assert crew.supplies.closed == 2

    crewed(body)


# -- what goes wrong under a permit ----------------------------------------------------------------


def missed(**options: Any) -> Any:
    """The error of the one permit that comes to nothing; the worker goes on."""

    async def body(crew: Crew) -> Any:
        await crew.permit(1, for_s=200.0)
        (said,) = crew.chief.said(Missed, Computed)
        assert isinstance(said, Missed)
        crew.computes.error = crew.supplies.error = None
        await crew.worker.tell(RunEnded(1))
        assert (await crew.ended()).missed == 1
        return said.error

    return crewed(body, **options)


def test_what_the_step_raises_is_told() -> None:
    error = errors.NumericError("the loss must stay finite, got nan")

    told = missed(computes=Computes(error=error))

    assert isinstance(told, errors.NumericError)
    assert told.what == f"{error.what}; 'here' computed it of batch 0 of epoch 0"


def test_what_the_batches_raise_is_told() -> None:
    error = errors.InputError("no such file")

    assert missed(supplies=Supplies(error=error)) is error


def test_what_is_no_error_of_ours_is_told_as_one() -> None:
    told = missed(computes=Computes(error=ZeroDivisionError("by zero")))

    assert isinstance(told, errors.CoordinationError)
    assert "'here' failed at its contribution: ZeroDivisionError: by zero" in str(told)
    assert isinstance(told.__cause__, ZeroDivisionError)


def test_a_timeout_of_the_users_is_no_end_of_the_permit() -> None:
    told = missed(computes=Computes(error=TimeoutError("mine")))

    assert "TimeoutError: mine" in str(told)


def test_a_shard_that_does_not_answer_in_time_is_lost_to_it() -> None:
    told = missed(turn=Turn(pull_s=(0.0, 500.0)), answer_s=3.0)

    assert isinstance(told, errors.ShardLost)
    assert "shard 'shard1' gave no answer to Pull" in str(told)
    assert isinstance(told.__cause__, errors.DeadlinePassed)


def test_a_shard_that_has_stopped_is_lost_to_it() -> None:
    async def body(crew: Crew) -> Any:
        await crew.system.stop(crew.shard_refs[0])
        await crew.permit(1)
        (said,) = crew.chief.said(Missed)
        return said.error

    told = crewed(body)
    assert isinstance(told, errors.ShardLost)
    assert "shard 'shard0' gave no answer to Pull" in str(told)


def test_a_contribution_that_one_shard_refuses_is_missed_without_waiting_for_the_others() -> None:
    async def body(crew: Crew) -> None:
        await crew.permit(1, for_s=0.5)
        assert crew.chief.said(Missed) == [Missed(1, 1, 2)]

    crewed(body, turn=Turn(keep_s=(50.0, 0.0), refuses=1))


@pytest.mark.parametrize(
    ("values", "where"), [(({"b": 1.0}, {"c": 1.0}), "none"), (({"w": 1.0}, {"w": 1.0}), "shard0, shard1")]
)
def test_a_variable_that_is_not_on_one_shard_is_told(values: Any, where: str) -> None:
    told = missed(values=tuple({n: np.float32(v) for n, v in held.items()} for held in values))

    assert f"a trained variable is on one shard, 'w' is on {where}" in str(told)


# -- stopped at any moment -------------------------------------------------------------------------


def stopped(turns: int, times: tuple[float, ...], computes: Computes) -> Any:
    """Stops the worker when the loop has come round so often; another one takes its place."""

    async def body(crew: Crew) -> None:
        await crew.worker.tell(Permit(1, 1, 2, 10, Batch(0, 0)))
        for _ in range(turns):
            await asyncio.sleep(0)
        await asyncio.sleep(times[0] / 2)
        await crew.system.stop(crew.worker)
        assert computes.at_work == 0
        assert crew.system.stats().open_asks == 0
        await asyncio.sleep(0.1)  # what it said before its end may still be in the coordinator's mailbox
        before = [type(m) for m in crew.chief.said()]
        assert before in ([Join, Leave], [Join, Computed, Leave])
        crew.worker = crew.system.spawn(crew._make, name="worker")
        await asyncio.sleep(0.1)
        await crew.permit(2, 1, for_s=2.0)
        assert [type(m) for m in crew.chief.said()] == [*before, Join, Computed]

    return body


@settings(max_examples=examples(100), deadline=None)
@example(turns=16, times=(0.0,) * 4, schedule=sim.Plan("chief#3 +2"))  # it ends before its last word is heard
@given(
    turns=st.integers(0, 25),
    times=st.tuples(*[st.sampled_from([0.0, 0.2])] * 4),
    schedule=sim.schedules(),
)
def test_a_worker_that_is_stopped_at_any_moment_leaves_nothing_behind_and_another_goes_on(
    turns: int, times: tuple[float, ...], schedule: Schedule
) -> None:
    computes = Computes(times[0])
    turn = Turn(pull_s=(times[1], 0.0), keep_s=(times[2], times[3]))

    crewed(stopped(turns, times, computes), schedule, computes=computes, turn=turn)


def test_the_law_finds_a_step_that_outlives_its_worker() -> None:
    class GoesOn(Steps):
        def cancel(self) -> None:
            """It does not."""

    class Outlives(Computes):
        def begin(self, number: int, batch: Any) -> Steps:
            return GoesOn(self, number, batch)

    computes = Outlives(0.2)
    with pytest.raises(AssertionError):
        crewed(stopped(5, (0.2,), computes), computes=computes)


def test_the_law_finds_a_worker_that_speaks_after_its_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    @planted(monkeypatch, Worker, "on_stop")
    async def speaks(leave: Any, self: Worker, reason: BaseException | None) -> None:
        await leave(self, reason)
        self._coordinator.put(Missed(1, 1, 0), self.system.nobody)

    with pytest.raises(AssertionError):
        crewed(stopped(5, (0.2,), Computes()))


def test_it_rests_as_long_as_it_is_told_and_asks_again_however_long_that_is() -> None:
    async def body(crew: Crew) -> list[float]:
        await asyncio.sleep(50.0)
        crew.chief.seat = None
        await asyncio.sleep(20.0)
        await crew.permit(1)
        assert len(crew.chief.said(Computed)) == 1
        await crew.worker.tell(RunEnded(1))
        assert (await crew.ended()).error is None
        return [at for at, message in crew.chief.heard if isinstance(message, Join)]

    asked = crewed(body, seat=Rejected(20.0), join_s=1.0)

    assert [round(at) for at in asked] == [0, 20, 40, 60]


def test_while_it_rests_it_hears_the_end() -> None:
    async def body(crew: Crew) -> Any:
        await crew.worker.tell(RunEnded(1))
        done = await crew.ended()
        await asyncio.sleep(100.0)
        return done.error, len(crew.chief.said(Join))

    assert crewed(body, seat=Rejected(20.0)) == (None, 1)
