import pytest
from hypothesis import given
from hypothesis import strategies as st

from actorflow.errors import ConfigError
from actorflow.launch.exits import worth_restart
from actorflow.launch.restarting import (
    NEVER,
    GiveUp,
    Past,
    Restart,
    Restarts,
    decide,
    next_incarnation,
    told_incarnation,
)

rules = st.builds(
    Restarts,
    limit=st.integers(0, 4),
    window_s=st.sampled_from([1.0, 10.0]),
    first_s=st.sampled_from([0.0, 0.1, 0.5]),
    max_s=st.sampled_from([0.5, 2.0]),
    healthy_s=st.sampled_from([0.5, 5.0]),
)
lives = st.lists(st.tuples(st.sampled_from([1, -9, 75, -11]), st.floats(0, 8)), max_size=30)


def run(rule, lives):
    """Lives one after the other, until one is the last: when each ended, how long it was, what was decided."""
    past, now_s = Past(), 0.0
    for returncode, lasted_s in lives:
        now_s += lasted_s
        past, what = decide(past, rule, returncode, lasted_s=lasted_s, now_s=now_s)
        yield now_s, lasted_s, what
        if isinstance(what, GiveUp):
            return
        now_s += what.after_s


@given(rules, lives)
def test_no_window_has_more_restarts_than_the_limit(rule, lives):
    times = [now_s for now_s, _, what in run(rule, lives) if isinstance(what, Restart)]

    for first in times:
        assert sum(first <= at <= first + rule.window_s for at in times) <= rule.limit


@given(rules, lives)
def test_a_process_is_given_up_only_when_the_window_is_full(rule, lives):
    seen = list(run(rule, lives))
    times = [now_s for now_s, _, what in seen if isinstance(what, Restart)]

    for now_s, _, what in seen:
        if isinstance(what, GiveUp):
            assert what.gave_up
            assert sum(now_s - rule.window_s <= at <= now_s for at in times) == rule.limit


@given(rules, lives)
def test_each_restart_in_a_row_waits_twice_as_long_up_to_the_most(rule, lives):
    row = 0
    for _, lasted_s, what in run(rule, lives):
        if isinstance(what, Restart):
            row = 0 if lasted_s >= rule.healthy_s else row
            assert what.after_s == min(rule.max_s, rule.first_s * 2**row)
            row += 1


@given(rules, st.sampled_from([code for code in range(-64, 256) if not worth_restart(code)]))
def test_what_is_not_worth_another_life_gets_none(rule, returncode):
    _, what = decide(Past(), rule, returncode, lasted_s=0, now_s=0)

    assert isinstance(what, GiveUp)
    assert not what.gave_up


@given(st.lists(st.integers(0, 2**43), min_size=1))
def test_every_life_is_later_than_the_one_before_whatever_the_clock_does(clock):
    previous = 0
    for now_ms in clock:
        life = next_incarnation(previous, now_ms)
        assert life > previous
        assert life >= now_ms
        previous = life


def test_a_process_that_is_given_up_says_how_often_it_was_tried():
    *_, (_, _, last) = run(Restarts(limit=2), [(-9, 0.0)] * 3)

    assert last == GiveUp("was killed by SIGKILL after 2 restarts in 60 s", gave_up=True)


def test_never_is_no_restart():
    assert decide(Past(), NEVER, 1, lasted_s=0, now_s=0)[1] == GiveUp(
        "ended with 1: the run failed", gave_up=True
    )


def test_a_row_of_any_length_has_a_wait():
    assert decide(Past(row=10**6), Restarts(), 1, lasted_s=0, now_s=0)[1] == Restart(5.0)


@pytest.mark.parametrize(
    "wrong",
    [
        {"limit": -1},
        {"limit": 1.5},
        {"limit": True},
        {"window_s": -1},
        {"window_s": "60"},
        {"healthy_s": True},
        {"first_s": float("nan")},
        {"max_s": 0.01},
        {"healthy_s": float("inf")},
    ],
)
def test_a_rule_that_cannot_mean_anything_is_refused(wrong):
    with pytest.raises(ConfigError, match=f"{next(iter(wrong))} must be"):
        Restarts(**wrong)


def test_a_life_is_what_a_supervisor_says_once_and_else_the_time() -> None:
    assert told_incarnation(None, 0, 50) == 50
    assert told_incarnation("70", 0, 50) == 70
    assert told_incarnation("70", 70, 50) == 71
    assert told_incarnation("70", 70, 90) == 90
    for wrong in ("", "0", "-1", "pear", "9" * 20):
        with pytest.raises(ConfigError, match="ACTORFLOW_INCARNATION must be a number from 1 on"):
            told_incarnation(wrong, 0, 50)
