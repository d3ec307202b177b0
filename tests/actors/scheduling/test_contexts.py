"""Contexts in which handlers begin: nothing of any handler is left in them, whatever it changed and how."""

from __future__ import annotations

import decimal
from collections.abc import Callable
from contextvars import Context, ContextVar
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actorflow.actors.scheduling.contexts import Contexts

FIRST: ContextVar[int] = ContextVar("first", default=0)
SECOND: ContextVar[int] = ContextVar("second", default=0)


def set_and_reset() -> None:
    FIRST.reset(FIRST.set(7))


def within() -> None:
    with np.errstate(divide="raise"), decimal.localcontext(prec=5):
        pass


CHANGES: dict[str, Callable[[], object]] = {
    "nothing": lambda: None,
    "a variable": lambda: FIRST.set(1),
    "another": lambda: SECOND.set(2),
    "set and reset": set_and_reset,
    "numpy": lambda: np.seterr(divide="raise"),
    "numpy's print options": lambda: np.set_printoptions(precision=2),
    "decimal, in place": lambda: setattr(decimal.getcontext(), "prec", 3),
    "decimal, anew": lambda: decimal.setcontext(decimal.Context(prec=9)),
    "decimal's flags": lambda: decimal.Decimal(1) / 3,
    "decimal's traps": lambda: decimal.getcontext().traps.update({decimal.Inexact: True}),
    "within": within,
}


def seen() -> Any:
    found = decimal.getcontext()
    return (
        FIRST.get(),
        SECOND.get(),
        np.geterr(),
        np.get_printoptions()["precision"],
        found.__reduce__()[1],
    )


def in_turn(contexts: Contexts, changes: list[str], renews: Callable[[Context, Any], bool]) -> list[Any]:
    """Runs handlers one after the other as the pump does; returns what each would have seen first."""
    context = contexts.fresh()
    unchanged = contexts.unchanged(context)
    found = []
    for change in changes:
        found.append(context.copy().run(seen))  # looking makes a decimal context where there is none
        context.run(CHANGES[change])
        if renews(context, unchanged):
            context = contexts.fresh()
            unchanged = contexts.unchanged(context)
    return found


def program(first: int, prec: int | None) -> Context:
    """Returns the context of a program that has set this."""
    context = Context()
    context.run(FIRST.set, first)
    if prec is not None:
        context.run(lambda: setattr(decimal.getcontext(), "prec", prec))
    return context


@given(
    changes=st.lists(st.sampled_from(sorted(CHANGES)), max_size=8),
    first=st.integers(0, 2),
    prec=st.none() | st.sampled_from([28, 50]),
)
def test_each_begins_with_what_the_program_had_set(changes: list[str], first: int, prec: int | None) -> None:
    base = program(first, prec)
    clean = program(first, prec).run(seen)

    found = in_turn(Contexts(base), changes, lambda context, unchanged: context != unchanged)

    assert found == [clean] * len(changes)
    assert base.run(seen) == clean


def by_variables_alone(context: Context, unchanged: Any) -> bool:
    """A planted fault: what is changed in place is not seen."""
    return bool(context != getattr(unchanged, "_variables", unchanged))


def never(context: Context, unchanged: Any) -> bool:
    return False


@pytest.mark.parametrize(("planted", "change"), [(by_variables_alone, "decimal, in place"), (never, "numpy")])
def test_the_law_finds_a_rule_that_overlooks_a_change(
    planted: Callable[[Context, Any], bool], change: str
) -> None:
    clean, found = in_turn(Contexts(program(0, 50)), [change, "nothing"], planted)

    assert clean != found


def test_handlers_that_change_nothing_go_on_in_one_context() -> None:
    contexts = Contexts(program(1, None))
    context = contexts.fresh()
    unchanged = contexts.unchanged(context)

    for change in ("nothing", "set and reset"):
        context.run(CHANGES[change])
        assert context == unchanged


def test_what_is_changed_for_all_is_there_from_then_on() -> None:
    contexts = Contexts(program(1, 50))
    before = contexts.fresh()
    contexts.change(lambda: SECOND.set(5))

    assert before.run(SECOND.get) == 0
    assert contexts.fresh().run(SECOND.get) == 5
