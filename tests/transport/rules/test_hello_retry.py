"""When an end says Hello."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from actorflow.transport.rules.hello_retry import HelloRetry
from actorflow.transport.rules.link_settings import SETTINGS, LinkSettings
from tests.support.strategies import examples


def waits(greeting: HelloRetry, n: int) -> list[float]:
    """Says Hello whenever it is due; returns the waits between."""
    times = [greeting.at]
    for _ in range(n):
        greeting.note_sent(times[-1])
        times.append(greeting.at)
    return [round(later - before, 9) for before, later in pairwise(times)]


def test_a_session_that_is_over_is_begun_anew_at_once_and_then_after_waits_that_double() -> None:
    greeting = HelloRetry(LinkSettings(resend_s=0.2, heartbeat_s=1.0))
    greeting.begin(7.0)

    assert greeting.at == 7.0
    assert waits(greeting, 5) == [0.2, 0.4, 0.8, 1.0, 1.0]


def test_who_was_refused_waits_as_long_each_time() -> None:
    greeting = HelloRetry(SETTINGS)
    greeting.begin(7.0, SETTINGS.silence_s)
    assert greeting.at == 7.0 + SETTINGS.silence_s
    greeting.hurry()

    assert waits(greeting, 3) == [SETTINGS.silence_s] * 3


def test_a_peer_that_can_be_reached_again_is_greeted_after_short_waits() -> None:
    greeting = HelloRetry(SETTINGS)
    waits(greeting, 9)
    greeting.hurry()

    assert waits(greeting, 2) == [SETTINGS.resend_s, 2 * SETTINGS.resend_s]


@given(events=st.lists(st.sampled_from(["said", "hurry", "begin", "late", "refused"]), max_size=30))
@settings(max_examples=examples(200))
def test_the_next_hello_is_neither_at_once_nor_far_away(events: list[str]) -> None:
    greeting, now, refused = HelloRetry(SETTINGS), 0.0, False
    for event in events:
        now = max(now, greeting.at)
        if event == "hurry":
            greeting.hurry()
        elif event == "late":
            now += 20.0
        elif event != "said":
            refused = event == "refused"
            greeting.begin(now, SETTINGS.silence_s if refused else 0.0)
        greeting.note_sent(now)
        most_s = SETTINGS.silence_s if refused else SETTINGS.heartbeat_s
        assert now + SETTINGS.resend_s <= greeting.at <= now + most_s
    assert repr(greeting).startswith("<HelloRetry at ")
