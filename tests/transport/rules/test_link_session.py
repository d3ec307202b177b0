"""What a session sends from where it lies, and what it copies first."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from actorflow.errors import InternalError
from actorflow.runtime.validation import validation
from actorflow.transport.codec.types import LIMITS
from actorflow.transport.rules import envelopes
from actorflow.transport.rules.channel import Lane
from actorflow.transport.rules.credit import Granting, Spending, Window
from actorflow.transport.rules.datagrams import NOBODY, Datagram, DatagramKind, Received
from actorflow.transport.rules.delivery import Sending, SendWindow
from actorflow.transport.rules.link_session import LinkSession
from actorflow.transport.rules.link_settings import LOCAL, SETTINGS, LinkSettings
from actorflow.values.arrays import frozen, read_only
from actorflow.values.lease import memory_of, read_only_view
from tests.support.planting import find, plant
from tests.transport.net import Net, control, data


def views(of: Any) -> dict[str, Any]:
    """Read-only arrays over the memory of one that can be written."""
    n = len(of)
    return {
        "broadcast": np.broadcast_to(of, of.shape),
        "view": read_only(of),
        "view of a view": read_only(of)[:n].reshape(2, n // 2),
        "buffer": np.frombuffer(memoryview(of).toreadonly(), of.dtype),
        "buffer of a view": np.frombuffer(memoryview(read_only(of)), of.dtype),
        "bytearray": np.frombuffer(memoryview(bytearray(of.nbytes)).toreadonly(), of.dtype),
    }


@pytest.mark.parametrize("kind", views(np.zeros(2)))
def test_a_read_only_view_of_what_can_be_written_is_copied(kind: str) -> None:
    net = Net()
    net.deliver()
    memory = np.zeros(1 << 16)
    view = views(memory)[kind]
    net.a.send(data(view))
    (sent,) = [part for parts in net.from_a.waiting for part in parts[1:] if len(part) >= memory.nbytes]
    memory[:] = 7
    net.deliver()

    assert not np.shares_memory(np.frombuffer(sent, np.uint8), view)
    assert not net.at_b.bodies()[0].any()


@pytest.mark.parametrize(
    "lend", [frozen, read_only_view, lambda array: np.frombuffer(array.tobytes(), array.dtype)]
)
def test_a_view_of_what_nobody_can_write_is_sent_as_it_lies(lend: Any) -> None:
    net = Net()
    net.deliver()
    view = lend(np.ones(1 << 16))
    net.a.send(data(read_only(view)[1:]))

    sent = [np.frombuffer(parts[-1], np.uint8) for parts in net.from_a.waiting]
    assert any(np.shares_memory(part, view) for part in sent)


def test_lent_memory_is_not_written_while_it_is_on_its_way() -> None:
    net = Net()
    net.deliver()
    cell = [read_only_view(np.ones(1 << 16))]
    assert memory_of(cell) is not None
    net.a.send(data(cell[0]))
    assert memory_of(cell) is None


@pytest.mark.parametrize("settings", [SETTINGS, LOCAL])
def test_a_quarter_of_a_flight_is_acknowledged_at_once(settings: LinkSettings) -> None:
    session, chunk = LinkSession(settings, LIMITS), bytes(settings.flight.bytes // 8)
    acknowledged_at = []
    for number in (2, 3):  # held, as the first one has not come
        datagram = Datagram(DatagramKind.CHUNK, NOBODY, NOBODY, lane=Lane.DATA, number=number, payload=chunk)
        assert not list(session.arrive(datagram, 5.0))
        acknowledged_at.append(session.ack_at)

    assert acknowledged_at == [5.0 + settings.ack_s, 5.0]


def test_what_has_no_room_on_the_wire_does_not_hurry() -> None:
    session = LinkSession(LinkSettings(flight=SendWindow(chunks=2)), LIMITS)
    hurried = []
    for i in range(400):
        session.put(control(i), *envelopes.write(control(i)))
        hurried.append(session.hurries)
        if session.hurries:
            while session.take(0.0) is not None:
                pass

    assert sum(hurried) == len(session.sending[Lane.CONTROL]) == 2


def busy_session() -> LinkSession:
    """One in the midst of everything: out, acknowledged beyond a gap, in line, delivered and not released."""
    settings = LinkSettings(window=Window(2, 1 << 20))
    session, peer = LinkSession(settings, LIMITS), LinkSession(settings, LIMITS)
    session.meet(settings.window)
    peer.meet(settings.window)
    for i in range(3):
        session.put(data(i), *envelopes.write(data(i)))
        session.put(control(i), *envelopes.write(control(i)))
        peer.put(data(i), *envelopes.write(data(i)))
        while session.take(1.0) is not None:
            pass
    while (taken := peer.take(1.0)) is not None:
        lane, number, payload = taken
        datagram = Datagram(DatagramKind.CHUNK, NOBODY, NOBODY, lane=lane, number=number, payload=payload)
        assert list(session.arrive(datagram, 1.0))
    session.tell()
    session.hear_received(Received(control=1, control_mask=0b1), 1.0)
    session.validate()
    return session


@pytest.mark.parametrize(
    ("field", "value", "found"),
    [
        ("sent", 9, "what was put was sent or stands in line, got 9 and 1 of 6"),
        ("unacknowledged", {}, "who stands in line is not acknowledged, got 5 to 5"),
        ("unacknowledged", {5: data(0), 9: data(1)}, "serial numbers grow up to 6, got 5 to 9"),
        ("line.0.left", True, "who stands in line has not left"),
        ("peak_line", 0, "who stands in line has not left, got 1 of at most 0"),
        ("_control_bytes", 1, "what waits of CONTROL is [0-9]+ bytes, got 1"),
        ("told", Received(control=1), "the peer is told of what has come"),
        ("told", Received(), "there is a time at which the peer is told"),
        ("starves", True, "there is a time at which the peer is told"),
        ("_owed_chunks", 1, "there is a time at which the peer is told"),
        ("_held", {}, "credit is held for 0 envelopes, got 2"),
        ("granting.messages_held", 1, "credit is held for 2 envelopes, got 1"),
        ("granting.bytes_held", 0, "what is given back was taken in, got 2 messages and 0 bytes"),
        ("granting.messages_held", 3, "what is held fits"),
        ("granting.peak_bytes", 1, "no more is held than at most"),
        ("spending.messages", 3, "what is out fits"),
        ("spending.bytes_back", 1 << 20, "what comes back was spent"),
        ("sending.0.upto", 0, "1 to 3 are out, got"),
        ("sending.0._flight", SendWindow(1), "at most SendWindow"),
        ("sending.0._bytes_out", 7, "the bytes out are"),
        ("sending.0.bytes", 7, "the bytes out are"),
        ("sending.0._held", {1}, "what the peer holds is out"),
        ("sending.0.due", [3], "what is due is out and not held"),
        ("sending.0.due", [2, 2], "what is due is out and not held"),
        ("sending.0.resend_at", None, "a time to resend is set while something is missing, got None, 1 are"),
        ("sending.0._allowed", 0, "1 to 64 may be out, got 0"),
        ("receiving.1._held", {4: (1, b"x")}, "what is held lies in 4|the bytes held are 1"),
        ("receiving.1._held_bytes", 3, "the bytes held are 0"),
        ("_assemblies.0._frame", b"abc", "a frame of 3 bytes is half there, got 0 of them"),
    ],
)
def test_a_field_that_is_wrong_is_found(field: str, value: Any, found: str) -> None:
    session = busy_session()
    plant(session, field, value)

    find(session, found)


def test_a_half_frame_holds_credit_and_a_session_that_forgets_it_is_found() -> None:
    settings = LinkSettings()
    session, peer = LinkSession(settings, LIMITS), LinkSession(settings, LIMITS)
    peer.meet(settings.window)
    peer.put(data(b"x" * (2 << 20)), *envelopes.write(data(b"x" * (2 << 20))))
    taken = peer.take(0.0)
    assert taken is not None
    lane, number, payload = taken
    datagram = Datagram(DatagramKind.CHUNK, NOBODY, NOBODY, lane=lane, number=number, payload=payload)
    assert not list(session.arrive(datagram, 0.0))
    session.validate()

    plant(session, "granting.bytes_held", 0)
    plant(session, "granting.messages_held", 0)
    find(session, "credit is held for 0 and a half envelopes, got 0")


@pytest.mark.parametrize(
    ("owner", "method", "forgets", "found"),
    [
        (Spending, "fits", lambda self, size: True, "what is out fits"),
        (Granting, "release", lambda self, size: None, "credit is held for 0 envelopes, got 1"),
        (Sending, "_forget", lambda self, number: self._out.pop(number)[1], "the bytes out are 0"),
    ],
)
def test_a_method_that_forgets_something_is_found_at_the_next_event(
    owner: type, method: str, forgets: Any, found: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    net = Net(LinkSettings(window=Window(1, 1 << 20)))
    net.deliver()
    monkeypatch.setattr(owner, method, forgets)

    def talk() -> None:
        net.a.send(data(1))
        net.a.send(data(2))
        net.deliver()
        net.pass_time(0.1)

    with validation(), pytest.raises(InternalError, match=found):
        talk()


def test_the_story_tells_of_the_latest_line_however_often_one_begins() -> None:
    net = Net(LinkSettings(window=Window(1, 1 << 20)))
    net.a.send(data(0))
    net.deliver()
    for i in range(20):
        net.a.send(data(i))
        net.a.send(data(i))  # waits for the credit of the one before
        net.deliver()

    verbs = [event[0] for event in net.a.story]
    assert (verbs[0], verbs[-1], len(verbs)) == ("wait", "wait", 3)
    assert str(net.a.story).endswith("'no credit')")
