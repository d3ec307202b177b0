from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actorflow.actors import timers
from actorflow.actors.timers import Timers
from tests.support.strategies import FOUND, examples

Events = list[tuple[str, int]]

EVENTS = st.lists(
    st.tuples(st.sampled_from(("start", "ring", "cancel", "take", "end")), st.integers(0, 2)), max_size=24
)


def deliveries(
    events: Events, cancelled: Callable[[Timers, int], Timers], ended: Callable[[Timers], Timers]
) -> list[tuple[int, int]]:
    """Plays a history; returns what was delivered, as (number of the timer, incarnation at delivery).

    A number is used once: that of the event that sets it. `start k` sets a timer, `ring k` etc. are about the
    k-th of all that were set, wherever they stand.
    """
    state, incarnation, made = Timers(), 0, 0
    out: list[tuple[int, int]] = []
    for event, which in events:
        number = which % made if made else -1
        if event == "start":
            state, made = timers.started(state, made), made + 1
        elif event == "end":
            state, incarnation = ended(state), incarnation + 1
        elif event == "ring":
            state = timers.rang(state, number)
        elif event == "cancel":
            state = cancelled(state, number)
        else:
            state, delivered = timers.taken(state, number)
            if delivered:
                out.append((number, incarnation))
        assert not state.running & state.rung
    return out


def check(events: Events, out: list[tuple[int, int]]) -> None:
    """Asserts what the rule promises, from the history alone."""
    assert len({number for number, _ in out}) == len(out), "delivered twice"
    born: dict[int, int] = {}
    rung: set[int] = set()
    dead: set[int] = set()
    incarnation, expected = 0, []
    for event, which in events:
        number = which % len(born) if born else -1
        if event == "start":
            born[len(born)] = incarnation
        elif event == "end":
            incarnation += 1
        elif event == "ring" and number >= 0 and number not in dead and born[number] == incarnation:
            rung.add(number)
        elif event == "cancel":
            dead.add(number)
        elif event == "take" and number in rung - dead and born[number] == incarnation:
            expected.append((number, incarnation))
            dead.add(number)
        elif event == "take" and number >= 0:
            dead.add(number)  # the rule takes what is off the mailbox to be over
    assert out == expected


@settings(max_examples=examples(300))
@given(EVENTS)
def test_what_is_delivered_was_set_by_the_present_incarnation_rang_and_was_not_cancelled(
    events: Events,
) -> None:
    check(events, deliveries(events, timers.cancelled, timers.ended))


def _cancels_what_runs(state: Timers, number: int) -> Timers:
    return Timers(state.running - {number}, state.rung)


def _ends_what_runs(state: Timers) -> Timers:
    return Timers(frozenset(), state.rung)


@pytest.mark.parametrize(
    ("cancelled", "ended"), [(_cancels_what_runs, timers.ended), (timers.cancelled, _ends_what_runs)]
)
def test_the_law_finds_a_rule_that_forgets_what_has_rung(
    cancelled: Callable[[Timers, int], Timers], ended: Callable[[Timers], Timers]
) -> None:
    @settings(**FOUND, max_examples=3000)
    @given(EVENTS)
    def law(events: Events) -> None:
        check(events, deliveries(events, cancelled, ended))

    with pytest.raises(AssertionError):
        law()
