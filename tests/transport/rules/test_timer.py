"""One timer for what is due first, under drawn times."""

from __future__ import annotations

from math import inf

from hypothesis import given, settings
from hypothesis import strategies as st

from actorflow.transport.rules.timer import EarliestTimer
from tests.support.strategies import examples
from tests.transport.net import Time


class Bell:
    """A timer that writes down when it came, and how late."""

    def __init__(self) -> None:
        self.time = Time()
        self.rang: list[tuple[float, float]] = []
        self.alarm = EarliestTimer(self.time, lambda late_s: self.rang.append((self.time.at_s, late_s)))

    def wait(self, until_s: float) -> None:
        self.time.at_s = until_s
        self.time.ring()


@given(
    dues=st.lists(st.tuples(st.floats(0.0, 5.0), st.sampled_from([0.0, 0.3, 1.0])), max_size=20),
)
@settings(max_examples=examples(200))
def test_it_never_comes_later_than_what_is_due_however_often_that_changes(
    dues: list[tuple[float, float]],
) -> None:
    bell = Bell()
    for ahead_s, pause_s in dues:
        now = bell.time.now()
        due = now + ahead_s
        bell.alarm.set(due)
        assert bell.alarm.covers(due)
        rung = len(bell.rang)
        bell.wait(now + pause_s)
        assert len(bell.rang) > rung or now + pause_s < max(due, now + 2e-3)
    bell.alarm.stop()
    rung = len(bell.rang)
    bell.wait(100.0)

    assert len(bell.rang) == rung


def test_what_moves_away_leaves_the_timer_where_it_is() -> None:
    bell = Bell()
    for due in (1.0, 2.0, 3.0):
        bell.alarm.set(due)

    assert len(bell.time.timers) == 1
    bell.wait(1.0)
    assert bell.rang == [(1.0, 0.0)]


def test_what_comes_nearer_sets_it_anew() -> None:
    bell = Bell()
    bell.alarm.set(2.0)
    bell.alarm.set(1.0)
    bell.wait(1.0)
    bell.wait(2.0)

    assert bell.rang == [(1.0, 0.0)]


def test_it_does_not_come_when_nothing_is_due_any_more() -> None:
    bell = Bell()
    bell.alarm.set(1.0)
    bell.alarm.set(inf)
    bell.wait(5.0)

    assert bell.rang == []
    assert not bell.alarm.covers(inf)
    assert repr(bell.alarm) == "<EarliestTimer, not set>"


def test_it_tells_how_late_it_came_even_when_it_was_set_for_what_was_due_before() -> None:
    bell = Bell()
    bell.wait(3.0)
    bell.alarm.set(1.0)
    assert repr(bell.alarm) == "<EarliestTimer at 1.000 s>"
    bell.wait(3.5)

    assert bell.rang == [(3.5, 2.5)]
