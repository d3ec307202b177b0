"""While validation is on, each registered state machine looks at its invariants after every event."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from actorflow.errors import InternalError
from actorflow.runtime import validation as module
from actorflow.runtime.story import Story
from actorflow.runtime.validation import RULES, validates, validation


@pytest.fixture
def counter(monkeypatch: pytest.MonkeyPatch) -> type:
    """A counter that must not pass two, and that only this test knows."""
    monkeypatch.setattr(module, "RULES", dict(RULES))

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
    if module.is_validating():  # the whole run of tests validates
        pytest.skip("the run of tests validates")
    assert counter().add(7) == 7


def test_with_validation_a_broken_invariant_raises_after_the_event(counter: type) -> None:
    made = counter()
    with validation():
        assert made.add(by=2) == 2
        with pytest.raises(InternalError, match="at most 2, got 3") as raised:
            made.add()
    assert raised.value.__notes__ == ["  story: add(2) > add(1)"]


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
    assert module.is_validating() or vars(counter)["add"] is plain


def test_an_event_that_is_no_method_is_refused() -> None:
    with pytest.raises(AssertionError, match="has no"):
        validates("nothing")(type("Empty", (), {"validate": lambda self: None}))
    assert all(rule.__name__ != "Empty" for rule in RULES)
