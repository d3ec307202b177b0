"""The last of the dead are remembered, as texts, and those that failed longest."""

from __future__ import annotations

import gc
import weakref
from collections import deque
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actorflow.actors.tombstones import REASON, Tombstone, Tombstones, absent, because, ending_error
from actorflow.errors import HandlerError

deaths = st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), max_size=40)


def check_the_last_of_each(make: Any, history: list[tuple[str, bool]], keep: int) -> None:
    """Asserts that those that failed push out each other alone, and likewise those that were stopped."""
    dead = make(keep)
    for at, (name, failed) in enumerate(history):
        dead.add(name, float(at), ValueError(name) if failed else None)

    every = [(float(at), name, failed) for at, (name, failed) in enumerate(history)]
    kept = {at for failed in (True, False) for at, _, how in [e for e in every if e[2] is failed][-keep:]}
    assert [(s.at_s, s.name, bool(s.error)) for s in dead.all()] == [e for e in every if e[0] in kept]
    for name in "abc":
        mine = [at for at, who, _ in every if who == name and at in kept]
        found = dead.find(name)
        assert (None if found is None else found.at_s) == (mine[-1] if mine else None)
    assert (dead.died, dead.stopped) == (sum(h[1] for h in history), sum(not h[1] for h in history))


@given(history=deaths, keep=st.integers(1, 5))
def test_of_those_that_failed_and_of_those_that_were_stopped_the_last_are_kept(
    history: list[tuple[str, bool]], keep: int
) -> None:
    check_the_last_of_each(Tombstones, history, keep)


def test_the_law_finds_a_store_in_which_those_that_were_stopped_push_out_others() -> None:
    class Shared(Tombstones):
        def __init__(self, keep: int) -> None:
            super().__init__(keep)
            self._failed = self._stopped = deque(maxlen=keep)

        def all(self) -> tuple[Tombstone, ...]:
            return tuple(stone for _, stone in self._failed)

    @given(history=deaths, keep=st.integers(1, 5))
    def law(history: list[tuple[str, bool]], keep: int) -> None:
        check_the_last_of_each(Shared, history, keep)

    with pytest.raises(AssertionError):
        law()


def test_what_the_handler_raised_is_told_by_type_and_text() -> None:
    error = HandlerError("handler of 'a' raised KeyError: 1 while handling int")
    error.__cause__ = KeyError(1)

    stone = Tombstones().add("a", 3.0, error, incarnation=2)

    assert (stone.error, stone.incarnation) == ("KeyError", 2)
    assert stone.describe(5.0) == (
        "died in incarnation 2 2 s ago: handler of 'a' raised KeyError: 1 while handling int"
    )
    assert "(2 s ago)" in str(stone.ask_error("a", "int", 5.0))
    assert Tombstones().add("b", 3.0, None).describe(3.5) == "was stopped 0.5 s ago"
    assert Tombstones().add("b", 3.0, None).watch_error(3.5) is None


def test_a_long_reason_is_cut_and_says_so() -> None:
    stone = Tombstones().add("a", 0.0, ValueError("x" * 100_000 + "end\nmore"))

    assert len(stone.reason) == REASON
    assert "(100,003 characters in all)" in stone.reason
    assert stone.reason.endswith("end")


class Mute(ValueError):
    def __str__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize("error", [ValueError(), ValueError("\n"), Mute()])
def test_an_error_of_any_text_has_a_reason(error: BaseException) -> None:
    assert Tombstones().add("a", 0.0, error).reason


def test_nothing_of_the_error_is_held() -> None:
    class Large(Exception):
        pass

    error = Large("large")
    there, dead = weakref.ref(error), Tombstones()
    dead.add("a", 0.0, error)
    del error
    gc.collect()

    assert there() is None
    assert dead.all()[0].error == "Large"


def test_who_is_not_there_died_or_is_not_known() -> None:
    dead = Tombstones()
    dead.add("a", 1.0, ValueError("why"))

    assert absent("process 'p'", "a", ["b"], dead, 2.0) == "actor 'a' of process 'p' died 1 s ago: why"
    assert absent("process 'p'", "c", ["b"], dead, 2.0) == "process 'p' has no actor 'c'; it has b"
    many = absent("process 'p'", "c", [f"a{n:02}" for n in range(50)], dead, 2.0)
    assert many.endswith("a18, a19 and 30 more")


def test_why_an_actor_ends_is_told_to_those_that_wait() -> None:
    why = ValueError("why")

    assert (
        str(ending_error("queue 'q'", "it could answer", None))
        == "queue 'q' was stopped before it could answer"
    )
    assert (
        str(ending_error("queue 'q'", "it could answer", why)) == "queue 'q' died before it could answer: why"
    )
    assert ending_error("queue 'q'", "it could answer", why).__cause__ is why
    assert (because(None), because(why)) == ("", ": why")
