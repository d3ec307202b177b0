from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actorflow.errors import ActorError, Where, describe, shorten, show_value


class Unprintable(Exception):
    def __str__(self) -> str:
        return self.detail  # type: ignore[attr-defined, no-any-return]  # what a hasty author writes


class Wordless(Exception):
    def __str__(self) -> str:
        return None  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("no such row"), "ValueError: no such row"),
        (ValueError(), "ValueError"),
        (ActorError("it stopped", hint="ask again"), "ActorError: it stopped\n  try:   ask again"),
        (Unprintable(), "Unprintable (its text cannot be shown: AttributeError)"),
        (Wordless(), "Wordless (its text cannot be shown: TypeError)"),
    ],
)
def test_said_gives_type_and_text_of_any_exception(error: Exception, text: str) -> None:
    assert describe(error) == text
    assert describe(error, typed=False) == text.removeprefix(f"{type(error).__name__}: ")


class Mute:
    def __repr__(self) -> str:
        raise KeyError


def test_any_value_is_shown_and_cut() -> None:
    assert show_value([1, 2, 3], 5) == "[1, 2"
    assert show_value(10**5000) == "int that cannot be shown (ValueError)"
    assert show_value([Mute()]) == "list that cannot be shown (KeyError)"


class OwnArguments(ActorError):
    def __init__(self, code: int) -> None:
        super().__init__(f"code {code}", hint="look it up")
        self.code = code


class NoArguments(ActorError):
    def __init__(self) -> None:
        """Calls no other `__init__`."""


def test_an_error_with_arguments_of_its_own_is_placed_with_all_it_holds() -> None:
    error = OwnArguments(7)
    error.add_note("seen twice")

    placed = error.at(Where(actor="a"))

    assert str(placed) == "code 7\n  where: actor a\n  try:   look it up"
    assert type(placed) is OwnArguments
    assert placed.code == 7
    assert placed.__notes__ == ["seen twice"]
    assert error.where is None


def test_an_error_that_was_never_initialised_is_placed() -> None:
    assert NoArguments().at(Where(actor="a")).where == Where(actor="a")


def test_an_error_for_another_who_waits_is_a_copy_with_cause_and_notes() -> None:
    error = OwnArguments(7)
    error.add_note("seen twice")
    error.__cause__ = LookupError("gone")

    again = error.copy()

    assert again is not error
    assert (type(again), again.code, str(again)) == (OwnArguments, 7, str(error))
    assert again.__notes__ == ["seen twice"]
    assert again.__cause__ is error.__cause__


@given(text=st.text(max_size=300), most=st.integers(60, 200))
def test_a_cut_text_is_no_longer_than_it_may_be_and_begins_and_ends_as_the_whole(
    text: str, most: int
) -> None:
    short = shorten(text, most)

    assert len(short) <= most
    assert (short == text) == (len(text) <= most)
    before, gap, after = short.partition(f" ... ({len(text):,} characters in all) ... ")
    assert text.startswith(before)
    assert not gap or text.endswith(after)
