"""A transport of one's own: datagrams over a TCP connection of asyncio, each behind the sizes of its parts.

A link brings order, credit, resending and sessions along, and trusts its wire with none of them. So this one
may lose what it has no room for, and what was under way when its connection broke.

    python examples/own_wire.py
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Sequence
from typing import Any

from actorflow.transport.links.link import Link
from actorflow.transport.rules.channel import Channel, Envelope
from actorflow.transport.rules.wire import Contact

SIZES = struct.Struct("<II")  # of the head and of the payload, which may be empty
ROOM = 16 << 20  # bytes that may wait for the connection
LONGEST = 2 << 20  # of a datagram: no link makes longer ones


class StreamWire(asyncio.Protocol):
    """One end of a connection; a `transport.rules.wire.Wire`, once it has been told its link."""

    def __init__(self) -> None:
        self.link: Link | None = None
        self.transport: asyncio.Transport | None = None
        self.came = bytearray()
        self.made = asyncio.Event()

    # -- what the link asks: never waits, never raises

    def send(self, parts: Sequence[bytes | memoryview]) -> None:
        """Sends one datagram, or drops it where there is no connection or no room."""
        sizes = [memoryview(part).nbytes for part in (*parts, b"")[:2]]
        if self.transport is not None and self.transport.get_write_buffer_size() + sum(sizes) <= ROOM:
            self.transport.write(b"".join((SIZES.pack(*sizes), *parts)))

    def contact(self) -> Contact:
        """What is known of the process at the other end."""
        return Contact.BROKEN if self.transport is None else Contact.CONNECTED

    # -- what asyncio tells

    def connection_made(self, transport: Any) -> None:
        """There is a connection."""
        self.transport = transport
        self.made.set()
        self.changed()

    def connection_lost(self, error: Exception | None) -> None:
        """There is none any more."""
        self.transport = None
        self.came.clear()
        self.changed()

    def changed(self) -> None:
        """Tells the link that `contact` gives another answer."""
        if self.link is not None:
            self.link.contact_changed()

    def data_received(self, data: bytes) -> None:
        """Hands the link each datagram that is complete."""
        self.came += data
        while len(self.came) >= SIZES.size:
            head, payload = SIZES.unpack_from(self.came)
            middle, end = SIZES.size + head, SIZES.size + head + payload
            if head + payload > LONGEST:  # nothing on the wire is believed
                if self.transport is not None:
                    self.transport.abort()
                return
            if len(self.came) < end:
                return
            parts = [bytes(self.came[SIZES.size : middle]), bytes(self.came[middle:end])]
            del self.came[:end]
            if self.link is not None:
                self.link.receive(parts if payload else parts[:1])  # the parts that were sent, not joined


class LoopTimers:
    """The time of the running event loop, as links take it."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.now = self.loop.time

    def after(self, seconds: float, call: Callable[[], None]) -> asyncio.TimerHandle:
        """Calls `call` once, after so many seconds."""
        return self.loop.call_later(seconds, call)


async def connected() -> tuple[StreamWire, StreamWire, asyncio.Server]:
    """Returns both ends of a connection of this process to itself, and what listens for it."""
    loop = asyncio.get_running_loop()
    accepted = StreamWire()
    server = await loop.create_server(lambda: accepted, "127.0.0.1", 0)
    address = server.sockets[0].getsockname()
    _, dialled = await loop.create_connection(StreamWire, *address)
    await accepted.made.wait()
    return accepted, dialled, server


class Prints:
    """A receiver that prints what comes."""

    def __init__(self) -> None:
        self.done = asyncio.Event()

    def deliver(self, channel: Channel, envelope: Envelope) -> bool:
        """Takes an envelope."""
        print("from", channel.peer, envelope.body)
        if envelope.body == "the end":
            self.done.set()
        return True

    def lost(self, channel: Channel, reason: Exception, unacknowledged: Sequence[Envelope]) -> None:
        """Hears that the peer is gone."""
        print(f"lost: {getattr(reason, 'what', reason)}")
        self.done.set()


async def main() -> None:
    """Sends three envelopes from one end to the other."""
    to_worker, to_ps, server = await connected()
    ends = []
    for peer, wire in (("worker0", to_worker), ("ps0", to_ps)):
        wire.link = Link(peer, wire, LoopTimers(), incarnation=1)
        ends.append((wire.link, Prints()))
    for link, receiver in ends:
        link.connect(receiver)
    (ps0, _), (worker0, prints) = ends
    for body in ({"version": 3}, [1.5, None], "the end"):
        ps0.send(Envelope("replica", body))
    await prints.done.wait()
    worker0.close()
    ps0.close()
    server.close()


if __name__ == "__main__":
    asyncio.run(main())
