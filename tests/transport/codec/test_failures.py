"""Errors arrive with what they say, whatever they are made of."""

from __future__ import annotations

import pytest

from actorflow.errors import ActorError, ActorflowError, KernelError, StateError, StepAborted, Where
from actorflow.transport.codec.failures import CAUSES, NOTES, PART, WHAT
from actorflow.transport.codec.message_codec import decode, encode, join
from tests.transport.values import TYPES


def sent(error: ActorflowError) -> ActorflowError:
    read = decode(join(encode(error)))
    assert isinstance(read, ActorflowError)
    return read


@pytest.mark.parametrize("kind", TYPES)
def test_every_type_of_error_arrives_as_itself(kind: type[ActorflowError]) -> None:
    error = kind("it broke", where=Where(node="a", step=3), hint="mend it")

    read = sent(error)

    assert type(read) is kind
    assert str(read) == str(error)
    assert read.where == error.where


def test_causes_arrive_as_what_they_say() -> None:
    aborted = StepAborted("step 3 ended")
    aborted.__cause__ = KernelError("kernel div raised", where=Where(op="div"))
    aborted.__cause__.__cause__ = ZeroDivisionError("division by zero")

    read = sent(aborted)

    assert type(read.__cause__) is KernelError
    assert read.__cause__.where == Where(op="div")
    last = read.__cause__.__cause__
    assert type(last) is ActorflowError
    assert last.what == "ZeroDivisionError: division by zero"
    assert last.__cause__ is None


class Mine(StateError):
    """Of a user."""


class Silent(ActorError):
    def __init__(self) -> None:
        """Calls no other `__init__`."""


class Unprintable(ActorError):
    def __init__(self) -> None:
        """Calls no other `__init__`."""

    def __str__(self) -> str:
        raise LookupError


@pytest.mark.parametrize(
    ("error", "kind", "what"),
    [
        (Mine("no row 7"), StateError, "Mine: no row 7"),
        (Silent(), ActorError, "Silent: "),
        (Unprintable(), ActorError, "Unprintable: Unprintable (its text cannot be shown: LookupError)"),
    ],
)
def test_an_error_of_a_user_arrives_as_the_nearest_of_ours(
    error: ActorflowError, kind: type[ActorflowError], what: str
) -> None:
    read = sent(error)

    assert type(read) is kind
    assert read.what.startswith(what)
    assert sent(read).what == read.what


def test_a_user_class_with_the_name_of_ours_is_not_taken_for_it() -> None:
    namesake = type("WireError", (StateError,), {})

    assert type(sent(namesake("mine"))) is StateError


def test_a_chain_that_bites_its_tail_is_cut() -> None:
    error = StateError("a")
    error.__cause__ = ActorError("b")
    error.__cause__.__cause__ = error

    read: BaseException | None = sent(error)

    for n in range(CAUSES):
        assert isinstance(read, ActorflowError)
        assert read.what == "ab"[n % 2]
        read = read.__cause__
    assert read is None


def test_a_place_of_odd_things_arrives_as_text() -> None:
    error = StateError("a", where=Where(node=StateError, op=5, step=2**80))  # type: ignore[arg-type]

    read = sent(error)

    assert read.where == Where(node=str(StateError), op="5", step=2**80)


def test_long_texts_are_cut_to_stated_lengths_and_say_how_long_they_are() -> None:
    error = StateError("a" + "x" * 10_000_000 + "z", where=Where(node="n" * 9999), hint="h" * 9999)
    for number in range(100):
        error.add_note(f"{number}" + "note" * 9999)
    error.__cause__ = ValueError("v" * 9999)

    read = sent(error)

    assert len(read.what) == WHAT
    assert read.what.startswith("axxx")
    assert read.what.endswith("xxxz")
    assert "(10,000,002 characters in all)" in read.what
    assert read.hint is not None
    assert read.where is not None
    assert read.where.node is not None
    assert len(read.hint) == len(read.where.node) == PART
    assert len(read.__notes__) == NOTES + 1
    assert read.__notes__[-1] == "and 84 more notes"
    assert max(map(len, read.__notes__)) == PART
    assert len(str(read.__cause__)) == WHAT
    assert len(join(encode(error))) < WHAT * 2 + PART * (NOTES + 4)


def test_a_text_of_the_stated_length_arrives_whole() -> None:
    assert sent(StateError("x" * WHAT)).what == "x" * WHAT
    assert len(sent(StateError("x" * (WHAT + 1))).what) == WHAT
