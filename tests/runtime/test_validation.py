"""While validation is on, each registered state machine looks at its invariants after every event."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from actorflow.errors import InternalError
from actorflow.runtime import validation as module
from actorflow.runtime.story import Story
from actorflow.runtime.validation import RULES, no_validation, validates, validation


@pytest.fixture
def counter(monkeypatch: pytest.MonkeyPatch) -> type:
    """A counter that must not pass two, the only state machine that there is in this test."""
    monkeypatch.setattr(module, "RULES", {})
    monkeypatch.setattr(module, "_plain", {})
    monkeypatch.setattr(module, "_depth", 0)  # the run of tests validates

    @validates("add")
    class Counter:
        def __init__(self) -> None:
            self.count = 0
            self.story = Story()

        def add(self, by: int = 1) -> int:
            self.story.append(("add", by))
            self.count += by
            return self.count

        def validate(self) -> None:
            if self.count > 2:
                raise self.story.broken(f"count is at most 2, got {self.count}")

    return Counter


def test_without_validation_nothing_is_wrapped(counter: type) -> None:
    assert counter().add(7) == 7


def test_with_validation_a_broken_invariant_raises_after_the_event(counter: type) -> None:
    made = counter()
    with validation():
        assert made.add(by=2) == 2
        with pytest.raises(InternalError, match="at most 2, got 3") as raised:
            made.add()
    assert raised.value.__notes__ == ["  story: add(2) > add(1)"]


def test_an_event_that_gives_items_is_looked_at_when_it_has_given_all(counter: Any) -> None:
    @validates("count_up")
    class CountsUp:
        def __init__(self) -> None:
            self.rule = counter()

        def count_up(self, to: int) -> Iterator[int]:
            while self.rule.count < to:
                self.rule.count += 1
                yield self.rule.count

        def validate(self) -> None:
            self.rule.validate()

    with validation():
        items = CountsUp().count_up(3)
        assert [next(items), next(items)] == [1, 2]
        assert next(items) == 3  # half done: nothing is looked at yet
        with pytest.raises(InternalError, match="at most 2, got 3"):
            next(items)


def test_a_process_that_begins_with_the_variable_validates_from_the_start() -> None:
    program = "from actorflow.runtime import validation; print(validation._depth)"
    told = [
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "ACTORFLOW_VALIDATE": value},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for value in ("1", "0", "")
    ]

    assert told == ["1", "0", "0"]


def test_every_state_machine_of_the_package_validates_in_this_run() -> None:
    from actorflow.dataflow.state.queue_rule import QueueRule
    from actorflow.transport.rules.link_session import LinkSession

    for rule in (QueueRule, LinkSession):
        for name in RULES[rule]:
            assert hasattr(vars(rule)[name], "__wrapped__"), (rule, name)


def test_a_coroutine_of_an_event_that_breaks_an_invariant_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RULES", dict(RULES))

    async def rest() -> None:
        raise AssertionError

    begun: Any = rest()

    @validates("begin")
    class Broken:
        def begin(self) -> Any:
            return begun

        def validate(self) -> None:
            raise Story().broken("nothing holds")

    with validation(), pytest.raises(InternalError, match="nothing holds"):
        Broken().begin()
    assert inspect.getcoroutinestate(begun) == inspect.CORO_CLOSED


def test_validation_may_be_nested_and_takes_its_wrappers_away(counter: type) -> None:
    plain = vars(counter)["add"]
    with validation():
        wrapped = vars(counter)["add"]
        with validation():
            assert vars(counter)["add"] is wrapped
        assert vars(counter)["add"] is wrapped
    assert vars(counter)["add"] is plain


def test_inside_no_validation_nothing_looks_and_afterwards_all_do_again(counter: type) -> None:
    with validation():
        with no_validation():
            assert counter().add(7) == 7
            with validation(), pytest.raises(InternalError):
                counter().add(7)
        with pytest.raises(InternalError):
            counter().add(7)
    assert counter().add(7) == 7


def test_an_event_that_is_no_method_is_refused() -> None:
    with pytest.raises(AssertionError, match="has no"):
        validates("nothing")(type("Empty", (), {"validate": lambda self: None}))
    assert all(rule.__name__ != "Empty" for rule in RULES)
