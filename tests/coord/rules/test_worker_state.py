"""A worker's state against a model that only counts: each permit is concluded once, or the worker ends."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from actorflow.coord.rules import worker_state
from actorflow.coord.rules.messages import (
    Assignment,
    Batch,
    Computed,
    ContributionOutcome,
    Exhausted,
    Leave,
    Missed,
    Permit,
    RunEnded,
)
from actorflow.coord.rules.worker_state import (
    AbandonWork,
    BeginWork,
    FinishRun,
    TakeAssignment,
    TellCoordinator,
    WorkerState,
)
from actorflow.errors import ActorflowError, Fenced, ShardLost
from tests.support.faults import planted
from tests.support.strategies import examples


def permit(number: int, term: int = 1) -> Permit:
    return Permit(term, number, 0, number - 1, Batch(0, number - 1))


def seat(term: int = 1, life: int = 1) -> Assignment:
    return Assignment(term, 0, life, 1.0)


class Worked(RuleBasedStateMachine):
    """A coordinator of several terms, whose messages come late, twice and after their time."""

    def __init__(self) -> None:
        super().__init__()
        self.state = WorkerState()
        self.begun: list[tuple[int, int]] = []
        self.concluded: Counter[int] = Counter()
        self.at_work: int | None = None
        self.finished = 0
        self.joins = 1
        self.said_after = 0

    def obey(self, effects: tuple[worker_state.Effect, ...]) -> None:
        over = self.finished
        for effect in effects:
            assert not over, effect
            match effect:
                case BeginWork(given):
                    assert self.at_work is None
                    assert not self.begun or self.begun[-1] < (given.term, given.number)
                    self.begun.append((given.term, given.number))
                    self.at_work = given.number
                case AbandonWork(number):
                    assert self.at_work == number
                    self.at_work = None
                case TellCoordinator(Leave()):
                    pass
                case TellCoordinator(message):
                    assert not isinstance(message, Leave)
                    self.concluded[message.number] += 1
                    if self.at_work == message.number:
                        self.at_work = None
                case TakeAssignment():
                    self.joins += 1
                case FinishRun():
                    self.finished += 1

    @precondition(lambda self: self.joins)
    @rule(term=st.integers(1, 3))
    def takes_its_seat(self, term: int) -> None:
        self.joins = 0
        self.obey(self.state.assign(seat(term)))

    @rule(number=st.integers(1, 9), term=st.integers(1, 3))
    def is_permitted(self, number: int, term: int) -> None:
        held = self.state.held
        self.obey(self.state.permit(permit(3 * number + term, term)))
        if held is not None and self.state.held is not held:
            assert self.concluded[held.number] == 1

    @rule(number=st.integers(1, 30), accepted=st.booleans())
    def is_told(self, number: int, accepted: bool) -> None:
        work = self.state.work
        self.obey(self.state.take_outcome(ContributionOutcome(number, accepted, 1)))
        if work is not None and work.number == number and not accepted:
            assert self.at_work is None

    @rule(data=st.data())
    def concludes(self, data: Any) -> None:
        numbers = [number for _, number in self.begun]
        if not numbers:
            return
        number = data.draw(st.sampled_from(numbers))
        kind = data.draw(
            st.sampled_from([Computed(1, number, 0, 0), Missed(1, number, 0), Exhausted(1, number, 0, 0, 1)])
        )
        self.obey(self.state.conclude(kind))

    @rule()
    def is_given_up(self) -> None:
        self.obey(self.state.give_up())

    @rule(term=st.integers(0, 3), error=st.sampled_from([None, ShardLost("gone"), Fenced("given up")]))
    def hears_the_end(self, term: int, error: ActorflowError | None) -> None:
        counts = term >= self.state.term and not isinstance(error, Fenced)
        over = self.state.over
        self.obey(self.state.end(RunEnded(term, error)))
        assert self.state.over is (over or counts)

    @rule()
    def stops(self) -> None:
        self.obey(self.state.leave())

    @invariant()
    def every_permit_is_concluded_once(self) -> None:
        open_now = {n for _, n in self.begun if not self.concluded[n]}
        assert max(self.concluded.values(), default=0) <= 1
        assert self.finished == self.state.over
        if self.state.over:
            assert len(open_now) <= 1
            assert self.at_work is None
        else:
            assert open_now == (set() if self.at_work is None else {self.at_work})
            assert self.at_work == (None if self.state.work is None else self.state.work.number)

    @invariant()
    def it_works_in_its_seat_alone(self) -> None:
        assert self.state.work is None or (self.state.assignment is not None and not self.state.over)
        assert self.state.held is None or self.state.assignment is None


TestDuty = Worked.TestCase
TestDuty.settings = settings(max_examples=examples(150), stateful_step_count=30, deadline=None)


TRIED = settings(
    max_examples=2_000,
    stateful_step_count=30,
    deadline=None,
    database=None,
    derandomize=True,
    report_multiple_bugs=False,
)


def fails() -> None:
    with pytest.raises(AssertionError):
        run_state_machine_as_test(Worked, settings=TRIED)


def test_the_model_finds_a_conclusion_that_is_told_for_a_permit_of_old(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(WorkerState, "conclude", lambda state, message: (TellCoordinator(message),))

    fails()


def test_the_model_finds_a_permit_that_is_dropped_in_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    @planted(monkeypatch, WorkerState, "_drop_work")
    def silent(dropped: Any, self: WorkerState) -> Any:
        return dropped(self)[:1]

    fails()


# -- in words --------------------------------------------------------------------------------------


def after(*events: Any) -> tuple[WorkerState, tuple[worker_state.Effect, ...]]:
    """The worker's state after some events, and the effects of the last."""
    state = WorkerState()
    effects: tuple[worker_state.Effect, ...] = ()
    for event in events:
        match event:
            case Assignment():
                effects = state.assign(event)
            case Permit():
                effects = state.permit(event)
            case ContributionOutcome():
                effects = state.take_outcome(event)
            case RunEnded():
                effects = state.end(event)
            case _:
                effects = event(state)
    return state, effects


