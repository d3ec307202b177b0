from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from actorflow import sim
from actorflow.actors.ask import Accounts, Ask
from actorflow.actors.timer_wheel import TimerWheel
from actorflow.errors import ActorDied, InternalError
from actorflow.sim.engine.choice import Choices
from actorflow.sim.engine.event_loop import SimLoop
from actorflow.sim.engine.turn_order import Order
from tests.support.strategies import examples


class AskMachine(RuleBasedStateMachine):
    """Answers, errors, deadlines and cancellations in any order: each ask ends once, by the first."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = SimLoop(Order(Choices(sim.FIFO.scheduler())))
        self.wheel = TimerWheel(self.loop, self.loop)
        self.accounts = Accounts()
        self.target: Any = SimpleNamespace(
            name="target",
            system=SimpleNamespace(accounts=self.accounts),
            withdraw=lambda ask: self.withdrawn.append(ask),
            obstacle=lambda: "it is busy",
            died=lambda message: ActorDied("dead"),
        )
        self.withdrawn: list[Ask] = []
        self.asks: list[Ask] = []
        self.ends: dict[Ask, str] = {}
        self.late = 0

    @rule()
    def issue(self) -> None:
        ask = Ask("question", 0, self.loop.create_future(), self.target, None, 0.0, 1.0)
        self.accounts.sent += 1
        self.wheel.add(1.0, ask)
        self.asks.append(ask)

    def _end(self, at: int, how: str) -> tuple[Ask, bool]:
        ask = self.asks[at % len(self.asks)]
        first = ask not in self.ends
        self.ends.setdefault(ask, how)
        return ask, first

    @precondition(lambda self: self.asks)
    @rule(at=st.integers(0, 30))
    def answer(self, at: int) -> None:
        ask, first = self._end(at, "replied")
        self.late += not first
        ask.done("answer")

    @precondition(lambda self: self.asks)
    @rule(at=st.integers(0, 30))
    def answer_with_an_error(self, at: int) -> None:
        ask, first = self._end(at, "failed")
        self.late += not first
        assert ask.failed(ValueError("no")) is first

    @precondition(lambda self: self.asks)
    @rule(at=st.integers(0, 30))
    def cancel(self, at: int) -> None:
        self._end(at, "cancelled")[0].cancel()

    @precondition(lambda self: self.asks)
    @rule(at=st.integers(0, 30))
    def cancel_the_task_and_answer_before_it_runs(self, at: int) -> None:
        ask, first = self._end(at, "cancelled")
        ask.future.cancel()
        self.late += 1
        ask.done("too late")
        del first

    @precondition(lambda self: self.asks)
    @rule(at=st.integers(0, 30))
    def pass_the_deadline(self, at: int) -> None:
        ask = self.asks[at % len(self.asks)]
        if ask.bucket is not None:
            del ask.bucket[ask]
            ask.bucket = None
            self.ends[ask] = "timed_out"
            ask.expire()

    @invariant()
    def the_books_agree(self) -> None:
        ends = list(self.ends.values())
        books = self.accounts
        assert books.issued == len(self.asks)
        for how in ("replied", "failed", "timed_out", "cancelled"):
            assert getattr(books, how) == ends.count(how)
        assert books.open == len(self.asks) - len(ends)
        assert books.late == self.late

    @invariant()
    def ended_asks_have_left_the_wheel_and_wake_their_asker(self) -> None:
        assert set(self.wheel.entries()) == {ask for ask in self.asks if ask not in self.ends}
        assert all(ask.future.done() == (ask in self.ends) for ask in self.asks)

    def teardown(self) -> None:
        for ask in self.asks:
            ask.cancel()
        self.accounts.check()
        self.wheel.close()
        self.loop.close()


AskMachine.TestCase.settings = settings(max_examples=examples(100), stateful_step_count=30, deadline=None)
TestAskMachine = AskMachine.TestCase


def test_open_asks_are_an_internal_error_with_the_books_in_it() -> None:
    books = Accounts()
    books.sent, books.answered, books.late = 3, 2, 1

    with pytest.raises(InternalError) as caught:
        books.check()

    assert str(caught.value) == (
        "every ask must end exactly once, got "
        "3 issued = 2 replied + 0 failed + 0 timed out + 0 cancelled (1 late)"
    )


def test_cancelling_an_ask_takes_it_out_of_the_line() -> None:
    machine = AskMachine()
    machine.issue()

    machine.asks[0].cancel()

    assert machine.withdrawn == machine.asks
    machine.teardown()
