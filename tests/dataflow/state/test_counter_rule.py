from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from actorflow.dataflow.state.counter_rule import LARGEST, CounterRule
from actorflow.dataflow.state.replies import Replied
from actorflow.errors import OutOfRange
from tests.support.planting import find, plant
from tests.support.strategies import examples


def test_each_who_asks_gets_the_next_number() -> None:
    tally = CounterRule("c", 5)

    assert [tally.next(who)[0] for who in "ab"] == [Replied("a", 5), Replied("b", 6)]
    assert tally.read("r") == [Replied("r", 7)]


def test_at_its_limit_it_is_out_of_range_and_stays_there() -> None:
    tally = CounterRule("c", 1, 2)
    tally.next("a")

    for _ in range(2):
        with pytest.raises(OutOfRange, match="counter 'c' has reached its limit of 2"):
            tally.next("b")
    assert tally.value == 2


def test_without_a_limit_it_ends_where_int64_ends() -> None:
    tally = CounterRule("c", LARGEST - 1)
    tally.next("a")

    with pytest.raises(OutOfRange, match=str(LARGEST)):
        tally.next("b")


class TallyMachine(RuleBasedStateMachine):
    @initialize(start=st.integers(-3, 3), more=st.integers(0, 4))
    def begin(self, start: int, more: int) -> None:
        self.tally = CounterRule("c", start, start + more)
        self.left = list(range(start, start + more))
        self.all = list(self.left)
        self.end = start + more

    @rule()
    def next(self) -> None:
        if self.left:
            assert self.tally.next("w") == [Replied("w", self.left.pop(0))]
        else:
            with pytest.raises(OutOfRange):
                self.tally.next("w")

    @rule()
    def read(self) -> None:
        assert self.tally.read("w") == [Replied("w", [*self.left, self.end][0])]

    @rule()
    def reset(self) -> None:
        self.left = list(self.all)
        assert self.tally.reset("w") == [Replied("w", [*self.left, self.end][0])]


TestTally = TallyMachine.TestCase
TestTally.settings = settings(max_examples=examples(60), stateful_step_count=20, deadline=None)


@pytest.mark.parametrize("value", [4, 8])
def test_a_value_beyond_its_limits_is_found(value: int) -> None:
    tally = CounterRule("c", 5, 7)
    tally.validate()
    plant(tally, "value", value)

    find(tally, f"counter 'c' counts from 5 to 7, got {value}")


def test_a_counter_that_may_give_nothing_keeps_its_invariant_and_tells_that_it_ran_out() -> None:
    tally = CounterRule("c", 5, 1)
    with pytest.raises(OutOfRange):
        tally.next("w")
    tally.reset("w")
    tally.validate()

    assert str(tally.story) == "limit(5) > reset(5)"


def test_a_counter_that_forgets_its_limit_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def forgetful(self: CounterRule, who: str) -> list[Replied]:
        self.value += 1
        return [Replied(who, self.value - 1)]

    tally = CounterRule("c", 5, 6)
    monkeypatch.setattr(CounterRule, "next", forgetful)
    tally.next("w")
    tally.next("w")

    find(tally, "counter 'c' counts from 5 to 6, got 7")
