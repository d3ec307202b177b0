"""How long an end waits, under drawn words, changes of contact and times at which the process stands still."""

from __future__ import annotations

from math import inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actorflow.transport.rules.failure_detector import FailureDetector
from actorflow.transport.rules.link_settings import LinkSettings
from actorflow.transport.rules.wire import Contact
from tests.support.strategies import examples

waits = st.sampled_from([0.5, 3.0, 10.0, 60.0, 200.0])
events = st.lists(
    st.tuples(
        st.sampled_from([*Contact, "heard", "late", None]), st.sampled_from([0.0, 0.4, 2.0, 7.0, 30.0])
    ),
    max_size=30,
)


@given(events=events, busy_s=waits, gone_s=waits, met=st.booleans())
@settings(max_examples=examples(300))
def test_nobody_is_lost_early_or_never(
    events: list[tuple[object, float]], busy_s: float, gone_s: float, met: bool
) -> None:
    chosen = LinkSettings(busy_s=busy_s, gone_s=gone_s)
    patience = FailureDetector(chosen)
    most_s = max(busy_s, chosen.silence_s, gone_s)
    now, heard_at, since, spared, awake = 0.0, 0.0, -inf, -inf, -inf
    for event, seconds in events:
        now += seconds
        over = now >= patience.ends_at(heard_at, met=met)
        if isinstance(event, Contact):
            changed = event is not patience.contact
            again = patience.note_contact(event, now)
            since = now if changed else since
            assert again == (changed and event is Contact.CONNECTED)
            assert over or patience.ends_at(heard_at, met=met) > now, "a change never ends a wait at once"
        elif event == "heard":
            heard_at = now
        elif event == "late":
            patience.late(now, 2.6)
            spared, awake = now + chosen.heartbeat_s, now
            assert patience.ends_at(heard_at, met=met) >= spared

        least_s = {
            Contact.UNKNOWN: chosen.silence_s,
            Contact.CONNECTED: max(busy_s, chosen.silence_s),
            Contact.BROKEN: gone_s if met else max(chosen.silence_s, 0),
        }[patience.contact]
        end = patience.ends_at(heard_at, met=met)
        if patience.contact is Contact.BROKEN and met:
            assert end >= min(max(since, heard_at) + gone_s, max(heard_at, awake) + most_s)
        elif patience.contact is Contact.CONNECTED:
            assert end >= max(heard_at, awake) + least_s, "who stood still has heard no word meanwhile"
        else:
            assert end >= heard_at + least_s
        assert end <= max(max(heard_at, awake) + most_s, spared)


@pytest.mark.parametrize(
    ("contact", "met", "end", "what"),
    [
        (Contact.UNKNOWN, True, 11.0, "'b' has been silent for 10 s, limit 10 s"),
        (
            Contact.CONNECTED,
            True,
            60.0,
            "'b' has been busy for 60 s, limit 60 s: it is connected and says nothing",
        ),
        (Contact.CONNECTED, False, 60.0, "'b' has been busy for 60 s"),
        (Contact.BROKEN, True, 4.0, "'b' is gone: its connection broke and has not come back for 3 s"),
        (Contact.BROKEN, False, 10.0, "'b' has been silent for 10 s, limit 10 s"),
    ],
)
def test_the_wait_and_the_reason_are_those_of_the_contact(
    contact: Contact, met: bool, end: float, what: str
) -> None:
    patience = FailureDetector(LinkSettings())
    if contact is not Contact.UNKNOWN:
        patience.note_contact(contact, 1.0)
    heard_at = 1.0 if contact is Contact.UNKNOWN else 0.0

    assert patience.ends_at(heard_at, met=met) == end
    assert what in patience.reason("b", heard_at, end, met=met).what


def test_who_stood_still_counts_the_longest_wait_from_then() -> None:
    patience = FailureDetector(LinkSettings())
    patience.note_contact(Contact.CONNECTED, 0.0)
    patience.late(500.0, 490.0)
    patience.note_contact(Contact.BROKEN, 500.1)
    assert patience.ends_at(0.0, met=True) == 503.1, "what breaks then has all its time to come back"
    patience.note_contact(Contact.CONNECTED, 503.0)
    assert patience.ends_at(0.0, met=True) == 560.0, "and who is only busy then as well"
    patience.note_contact(Contact.BROKEN, 559.9)
    assert patience.ends_at(0.0, met=True) == 560.0, "and not for ever"


def test_a_broken_connection_is_spared_by_a_shorter_stop() -> None:
    patience = FailureDetector(LinkSettings())
    patience.late(5.0, 1.0)
    assert patience.ends_at(0.0, met=True) == 10.0
    patience.note_contact(Contact.BROKEN, 0.0)
    patience.late(5.0, 0.7)
    assert patience.ends_at(0.0, met=True) == 3.0
    patience.late(5.0, 1.0)
    assert patience.ends_at(0.0, met=True) == 7.5
