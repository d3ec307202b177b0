"""What a link makes of what its wire knows of the peer."""

from __future__ import annotations

import pytest

from actorflow.errors import ConfigError
from actorflow.transport.links.link import Link
from actorflow.transport.rules.datagrams import DatagramKind
from actorflow.transport.rules.link_settings import LinkSettings
from actorflow.transport.rules.wire import Contact
from tests.transport.net import Net, control, data


def connected() -> Net:
    net = Net(contact=Contact.CONNECTED)
    net.deliver()
    return net


def test_a_peer_that_is_connected_may_be_busy_for_long() -> None:
    net = connected()
    net.a.send(data(1))
    net.pass_time(59.5, step_s=0.25, lossless=False)
    assert net.at_a.losses == []
    net.pass_time(1.0, step_s=0.25, lossless=False)

    ((reason, unacknowledged),) = net.at_a.losses
    assert reason.what == "'worker0' has been busy for 60 s, limit 60 s: it is connected and says nothing"
    assert unacknowledged == (data(1),)


def test_a_busy_peer_does_not_find_a_heap_of_what_was_resent() -> None:
    net = connected()
    for i in range(20):
        net.a.send(data(i))
    net.pass_time(55.0, step_s=0.25, lossless=False)
    chunks = [datagram for datagram in net.from_a.log if datagram.form is DatagramKind.CHUNK]

    assert 20 < len(chunks) < 20 + 10
    net.pass_time(16.0)
    assert net.at_b.bodies() == list(range(20))


def test_a_peer_whose_connection_is_broken_is_soon_gone() -> None:
    net = connected()
    net.pass_time(1.0)
    net.know(Contact.BROKEN)
    net.pass_time(2.9, lossless=False)
    assert net.at_a.losses == net.at_b.losses == []
    net.pass_time(0.3, lossless=False)

    for end, name in ((net.at_a, "worker0"), (net.at_b, "ps0")):
        ((reason, _),) = end.losses
        assert reason.what == f"'{name}' is gone: its connection broke and has not come back for 3 s"


def test_a_connection_that_comes_back_costs_no_wait() -> None:
    net = connected()
    net.know(Contact.BROKEN)
    net.pass_time(1.0, lossless=False)
    for i in range(70):
        net.a.send(data(i))
    net.a.send(control("c"))
    net.pass_time(1.5, lossless=False)
    net.know(Contact.CONNECTED)
    net.deliver()  # and no time passes

    assert net.at_b.bodies() == list(range(70))
    net.pass_time(0.05)
    assert net.a.stats().unacknowledged == 0
    assert (net.at_a.losses, net.at_b.losses) == ([], [])


def test_what_the_other_end_lost_with_the_connection_is_asked_for_by_its_silence() -> None:
    """Only one end finds out that the connection is another."""
    net = connected()
    net.a.send(data(1))
    net.lose()
    net.from_a.knows = Contact.BROKEN
    net.a.contact_changed()
    net.from_a.knows = Contact.CONNECTED
    net.a.contact_changed()
    net.deliver()

    assert net.at_b.bodies() == [1]


def test_two_that_are_connected_late_greet_at_once() -> None:
    net = Net(contact=Contact.BROKEN)
    net.lose()
    net.a.send(data(1))
    net.pass_time(7.0, lossless=False)
    net.know(Contact.CONNECTED)
    net.deliver()

    assert net.at_b.bodies() == [1]
    assert net.at_a.losses == []


def test_a_peer_that_is_not_there_yet_is_waited_for_as_without_contact() -> None:
    net = Net(contact=Contact.BROKEN)
    net.a.send(data(1))
    net.pass_time(9.9, lossless=False)
    assert net.at_a.losses == []
    net.pass_time(0.2, lossless=False)

    ((reason, _),) = net.at_a.losses
    assert reason.what == "'worker0' has been silent for 10 s, limit 10 s"


def test_a_lost_peer_that_is_connected_again_is_met_at_once() -> None:
    net = connected()
    net.know(Contact.BROKEN)
    net.pass_time(20.0, lossless=False)
    net.know(Contact.CONNECTED)
    net.deliver()
    net.a.send(data("again"))
    net.deliver()

    assert net.at_b.bodies() == ["again"]


def test_a_process_that_stood_still_gives_nobody_up_at_once() -> None:
    net = connected()
    net.know(Contact.BROKEN)
    net.time.at_s += 40.0
    net.time.ring()
    assert net.at_a.losses == []
    net.pass_time(2.0, lossless=False)
    net.know(Contact.CONNECTED)
    net.pass_time(5.0)
    assert (net.at_a.losses, net.at_b.losses) == ([], [])

    net.know(Contact.BROKEN)
    net.time.at_s += 40.0
    net.pass_time(3.0, lossless=False)
    assert len(net.at_a.losses) == 1, "but not never"


def test_the_wait_is_short_again_when_the_contact_changes() -> None:
    """The timer of the longer wait is taken back."""
    net = Net(LinkSettings(gone_s=0.5), contact=Contact.CONNECTED)
    net.deliver()
    net.pass_time(0.1)
    net.know(Contact.BROKEN)
    net.pass_time(0.6, lossless=False)

    assert len(net.at_a.losses) == 1


def test_a_link_that_has_not_begun_hears_nothing_of_contact() -> None:
    net = Net()
    link = Link("worker1", net.from_a, net.time, incarnation=1)
    net.lose()
    net.from_a.knows = Contact.CONNECTED
    link.contact_changed()

    assert net.from_a.waiting == []


def test_a_wire_that_flaps_makes_a_link_say_a_word_a_time() -> None:
    net = connected()
    before = len(net.from_a.log)
    for _ in range(10):
        net.know(Contact.BROKEN)
        net.know(Contact.CONNECTED)
        net.deliver()

    said = [datagram.form for datagram in net.from_a.log[before:]]
    assert said.count(DatagramKind.BEAT) <= 20
    assert len(said) <= 20


@pytest.mark.parametrize("wrong", [{"busy_s": 0.0}, {"gone_s": float("inf")}, {"busy_s": float("nan")}])
def test_waits_that_mean_nothing_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match="busy_s and gone_s are seconds above 0, got"):
        LinkSettings(**wrong)  # type: ignore[arg-type]
