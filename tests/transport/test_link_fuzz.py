"""Whatever comes over the wire: only typed errors, bounded memory, and nothing delivered that was not sent."""

from __future__ import annotations

import struct
import tracemalloc

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from actorflow.errors import PeerLost, WireError
from actorflow.transport.codec.types import MessageLimits
from actorflow.transport.rules.credit import Window
from actorflow.transport.rules.datagrams import HEAD_BYTES
from actorflow.transport.rules.link_settings import LinkSettings
from tests.support.strategies import examples
from tests.transport.net import Net, control, data

LIMITS = MessageLimits(frame_bytes=1 << 16)
SETTINGS = LinkSettings(window=Window(8, 1 << 15))
BODIES = ["text", 7, [1, 2.5, None], {"a": (b"x" * 600,)}, np.arange(40), [np.ones(3)] * 3]


def recorded() -> list[list[bytes]]:
    """What one end of a lively session says to the other."""
    net = Net(SETTINGS, limits=LIMITS, turns=True)
    said: list[list[bytes]] = [[bytes(part) for part in parts] for parts in net.from_a.waiting]
    net.deliver()
    for n, body in enumerate(BODIES):
        net.a.send(data(body))
        net.a.send(control(body))
        net.b.send(data(body))
        if n % 3 == 2:
            net.turn()
    said += [[bytes(part) for part in parts] for parts in net.from_a.waiting]
    net.deliver()
    net.a.close()
    said += [[bytes(part) for part in parts] for parts in net.from_a.waiting]
    return said


RECORDED = recorded()


@st.composite
def datagrams(draw: st.DrawFn) -> list[bytes]:
    """Recorded ones, most of them changed, and some that are drawn."""
    parts = list(draw(st.sampled_from(RECORDED)))
    for _ in range(draw(st.integers(0, 3))):
        which = draw(st.integers(0, len(parts) - 1)) if parts else 0
        match draw(st.integers(0, 5)):
            case 0 if parts and parts[which]:
                at = draw(st.integers(0, len(parts[which]) - 1))
                byte = draw(st.integers(0, 255))
                parts[which] = parts[which][:at] + bytes([byte]) + parts[which][at + 1 :]
            case 1 if parts:
                parts[which] = parts[which][: draw(st.integers(0, len(parts[which])))]
            case 2:
                parts.append(draw(st.binary(max_size=30)))
            case 3 if parts:
                del parts[which]
            case 4:
                parts = [*parts[:1], draw(st.binary(max_size=60))]
            case 5 if len(parts) and len(parts[0]) == HEAD_BYTES:  # a number of the head
                at = 8 * draw(st.integers(1, HEAD_BYTES // 8 - 1))
                number = draw(st.integers(0, 5) | st.integers(0, 2**64 - 1))
                parts[0] = parts[0][:at] + number.to_bytes(8, "little") + parts[0][at + 8 :]
            case _:
                pass
    return parts


@given(said=st.lists(datagrams(), max_size=30), greeted=st.booleans())
@settings(max_examples=examples(300), deadline=None)
def test_a_link_survives_whatever_it_is_told(said: list[list[bytes]], greeted: bool) -> None:
    net = Net(SETTINGS, limits=LIMITS)
    if greeted:
        net.deliver()
        net.b.send(data("mine"))
    for parts in said:
        net.b.receive(parts)  # raises nothing
        net.lose()

    stats = net.b.stats()
    for reason, _ in net.at_b.losses:
        assert isinstance(reason, PeerLost)
        assert reason.__cause__ is None or isinstance(reason.__cause__, WireError)
    assert len(net.at_b.losses) <= stats.sessions + 1
    assert stats.datagrams_sent <= 4 * len(said) + 8, "it says no more than it is told"
    assert stats.held <= SETTINGS.window.messages
    net.b.close()
    assert net.b._due() == float("inf")


def test_what_was_recorded_is_taken_unchanged() -> None:
    """The fuzz would prove little if its beginnings led nowhere."""
    net = Net(SETTINGS, limits=LIMITS)
    for parts in RECORDED:
        net.b.receive(parts)

    assert repr(net.at_b.bodies()) == repr(BODIES)
    assert len(net.at_b.losses) == 1  # the goodbye


def test_memory_is_found_for_what_there_is_credit_for_alone() -> None:
    net = Net(SETTINGS, limits=MessageLimits(frame_bytes=1 << 34))
    net.deliver()
    net.at_b.parks = True
    net.a.send(data("parked"))
    net.deliver()
    head = next(parts[0] for parts in RECORDED if len(parts) == 2 and parts[0][5] == 1)
    tracemalloc.start()
    try:
        announced = struct.pack("<4sIQ", b"AFm1", 16, 1 << 30)
        net.b.receive([head[:-16] + (2).to_bytes(8, "little") + bytes(8), announced])
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    ((reason, _),) = net.at_b.losses
    assert "a peer sends on credit, got 2 messages and 1073741" in str(reason.__cause__)
    assert peak < 1 << 20