def test_a_newer_permit_ends_the_work_under_the_older_one() -> None:
    _, effects = after(seat(), permit(1), permit(2))

    assert effects == (AbandonWork(1), TellCoordinator(Missed(1, 1, 0)), BeginWork(permit(2)))


def test_a_permit_that_comes_twice_or_from_an_older_term_changes_nothing() -> None:
    assert after(seat(), permit(1), permit(1))[1] == ()
    assert after(seat(), permit(2), permit(1))[1] == ()
    assert after(seat(2), permit(5, term=1))[1] == ()
    assert after(seat(1), permit(5, term=2), permit(9, term=1))[1] == ()


def test_a_permit_that_comes_before_the_seat_waits_for_it() -> None:
    assert after(permit(1), permit(2))[1] == (TellCoordinator(Missed(1, 1, 0)),)
    assert after(permit(1), permit(2), permit(1))[1] == ()
    assert after(permit(1), permit(2), permit(1), seat())[1] == (BeginWork(permit(2)),)
    assert after(permit(1), seat(2))[1] == ()


def test_a_contribution_that_was_dropped_needs_no_more_work() -> None:
    dropped = ContributionOutcome(1, False, 3, "late")

    assert after(seat(), permit(1), dropped)[1] == (AbandonWork(1), TellCoordinator(Missed(1, 1, 0)))
    assert after(seat(), permit(1), ContributionOutcome(1, True, 3))[1] == ()
    assert after(seat(), permit(2), dropped)[1] == ()
    assert after(permit(1), dropped)[1] == (TellCoordinator(Missed(1, 1, 0)),)
    assert after(permit(1), dropped, seat())[1] == ()


def test_a_worker_that_is_fenced_concludes_and_takes_its_seat_anew() -> None:
    assert after(seat(), permit(1), WorkerState.give_up)[1] == (
        AbandonWork(1),
        TellCoordinator(Missed(1, 1, 0)),
        TakeAssignment(),
    )
    assert after(seat(), permit(1), RunEnded(1, Fenced("silent")))[1][-1] == TakeAssignment()
    assert after(seat(), WorkerState.give_up, WorkerState.give_up)[1] == ()
    assert after(seat(), WorkerState.give_up, seat(life=2), permit(2))[1] == (BeginWork(permit(2)),)


def test_an_end_of_an_older_term_is_none() -> None:
    state, effects = after(seat(2), permit(1, term=2), RunEnded(1))
    assert (state.over, effects) == (False, ())
    error = ShardLost("gone")
    state, effects = after(seat(2), permit(1, term=2), RunEnded(2, error))
    assert (state.over, effects) == (True, (AbandonWork(1), FinishRun(error)))


def test_who_leaves_says_so_once() -> None:
    assert after(seat(life=4), permit(1), WorkerState.leave)[1] == (
        AbandonWork(1),
        TellCoordinator(Leave(0, 4)),
        FinishRun(None),
    )
    assert after(WorkerState.leave)[1] == (FinishRun(None),)
    assert after(seat(), RunEnded(1), WorkerState.leave)[1] == ()


def test_the_base_is_the_oldest_version_and_none_when_it_is_late() -> None:
    now = permit(3)

    assert worker_state.base_of(now, [2, 2], fresh=True) == 2
    assert worker_state.base_of(now, [2, 3], fresh=True) is None
    assert worker_state.base_of(now, [4, 3], fresh=False) == 3
