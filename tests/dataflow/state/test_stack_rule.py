from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from actorflow.dataflow.state.replies import Replied
from actorflow.dataflow.state.stack_rule import StackRule
from actorflow.errors import OutOfRange, StateError
from tests.support.planting import find, plant
from tests.support.strategies import examples


def test_the_last_comes_off_first_and_a_push_gives_its_element() -> None:
    pile = StackRule("s")

    assert [pile.push("w", e, 1)[0].value for e in "abc"] == list("abc")
    assert [pile.pop("w")[0].value for _ in "abc"] == list("cba")


def test_an_empty_stack_is_out_of_range_by_name() -> None:
    with pytest.raises(OutOfRange, match="stack 's' is empty"):
        StackRule("s").pop("w")


def test_a_full_stack_refuses_a_push() -> None:
    pile = StackRule("s", max_size=1)
    pile.push("w", "a", 1)

    with pytest.raises(StateError, match="stack 's' holds 1 element at most"):
        pile.push("w", "b", 1)


def test_a_stack_is_bounded_in_bytes() -> None:
    pile = StackRule("s", max_bytes=10)
    pile.push("w", "a", 6)

    with pytest.raises(StateError, match="stack 's' holds 10 bytes at most, got 5 more beside 6"):
        pile.push("w", "b", 5)
    pile.pop("w")
    pile.push("w", "b", 10)


def test_a_closed_stack_has_dropped_all_and_refuses_everything() -> None:
    pile = StackRule("s")
    pile.push("w", "a", 1)

    assert pile.close("c") == [Replied("c", True)]
    assert (pile.elements, pile.held) == ([], 0)
    for use in (lambda: pile.push("w", "a", 1), lambda: pile.pop("w"), lambda: pile.close("c")):
        with pytest.raises(StateError, match="stack 's' is closed"):
            use()


def test_it_says_what_it_holds() -> None:
    pile = StackRule("s", max_bytes=10)
    pile.push("w", "a", 6)

    assert repr(pile) == "<StackRule 's' 1/unbounded elements, 6/10 bytes>"


class PileMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.pile = StackRule("s", max_size=4, max_bytes=12)
        self.model: list[tuple[int, int]] = []
        self.next = 0

    @rule(size=st.integers(0, 6))
    def push(self, size: int) -> None:
        self.next += 1
        held = max(1, size)
        if len(self.model) == 4 or sum(n for _, n in self.model) + held > 12:
            with pytest.raises(StateError):
                self.pile.push("w", self.next, size)
        else:
            assert self.pile.push("w", self.next, size) == [Replied("w", self.next)]
            self.model.append((self.next, held))

    @rule()
    def pop(self) -> None:
        if self.model:
            assert self.pile.pop("w") == [Replied("w", self.model.pop()[0])]
        else:
            with pytest.raises(OutOfRange):
                self.pile.pop("w")

    @invariant()
    def it_holds_what_the_list_holds(self) -> None:
        assert self.pile.elements == self.model
        assert self.pile.held == sum(n for _, n in self.model)


TestPile = PileMachine.TestCase
TestPile.settings = settings(max_examples=examples(60), stateful_step_count=30, deadline=None)


def test_an_empty_element_counts_one_byte() -> None:
    pile = StackRule("s", max_bytes=2)
    pile.push("a", "", 0)
    pile.push("b", "", 0)

    with pytest.raises(StateError, match="holds 2 bytes at most, got 1 more beside 2"):
        pile.push("c", "", 0)
    pile.pop("d")
    assert pile.held == 1


@pytest.mark.parametrize(
    ("field", "value", "found"),
    [
        ("closed", True, "a closed one is empty, got 2 elements of 5 bytes"),
        ("held", 4, "it holds 5 bytes, got 4"),
        ("held", 13, "it holds at most 4 and 12 bytes, got 2 of 13 bytes"),
        ("max_size", 1, "it holds at most 1 and 12 bytes"),
    ],
)
def test_a_field_that_is_wrong_is_found(field: str, value: object, found: str) -> None:
    pile = StackRule("s", max_size=4, max_bytes=12)
    pile.push("w", "a", 2)
    pile.push("w", "b", 3)
    pile.validate()
    plant(pile, field, value)

    find(pile, f"stack 's': {found}")


def test_the_story_tells_what_was_refused_and_what_closed_it() -> None:
    pile = StackRule("s", max_size=1)
    for refused in (lambda: pile.pop("w"), lambda: pile.push("w", "b", 1)):
        with pytest.raises((OutOfRange, StateError)):
            refused()
        pile.push("w", "a", 1) if not pile.elements else None
    pile.close("w")

    assert str(pile.story) == "empty > full(1, 1) > close(1, 1)"


def test_a_pop_that_forgets_the_bytes_is_found() -> None:
    class Forgets(StackRule):
        def pop(self, who: object) -> list[Replied]:
            element, _ = self.elements.pop()
            return [Replied("w", element)]

    pile = Forgets("s")
    pile.push("w", "a", 2)
    pile.pop("w")

    find(pile, "stack 's': it holds 0 bytes, got 2")
