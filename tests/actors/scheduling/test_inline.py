"""Asks that run without the way through the loop: how many in a row, and for how long."""

from __future__ import annotations

from contextvars import copy_context

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actorflow.actors.scheduling.budget import MOST
from actorflow.actors.scheduling.contexts import Contexts
from actorflow.actors.scheduling.inline import Inline

BUDGET_S = 0.001


class Hands:
    """A clock that handlers move on."""

    def __init__(self) -> None:
        self.at = 0.0

    def now(self) -> float:
        return self.at

    def take(self, seconds: float) -> None:
        self.at += seconds


def row(inline: Inline, hands: Hands, durations: list[float], idle_s: float = 0.0) -> list[float]:
    """Asks in a row until one has to go through the loop; returns what those took that ran, and begins a new row."""
    done: list[float] = []
    for seconds in durations:
        if inline.left <= 0 and not inline.may_go_on():
            break
        inline.left -= 1
        inline.run(hands.take, seconds)
        done.append(seconds)
        hands.at += idle_s
    inline.row, inline.held_s = 0, 0.0
    return done


def made(limit: int = 64) -> tuple[Inline, Hands]:
    hands = Hands()
    return Inline(hands.now, BUDGET_S, Contexts(copy_context()), limit), hands


@given(each_s=st.floats(1e-6, 1.0), limit=st.integers(1, 500))
def test_asks_in_a_row_hold_the_loop_for_the_budget_and_one_at_most(each_s: float, limit: int) -> None:
    inline, hands = made(limit)

    for _ in range(20):
        took = row(inline, hands, [each_s] * 1000)
        assert took
        assert sum(took) <= BUDGET_S + each_s + 1e-9


@given(limit=st.integers(0, 300))
def test_no_more_than_the_limit_and_a_batch_run_in_a_row_however_fast(limit: int) -> None:
    inline, hands = made(limit)

    for _ in range(5):
        done = len(row(inline, hands, [0.0] * 1000))
        assert min(limit, 1) <= done <= limit + MOST


@given(slow_s=st.floats(0.002, 1.0), fast=st.integers(0, 300))
def test_slow_ones_after_fast_ones_are_sixteen_at_most_once(slow_s: float, fast: int) -> None:
    inline, hands = made()
    line = [1e-7] * fast + [slow_s] * 64
    too_long = 0
    while line:
        took = row(inline, hands, line)
        line = line[len(took) :]
        assert sum(took) <= BUDGET_S + MOST * slow_s
        too_long += sum(took) > BUDGET_S + slow_s + 1e-9

    assert too_long <= 1


def test_an_asker_who_idles_between_asks_is_soon_known_for_one() -> None:
    inline, hands = made()
    for _ in range(2):
        row(inline, hands, [1e-7] * 4, idle_s=60.0)

    assert len(row(inline, hands, [1e-7] * 60, idle_s=60.0)) == 60


def test_a_step_may_start_at_once_while_neither_count_nor_budget_is_used_up() -> None:
    inline, _ = made(2)
    assert inline.may_step()
    inline.row = 2
    assert not inline.may_step()
    inline.row, inline.held_s = 0, BUDGET_S
    assert not inline.may_step()


def test_what_a_handler_raises_is_its_own_and_its_time_counts() -> None:
    inline, hands = made()

    def failing() -> None:
        hands.take(0.01)
        raise ValueError("mine")

    assert inline.may_go_on()
    with pytest.raises(ValueError, match="mine"):
        inline.run(failing)

    assert inline.held_s == 0.01
