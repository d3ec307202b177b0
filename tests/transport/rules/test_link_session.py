"""What a session sends from where it lies, and what it copies first."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from actorflow.transport.codec.types import LIMITS
from actorflow.transport.rules import envelopes
from actorflow.transport.rules.channel import Lane
from actorflow.transport.rules.datagrams import NOBODY, Datagram, DatagramKind
from actorflow.transport.rules.delivery import SendWindow
from actorflow.transport.rules.link_session import LinkSession
from actorflow.transport.rules.link_settings import LOCAL, SETTINGS, LinkSettings
from actorflow.values.arrays import frozen, read_only
from actorflow.values.lease import memory_of, read_only_view
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
