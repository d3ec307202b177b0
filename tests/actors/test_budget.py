"""When whoever runs handlers looks at the clock: laws of the rule, over drawn durations."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actorflow.actors.budget import CAREFUL, MOST, after

BUDGET_S = 0.001
Rule = Callable[[int, int, float, float, float], tuple[int, int]]


def pump(durations: list[float], size: int, careful: int, rule: Rule = after) -> tuple[int, float, int, int]:
    """Returns handlers run by one pump, how long it held the loop, and the state after it."""
    done, held = 0, 0.0
    while done < len(durations) and held < BUDGET_S:
        batch = durations[done : done + size]
        done += len(batch)
        held += sum(batch)
        size, careful = rule(size, careful, sum(batch), BUDGET_S - held, BUDGET_S)
    return done, held, size, careful


def holds_no_longer_than_one_handler_more(each_s: float, rule: Rule) -> bool:
    size, careful = 1, 0
    for _ in range(3):
        _, held, size, careful = pump([each_s] * 20_000, size, careful, rule)
        if held > BUDGET_S + each_s * 1.001:
            return False
    return True


@given(each_s=st.floats(1e-6, 1.0).filter(lambda s: s * MOST > BUDGET_S))
def test_however_slow_handlers_are_the_loop_is_given_back_after_the_budget_and_one(each_s: float) -> None:
    assert holds_no_longer_than_one_handler_more(each_s, after)


@pytest.mark.parametrize(
    "planted",
    [
        lambda size, careful, took, left, whole: (MOST, 0),  # a count
        lambda size, careful, took, left, whole: (min(2 * size, MOST), 0),  # grows whatever it took
        lambda size, careful, took, left, whole: (
            min(2 * size, MOST) if took < left else 1,
            0,
        ),  # half as far
    ],
)
def test_the_law_finds_a_rule_that_does_not_reckon_with_what_is_left(planted: Rule) -> None:
    slow = [1e-6 * k for k in range(70, 3000, 7)]

    assert all(holds_no_longer_than_one_handler_more(s, after) for s in slow)
    assert not all(holds_no_longer_than_one_handler_more(s, planted) for s in slow)


@given(slow_s=st.floats(0.002, 1.0), fast=st.integers(0, 200))
def test_slow_ones_after_fast_ones_hold_the_loop_for_sixteen_at_most_once(slow_s: float, fast: int) -> None:
    line = [1e-7] * fast + [slow_s] * 64
    size, careful, long_ones = 1, 0, 0
    while line:
        done, held, size, careful = pump(line, size, careful)
        line = line[done:]
        assert held <= BUDGET_S + MOST * slow_s
        long_ones += held > BUDGET_S + 1.5 * slow_s

    assert long_ones <= 1


@given(slow_s=st.floats(0.002, 1.0), gap=st.integers(0, 50))
def test_bursts_of_slow_ones_among_fast_ones_are_looked_at_one_by_one(slow_s: float, gap: int) -> None:
    line = ([1e-7] * gap + [slow_s] * 8) * 16
    size, careful, long_ones = 1, 0, 0
    while line:
        done, held, size, careful = pump(line, size, careful)
        line = line[done:]
        long_ones += held > BUDGET_S + 1.5 * slow_s

    assert long_ones <= 1


@given(size=st.sampled_from([1, 2, 4, 8, MOST]))
def test_fast_ones_are_soon_looked_at_sixteen_at_a_time_and_stay_so(size: int) -> None:
    careful = 0
    for _ in range(5):
        size, careful = after(size, careful, size * 1e-7, BUDGET_S / 2, BUDGET_S)

    assert (size, careful) == (MOST, 0)
    _, _, size, careful = pump([1e-7] * 50_000, size, careful)
    assert size >= 1
    assert careful == 0


@given(took_s=st.floats(0, 1), left_s=st.floats(1e-6, 1))
def test_a_full_batch_that_left_its_own_time_changes_nothing(took_s: float, left_s: float) -> None:
    if took_s <= left_s:
        assert after(MOST, 0, took_s, left_s, BUDGET_S) == (MOST, 0)


def test_one_that_was_far_too_long_is_remembered_for_a_stated_number() -> None:
    size, careful = after(MOST, 0, 0.01, -0.009, BUDGET_S)
    for left in range(CAREFUL, 0, -1):
        assert (size, careful) == (1, left)
        size, careful = after(size, careful, 1e-7, BUDGET_S / 2, BUDGET_S)

    assert (size, careful) == (1, 0)
    assert after(size, careful, 1e-7, BUDGET_S / 2, BUDGET_S) == (2, 0)
