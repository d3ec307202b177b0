"""What is sent in one turn of the loop leaves together, and arrives as if it had not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actorflow.transport.rules.channel import Channel, Envelope, Lane
from actorflow.transport.rules.credit import Window
from actorflow.transport.rules.datagrams import DatagramKind, unpack
from actorflow.transport.rules.link_settings import SETTINGS, LinkSettings
from tests.support.strategies import examples
from tests.transport.net import Net, control, data
from tests.transport.values import same
from tests.transport.ways import Counting


def chunks(net: Net) -> int:
    return net.from_a.forms().count(DatagramKind.CHUNK)


def met(settings: LinkSettings = SETTINGS) -> Net:
    net = Net(settings, turns=True)
    net.deliver()
    return net


def test_what_is_sent_in_one_turn_is_one_datagram_a_lane() -> None:
    net = met()
    for i in range(50):
        assert net.a.send(data(i))
        assert net.a.send(control(i))
    assert net.from_a.waiting == []
    net.turn()
    assert chunks(net) == 2
    net.deliver()

    assert net.at_b.bodies() == net.at_b.bodies(Lane.CONTROL) == list(range(50))
    assert net.a.stats().datagrams_sent < 8


@pytest.mark.parametrize("message", [data, control])
def test_in_a_long_turn_what_fills_a_datagram_leaves_at_once(message: Callable[[int], Envelope]) -> None:
    net = met()
    for i in range(1000):
        net.a.send(message(i))
    left = chunks(net)
    net.deliver()

    assert 8 <= left <= 20
    assert net.at_b.bodies() + net.at_b.bodies(Lane.CONTROL) == list(range(1000))


def test_credit_goes_back_within_a_turn_when_the_peer_may_need_it_soon() -> None:
    net = met(LinkSettings(window=Window(messages=8)))
    net.at_b.parks = True
    for i in range(8):
        net.a.send(data(i))
    net.turn()
    net.b.receive(net.from_a.waiting.pop())
    net.turn()
    net.from_b.waiting.clear()
    told = []
    for envelope in net.at_b.parked:
        net.b.release(envelope)
        told.append(len(net.from_b.waiting))

    assert told == [0, 0, 0, 1, 1, 1, 1, 2]
    assert unpack(net.from_b.waiting[0]).received.messages == 4


def test_who_stands_in_line_is_told_as_without_turns() -> None:
    net = met(LinkSettings(window=Window(messages=2)))
    net.at_b.parks = True
    senders = [Counting() for _ in range(4)]
    assert [net.a.send(data(i), sender) for i, sender in enumerate(senders)] == [True, True, False, False]
    net.deliver()
    net.b.release(net.at_b.parked[0])
    net.deliver()

    assert [sender.n for sender in senders] == [0, 0, 1, 0]


def test_what_was_sent_before_the_channel_is_closed_leaves_before_the_goodbye() -> None:
    net = met()
    net.a.send(data(1))
    net.a.close()
    net.deliver()

    assert net.at_b.bodies() == [1]


def test_a_session_that_ends_within_a_turn_takes_what_had_not_left_along() -> None:
    net = met()
    net.a.send(data(1))
    net.a.receive([b"?"])
    net.deliver()
    net.pass_time(5.0)
    net.a.send(data(2))
    net.deliver()

    assert net.at_b.bodies() == [2]
    assert [unacknowledged for _, unacknowledged in net.at_a.losses] == [(data(1),)]


@given(
    sent=st.lists(
        st.tuples(
            st.sampled_from(Lane), st.sampled_from([0, 3, 600, 5000, 70_000, 1_100_000]), st.booleans()
        ),
        max_size=12,
    ),
    window=st.sampled_from([Window(3, 1 << 20), Window()]),
    borrowed=st.booleans(),
)
@settings(max_examples=examples(60), deadline=None)
def test_joined_or_not_all_arrives_the_same(
    sent: list[tuple[Lane, int, bool]], window: Window, borrowed: bool
) -> None:
    got = []
    for turns in (True, False):
        net = Net(LinkSettings(window=window), turns=turns)
        net.deliver()
        if borrowed:
            lend(net)
        for n, (lane, size, ends) in enumerate(sent):
            body = (n, np.arange(size, dtype=np.uint8), b"x" * (size // 7), {"k": [1.5, None]})
            net.a.send(Envelope("x", body, lane=lane))
            if ends:
                net.deliver()
        net.deliver()
        net.pass_time(1.0)
        assert net.a.stats().unacknowledged == 0
        assert net.a.stats().credit == window
        got.append({lane: net.at_b.bodies(lane) for lane in Lane})

    assert [len(got[0][lane]) for lane in Lane] == [sum(lane is of for of, _, _ in sent) for lane in Lane]
    assert all(same(got[0][lane], got[1][lane]) for lane in Lane)


def lend(net: Net) -> None:
    """Lets `b` hear from memory that is something else afterwards."""
    receive = net.b.receive

    def lent(parts: Any) -> None:
        memory = [bytearray(part) for part in parts]
        receive(memory, borrowed=True)
        for part in memory:
            part[:] = b"\xee" * len(part)

    net.b.receive = lent  # type: ignore[method-assign, assignment]


def test_borrowed_memory_that_comes_out_of_order_is_copied() -> None:
    net = met()
    lend(net)
    for i in range(3):
        net.a.send(data((i, np.full(9, i))))
        net.turn()
    net.from_a.waiting.reverse()
    net.deliver()

    assert [(i, array.tolist()) for i, array in net.at_b.bodies()] == [(i, [i] * 9) for i in range(3)]


@pytest.mark.parametrize("turns", [True, False])
def test_what_is_acknowledged_was_delivered_even_if_the_receiver_fails_in_the_middle(turns: bool) -> None:
    """The answer to the first message would acknowledge the second, which reaches nobody."""
    net = Net(turns=turns)
    for i in range(3):
        net.a.send(data(i))  # before they have met: they leave as one

    def answer(channel: Channel, envelope: Envelope) -> None:
        if envelope.body:
            raise ZeroDivisionError
        channel.send(data("answer"))

    net.at_b.then = answer
    with pytest.raises(ZeroDivisionError):
        net.deliver()
    net.deliver()

    came = net.at_b.bodies()
    ((_, unacknowledged),) = net.at_a.losses
    assert came == [0, 1]
    assert {0, 1, 2} - {envelope.body for envelope in unacknowledged} <= {0}


@pytest.mark.parametrize("turns", [True, False])
def test_an_answer_leaves_before_the_goodbye_and_acknowledges_only_what_came(turns: bool) -> None:
    net = Net(turns=turns)
    for i in range(3):
        net.a.send(data(i))

    def answer(channel: Channel, envelope: Envelope) -> None:
        channel.send(data("answer"))
        channel.close()

    net.at_b.then = answer
    net.deliver()

    assert net.at_b.bodies() == [0]
    assert net.at_a.bodies() == ["answer"]
    ((_, unacknowledged),) = net.at_a.losses
    assert {envelope.body for envelope in unacknowledged} == {0, 1, 2}
