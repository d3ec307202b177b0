"""What no honest end says: heads and greetings that were damaged on their way change no session."""

from __future__ import annotations

import pytest

from actorflow.transport.rules.credit import Window
from actorflow.transport.rules.datagrams import (
    NOBODY,
    Datagram,
    DatagramKind,
    Hello,
    SessionEnd,
    pack,
    pack_hello,
)
from actorflow.transport.rules.handshake import Phase
from tests.transport.net import Net, data


@pytest.mark.parametrize("target", [NOBODY, SessionEnd(1, 9)])
@pytest.mark.parametrize("hello", [Hello(Window(), "other"), Hello(Window(), "", version=9)])
def test_an_end_that_is_in_a_session_runs_what_it_said_first(target: SessionEnd, hello: Hello) -> None:
    net = Net()
    net.deliver()

    net.a.receive(pack(Datagram(DatagramKind.HELLO, SessionEnd(1, 1), target, payload=pack_hello(hello))))
    net.a.send(data(1))
    net.deliver()

    assert (net.at_a.losses, net.at_b.losses, net.at_b.bodies()) == ([], [], [1])
    assert net.a.stats().refused == 1


@pytest.mark.parametrize("form", [DatagramKind.BEAT, DatagramKind.PROBE])
def test_an_end_that_greets_is_not_fenced_by_a_word_that_it_never_said(form: DatagramKind) -> None:
    net = Net()

    net.a.receive(pack(Datagram(form, SessionEnd(1, 1), SessionEnd(4, 1))))
    net.deliver()
    net.b.send(data(1))
    net.deliver()

    assert net.at_a.bodies() == [1]


def test_who_has_started_again_tells_whoever_speaks_to_its_earlier_life() -> None:
    """By its Hello, which says more than a Reset."""
    net = Net()

    net.a.receive(pack(Datagram(DatagramKind.BEAT, SessionEnd(7, 2), SessionEnd(1, 9))))

    (_, answer) = net.from_a.log
    assert (answer.form, answer.source, answer.target) == (
        DatagramKind.HELLO,
        SessionEnd(1, 1),
        SessionEnd(7, 2),
    )


def test_an_end_that_greets_is_not_fenced_by_who_was_in_the_session_first_and_ended_it() -> None:
    net = Net(turns=True)
    net.turn()
    net.from_b.waiting.clear()
    net.b.receive(net.from_a.waiting.pop())
    net.a.receive(net.from_b.waiting.pop())  # now a is in the session, and b has not heard of it
    assert (net.a.phase, net.b.phase) == (Phase.OPEN, Phase.GREETING)

    net.a.receive([b"garbage"])
    net.deliver()
    net.pass_time(3.0)
    net.b.send(data(1))
    net.deliver()

    assert (net.at_a.bodies(), net.a.phase, net.b.phase) == ([1], Phase.OPEN, Phase.OPEN)
