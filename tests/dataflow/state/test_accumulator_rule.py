"""A conditional accumulator against a list of gradients, and what its ops mean, sentence by sentence."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from actorflow.dataflow.state.accumulator_rule import AccumulatedGradients, AccumulatorRule
from actorflow.dataflow.state.replies import Replied
from actorflow.errors import InternalError, StateError
from actorflow.runtime.validation import validation
from tests.support.planting import find, plant
from tests.support.strategies import examples


class Listed:
    """A sum that is the list of its gradients."""

    def __init__(self) -> None:
        self.grads: list[Any] = []

    @property
    def count(self) -> int:
        return len(self.grads)

    @count.setter
    def count(self, value: int) -> None:
        raise AssertionError

    def add(self, grad: Any) -> None:
        self.grads.append(grad)

    def merge(self, later: Any) -> None:
        self.grads += later.grads


def fresh() -> AccumulatorRule:
    return AccumulatorRule("a", Listed)


def taken(answers: list[Replied]) -> list[tuple[Any, list[Any]]]:
    return [(a.who, list(a.value.sum.grads)) for a in answers if isinstance(a.value, AccumulatedGradients)]


def test_a_gradient_of_the_step_or_later_is_accepted_and_an_older_one_told_that_it_is_not() -> None:
    rule = fresh()
    rule.set_step("s", 2)

    assert [rule.apply("w", step, step)[0].value for step in (1, 2, 3)] == [False, True, True]
    assert rule.sum.grads == [2, 3]


def test_applying_never_waits_however_many_gradients_there_are() -> None:
    rule = fresh()

    assert all(rule.apply("w", 0, k)[0].value is True for k in range(50))
    assert rule.sum.count == 50


def test_a_take_waits_for_its_number_and_gets_all_that_are_there() -> None:
    rule = fresh()
    rule.apply("w", 0, "a")
    assert rule.take("t", 2) == []

    assert taken(rule.apply("w", 0, "b")) == [("t", ["a", "b"])]
    for grad in "cde":
        rule.apply("w", 1, grad)
    assert taken(rule.take("u", 2)) == [("u", ["c", "d", "e"])]


def test_a_take_leaves_nothing_and_adds_one_to_the_step() -> None:
    rule = fresh()
    rule.apply("w", 0, "a")
    rule.take("t", 1)

    assert (rule.sum.count, rule.step) == (0, 1)
    assert rule.apply("w", 0, "late")[0].value is False


def test_takers_are_served_in_order_and_a_large_one_makes_others_wait() -> None:
    rule = fresh()
    rule.take("large", 2)
    rule.take("small", 1)

    assert taken(rule.apply("w", 0, "a")) == []
    assert taken(rule.apply("w", 0, "b")) == [("large", ["a", "b"])]
    assert taken(rule.apply("w", 1, "c")) == [("small", ["c"])]


def test_a_cancelled_take_lets_the_next_go_on() -> None:
    rule = fresh()
    rule.take("large", 2)
    rule.take("small", 1)
    rule.apply("w", 0, "a")

    assert taken(rule.cancel("large")) == [("small", ["a"])]


def test_the_step_cannot_be_set_back() -> None:
    rule = fresh()
    rule.set_step("s", 3)

    with pytest.raises(StateError, match="the step of accumulator 'a' is 3, and cannot be set back to 2"):
        rule.set_step("s", 2)
    assert rule.set_step("s", 3) == [Replied("s", 3)]


def test_what_is_given_back_is_there_as_before_step_and_all() -> None:
    rule = fresh()
    rule.apply("w", 0, "a")
    (answer,) = rule.take("t", 1)

    rule.give_back(answer.undo)

    assert (rule.sum.grads, rule.step) == (["a"], 0)
    assert rule.apply("w", 0, "b")[0].value is True


@pytest.mark.parametrize("since", ["apply", "take", "set"])
def test_what_is_given_back_after_something_else_is_added_before_it_and_the_step_stays(since: str) -> None:
    rule = fresh()
    rule.apply("w", 0, "a")
    (answer,) = rule.take("t", 1)
    if since == "set":
        rule.set_step("s", 7)
    else:
        rule.apply("w", 1, "b")
    if since == "take":
        rule.take("u", 1)
    step, left = rule.step, list(rule.sum.grads)

    rule.give_back(answer.undo)

    assert (rule.sum.grads, rule.step) == (["a", *left], step)


def test_what_is_given_back_goes_to_who_waits() -> None:
    rule = fresh()
    rule.apply("w", 0, "a")
    (answer,) = rule.take("t", 1)
    rule.take("next", 1)

    assert taken(rule.give_back(answer.undo)) == [("next", ["a"])]


def test_it_says_what_it_holds_and_who_waits() -> None:
    rule = fresh()
    rule.apply("w", 0, "a")
    rule.take("t", 2)

    assert repr(rule) == "<AccumulatorRule 'a' 1 gradients at step 0, waiting 1 out>"


class AccumulationMachine(RuleBasedStateMachine):
    """Whatever comes, each accepted gradient is in one result or waits for one, and all is in order."""

    def __init__(self) -> None:
        super().__init__()
        self.rule = fresh()
        self.next = 0
        self.step = 0
        self.held: list[int] = []
        self.out: list[int] = []
        self.line: list[tuple[str, int]] = []
        self.taken: list[tuple[Any, list[int], int]] = []
        self.accepted: set[int] = set()

    def check(self, answers: list[Replied]) -> None:
        expected = []
        while self.line and len(self.held) >= self.line[0][1]:
            expected.append((self.line.pop(0)[0], self.held, self.step))
            self.held, self.step = [], self.step + 1
        got = [a for a in answers if isinstance(a.value, AccumulatedGradients)]
        assert [(a.who, a.value.sum.grads, a.value.step) for a in got] == expected
        for answer, (_, grads, step) in zip(got, expected, strict=True):
            self.taken.append((answer.undo, list(grads), step))

    @rule(late=st.integers(-1, 2))
    def apply(self, late: int) -> None:
        self.next += 1
        fits = late >= 0
        if fits:
            self.held.append(self.next)
            self.accepted.add(self.next)
        answers = self.rule.apply("w", self.step + late, self.next)
        assert answers[0] == Replied("w", fits)
        self.check(answers)

    @rule(n=st.integers(1, 3))
    def take(self, n: int) -> None:
        self.next += 1
        self.line.append((f"t{self.next}", n))
        self.check(self.rule.take(f"t{self.next}", n))

    @precondition(lambda self: self.line)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        take = data.draw(st.sampled_from(self.line))
        self.line.remove(take)
        self.check(self.rule.cancel(take[0]))

    @precondition(lambda self: self.taken)
    @rule(data=st.data())
    def give_back(self, data: st.DataObject) -> None:
        undo, grads, step = self.taken.pop(data.draw(st.integers(0, len(self.taken) - 1)))
        if not self.held and self.step == step + 1:
            self.step = step
        self.held = grads + self.held
        self.check(self.rule.give_back(undo))

    @precondition(lambda self: self.taken)
    @rule()
    def use(self) -> None:
        _, grads, _ = self.taken.pop(0)
        self.out += grads

    @rule(more=st.integers(-1, 2))
    def set_step(self, more: int) -> None:
        if more < 0:
            with pytest.raises(StateError):
                self.rule.set_step("s", self.step + more)
        else:
            self.step += more
            assert self.rule.set_step("s", self.step) == [Replied("s", self.step)]

    @invariant()
    def every_accepted_gradient_is_in_one_place(self) -> None:
        assert (self.rule.sum.grads, self.rule.step) == (self.held, self.step)
        assert list(self.rule.takes) == self.line
        places = self.out + self.held + [g for _, grads, _ in self.taken for g in grads]
        assert sorted(places) == sorted(self.accepted)


TestAccumulation = AccumulationMachine.TestCase
TestAccumulation.settings = settings(max_examples=examples(150), stateful_step_count=40, deadline=None)


@pytest.mark.parametrize(
    ("field", "value", "found"),
    [
        ("takes", [("t", 1)], "the head wants more than there are, got 1 of 1"),
        ("step", -1, "it counts up from 0, got step -1 and 1 gradients"),
    ],
)
def test_a_field_that_is_wrong_is_found(field: str, value: Any, found: str) -> None:
    rule = fresh()
    rule.apply("w", 0, "a")
    plant(rule, field, value)

    find(rule, f"accumulator 'a': {found}")


def test_a_rule_that_forgets_who_waits_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    rule = fresh()
    rule.take("t", 1)
    monkeypatch.setattr(AccumulatorRule, "_flush", lambda self: [])

    with validation(), pytest.raises(InternalError, match="the head wants more than there are"):
        rule.apply("w", 0, "a")


def test_the_story_tells_what_was_taken_came_back_and_was_too_old() -> None:
    rule = fresh()
    rule.apply("w", 0, "a")
    (answer,) = rule.take("t", 1)
    rule.apply("w", 0, "late")
    rule.give_back(answer.value)

    assert str(rule.story) == "take(1, 0) > too_old(0, 1) > give_back(0, 1)"
