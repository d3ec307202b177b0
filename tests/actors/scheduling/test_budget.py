"""When whoever runs handlers looks at the clock: laws of the rule, over drawn durations."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actorflow.actors.scheduling.budget import CAREFUL, MOST, after

BUDGET_S = 0.001
Rule = Callable[[int, int, int, float, float, float], tuple[int, int]]


class Pumped(NamedTuple):
    """What one pump did, and the state after it."""

    done: int
    held_s: float
    size: int
    careful: int


def pump(durations: list[float], size: int, careful: int, rule: Rule = after) -> Pumped:
    done, held_s = 0, 0.0
    while done < len(durations) and held_s < BUDGET_S:
        batch = durations[done : done + size]
        done += len(batch)
        held_s += sum(batch)
        size, careful = rule(size, careful, len(batch), sum(batch), BUDGET_S - held_s, BUDGET_S)
    return Pumped(done, held_s, size, careful)


def too_long(durations: list[float], rule: Rule = after, *, a_time: int | None = None) -> int:
    """Returns how many pumps held the loop for longer than the budget and the longest handler.

    Args:
        durations: Of the handlers.
        rule: What decides.
        a_time: So many of them are ready for each pump; None for all that are left.
    """
    size, careful, found = 1, 0, 0
    while durations:
        ready = durations[:a_time]
        done, held_s, size, careful = pump(ready, size, careful, rule)
        found += held_s > BUDGET_S + max(ready[:done]) + 1e-9
        durations = durations[done:]
    return found


speeds = st.floats(1e-6, 1.0)


@given(each_s=speeds, a_time=st.none() | st.integers(1, 40))
def test_however_slow_handlers_are_the_loop_is_given_back_after_the_budget_and_one(
    each_s: float, a_time: int | None
) -> None:
    """All of one speed, whether they come all at once or few at a time."""
    assert too_long([each_s] * 5000, a_time=a_time) == 0


def a_count(
    size: int, careful: int, done: int, took_s: float, left_s: float, budget_s: float
) -> tuple[int, int]:
    return MOST, 0


def always_twice(
    size: int, careful: int, done: int, took_s: float, left_s: float, budget_s: float
) -> tuple[int, int]:
    return min(2 * size, MOST), 0


def by_half(
    size: int, careful: int, done: int, took_s: float, left_s: float, budget_s: float
) -> tuple[int, int]:
    """Forgets that the next batch is larger than the last."""
    return (min(2 * size, MOST) if took_s < left_s else 1), 0


def by_its_size(
    size: int, careful: int, done: int, took_s: float, left_s: float, budget_s: float
) -> tuple[int, int]:
    """Takes a batch that ended early for a full one."""
    return after(size, careful, size, took_s, left_s, budget_s)


def never_careful(
    size: int, careful: int, done: int, took_s: float, left_s: float, budget_s: float
) -> tuple[int, int]:
    return after(size, 0, done, took_s, left_s, budget_s)[0], 0


SLOW = [1e-6 * k for k in range(50, 3000, 7)]


@pytest.mark.parametrize("planted", [a_count, always_twice, by_half])
def test_the_law_finds_a_rule_that_does_not_reckon_with_what_is_left(planted: Rule) -> None:
    assert not any(too_long([each_s] * 200) for each_s in SLOW)
    assert any(too_long([each_s] * 200, planted) for each_s in SLOW)


def test_the_law_finds_a_rule_that_takes_few_handlers_for_many() -> None:
    def few_then_many(each_s: float, rule: Rule) -> int:
        size, careful = 1, 0
        for _ in range(10):
            size, careful = pump([each_s], size, careful, rule)[2:]
        return pump([each_s] * 40, size, careful, rule).held_s > BUDGET_S + each_s + 1e-9

    assert not any(few_then_many(each_s, after) for each_s in SLOW)
    assert any(few_then_many(each_s, by_its_size) for each_s in SLOW)


def bursts(slow_s: float, gap: int) -> int:
    """Returns how many pumps were too long, where eight slow ones follow `gap` fast ones again and again."""
    return too_long(([1e-7] * gap + [slow_s] * 8) * 16)


@given(slow_s=st.floats(0.002, 1.0), fast=st.integers(0, 300))
def test_slow_ones_after_fast_ones_hold_the_loop_for_sixteen_at_most_once(slow_s: float, fast: int) -> None:
    line, size, careful = [1e-7] * fast + [slow_s] * 64, 1, 0
    assert too_long(line) <= 1
    while line:
        done, held_s, size, careful = pump(line, size, careful)
        line = line[done:]
        assert held_s <= BUDGET_S + MOST * slow_s


@given(slow_s=st.floats(0.002, 1.0), gap=st.integers(0, CAREFUL - 2))
def test_bursts_of_slow_ones_among_fast_ones_are_looked_at_one_by_one(slow_s: float, gap: int) -> None:
    assert bursts(slow_s, gap) <= 1


def test_the_law_of_bursts_finds_a_rule_that_forgets_at_once() -> None:
    line = ([1e-7] * 40 + [0.01] * 8) * 16

    assert too_long(line) == 1
    assert too_long(line, never_careful) > 1


@given(size=st.sampled_from([1, 2, 4, 8, MOST]))
def test_fast_ones_are_soon_looked_at_sixteen_at_a_time_and_stay_so(size: int) -> None:
    careful, looks, left = 0, 0, 50_000
    while left:
        done = min(size, left)
        size, careful = after(size, careful, done, done * 1e-7, BUDGET_S / 2, BUDGET_S)
        left, looks = left - done, looks + 1

    assert looks <= 50_000 / MOST + 5


@given(took_s=st.floats(0, 1), left_s=st.floats(1e-6, 1))
def test_a_full_batch_that_left_its_own_time_changes_nothing(took_s: float, left_s: float) -> None:
    if took_s <= left_s:
        assert after(MOST, 0, MOST, took_s, left_s, BUDGET_S) == (MOST, 0)


@given(
    size=st.integers(1, MOST),
    careful=st.integers(0, CAREFUL),
    done=st.integers(1, MOST),
    took_s=st.floats(0, 1e6),
    left_s=st.floats(-1e6, 1e6),
    budget_s=st.floats(0, 1e3),
)
def test_a_batch_has_one_at_least_and_sixteen_at_most(
    size: int, careful: int, done: int, took_s: float, left_s: float, budget_s: float
) -> None:
    following, still = after(size, careful, done, took_s, left_s, budget_s)

    assert 1 <= following <= min(2 * size, MOST)
    assert 0 <= still <= CAREFUL


def test_one_that_was_far_too_long_is_remembered_for_a_stated_number() -> None:
    size, careful = after(MOST, 0, MOST, 0.01, -0.009, BUDGET_S)
    for left in range(CAREFUL, 0, -1):
        assert (size, careful) == (1, left)
        size, careful = after(size, careful, 1, 1e-7, BUDGET_S / 2, BUDGET_S)

    assert (size, careful) == (2, 0)
