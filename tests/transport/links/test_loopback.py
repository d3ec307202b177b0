"""What a loopback does besides what every channel promises; see `test_conformance`."""

from __future__ import annotations

import numpy as np
import pytest

from actorflow.errors import ConfigError
from actorflow.transport.links import loopback
from actorflow.transport.rules.channel import Channel, Envelope
from actorflow.transport.rules.credit import Window
from tests.transport.net import data
from tests.transport.ways import Recorder


def connected(*, framed: bool = False, window: Window = Window()) -> tuple[loopback.Loopback, Recorder]:  # noqa: B008
    """An end, and who takes what is sent from there."""
    a, b = loopback.pair(framed=framed, window=window)
    at_a, at_b = Recorder(), Recorder()
    a.connect(at_a)
    b.connect(at_b)
    return a, at_b


def test_objects_pass_uncopied() -> None:
    a, at_b = connected()
    body = {"w": np.zeros(3)}
    a.send(Envelope("echo", body))

    assert at_b.got[0].body is body


def test_framed_arrays_arrive_as_copies() -> None:
    a, at_b = connected(framed=True)
    array = np.arange(3 << 18)
    a.send(data(array))
    array[:] = 0

    (found,) = at_b.bodies()
    assert (found == np.arange(3 << 18)).all()


def test_each_end_is_named_by_the_other() -> None:
    a, b = loopback.pair("chief", "ps1")

    assert (a.peer, b.peer) == ("ps1", "chief")


def test_a_channel_needs_receivers_at_both_ends() -> None:
    a, _ = loopback.pair()
    a.connect(Recorder())

    with pytest.raises(ConfigError, match="both ends have a receiver before anything is sent"):
        a.send(data(1))


def test_what_was_on_its_way_when_it_was_closed_is_told_to_who_sent_it() -> None:
    a, b = loopback.pair()
    at_a, at_b = Recorder(), Recorder()
    a.connect(at_a)
    b.connect(at_b)

    def close(channel: Channel, envelope: Envelope) -> None:
        a.send(data("from a"))
        b.send(data("from b"))
        b.close()

    at_b.then = close
    a.send(data("begin"))

    assert [envelope.body for envelope in at_a.losses[0][1]] == ["from a"]
    assert [envelope.body for envelope in at_b.losses[0][1]] == ["from b"]
    assert (at_a.bodies(), at_b.bodies()) == ([], ["begin"])


def test_a_loopback_says_what_it_holds() -> None:
    a, at_b = connected(window=Window(2, 1000))
    at_b.parks = True
    for i in range(5):
        a.send(data(i))

    assert repr(a) == (
        "<Loopback to 'worker0'; 2 sent, 0 received, 3 in line (peak 3), 2/2 messages and 96/1000 bytes out>"
    )
    a.close()
    assert "closed" in repr(a)
