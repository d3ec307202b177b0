"""What no honest end says: heads and greetings that were damaged on their way change no session."""

from __future__ import annotations

import pytest

from actorflow.transport.credit import Window
from actorflow.transport.datagrams import NOBODY, Datagram, End, Form, Hello, pack, pack_hello
from tests.transport.net import Net, data


@pytest.mark.parametrize("target", [NOBODY, End(1, 9)])
@pytest.mark.parametrize("hello", [Hello(Window(), "other"), Hello(Window(), "", version=9)])
def test_an_end_that_is_in_a_session_runs_what_it_said_first(target: End, hello: Hello) -> None:
    net = Net()
    net.deliver()

    net.a.receive(pack(Datagram(Form.HELLO, End(1, 1), target, payload=pack_hello(hello))))
    net.a.send(data(1))
    net.deliver()

    assert (net.at_a.losses, net.at_b.losses, net.at_b.bodies()) == ([], [], [1])
    assert net.a.stats().refused == 1


@pytest.mark.parametrize("form", [Form.BEAT, Form.PROBE])
def test_an_end_that_greets_is_not_fenced_by_a_word_that_it_never_said(form: Form) -> None:
    net = Net()

    net.a.receive(pack(Datagram(form, End(1, 1), End(4, 1))))
    net.deliver()
    net.b.send(data(1))
    net.deliver()

    assert net.at_a.bodies() == [1]


def test_who_has_started_again_tells_whoever_speaks_to_its_earlier_life() -> None:
    """By its Hello, which says more than a Reset."""
    net = Net()

    net.a.receive(pack(Datagram(Form.BEAT, End(7, 2), End(1, 9))))

    (_, answer) = net.from_a.log
    assert (answer.form, answer.source, answer.target) == (Form.HELLO, End(1, 1), End(7, 2))
