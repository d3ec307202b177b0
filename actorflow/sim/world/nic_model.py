"""Network cards of a simulated world: messages that are said to have a size take the time of it.

A host sends its messages at one rate and receives at another, both at once. Those that wait to be sent
take turns, a chunk each, as streams of their own would: a short one overtakes a long one. Chunks are
received in the order in which they come, and a chunk that finds the receiver idle is received while it is
sent. After that the message goes over the link of the two hosts, with its latency and its faults.

What it leaves out: switches between the hosts, and a sender that is told to slow down. What a receiver
cannot take yet waits in the network, however much that is.
"""

from __future__ import annotations

import math
from collections import deque
from contextvars import Context
from dataclasses import dataclass
from typing import Any

from actorflow.sim.engine.strands import Lifetime
from actorflow.sim.settings import check_number
from actorflow.sim.world.host import Host
from actorflow.sim.world.in_flight_messages import copy_message
from actorflow.sim.world.network import SAY, Envelope, HostLink
from actorflow.sim.world.world import Named, World

_LEAST = math.nextafter(0.0, 1.0)


class Nics:
    """The cards of all hosts of a world.

    Args:
        world: It.
        send_bytes_s: How many bytes a second a host sends.
        receive_bytes_s: How many it receives; as many as it sends where left out.
        chunk_bytes: After how many bytes the next message that waits has its turn.
    """

    def __init__(
        self,
        world: World,
        *,
        send_bytes_s: float,
        receive_bytes_s: float | None = None,
        chunk_bytes: float = math.inf,
    ) -> None:
        check_number("send_bytes_s", send_bytes_s, _LEAST)
        if receive_bytes_s is not None:
            check_number("receive_bytes_s", receive_bytes_s, _LEAST)
        check_number("chunk_bytes", chunk_bytes, 1)
        self._world = world
        self._send_bytes_s = send_bytes_s
        self._receive_bytes_s = send_bytes_s if receive_bytes_s is None else receive_bytes_s
        self._chunk = chunk_bytes
        self._cards: dict[str, _NicState] = {}

    def ref(self, source: Named, address: str) -> SizedRef:
        """Returns the address `<host>/<actor>` as seen from `source`, for messages that have a size."""
        host = self._world.host(source)
        host.ref(address)  # it says what is wrong with it
        target, _, actor = address.partition("/")
        return SizedRef(self, host, self._world.host(target), actor)

    def send(self, parcel: _SizedMessage) -> None:
        """Begins to send, or lets the message wait for its turn."""
        # Nothing of its own travels over the card.
        if parcel.source is parcel.target:
            self._arrive(parcel)
            return
        card = self._card(parcel.source)
        card.waiting.append(parcel)
        if not card.sending:
            self._send_chunk(card)

    def _card(self, host: Host) -> _NicState:
        """Returns the card of the present incarnation: a crash empties it."""
        card = self._cards.get(host.name)
        # A crash empties it.
        if card is None or card.lifetime is not host.lifetime:
            card = self._cards[host.name] = _NicState(host.lifetime, host.timers(f"card of {host.name}"))
        return card

    def _send_chunk(self, card: _NicState) -> None:
        card.sending = True
        # Messages take turns, a chunk each: a short one overtakes a long one.
        parcel = card.waiting.popleft()
        size = min(parcel.left, self._chunk)
        parcel.left -= size
        loop = self._world.loop
        loop.at(
            loop.time() + size / self._send_bytes_s,
            self._after_send,
            card,
            parcel,
            size,
            context=card.context,
        )

    def _after_send(self, card: _NicState, parcel: _SizedMessage, size: float) -> None:
        self._receive(parcel, size)  # ORDER: the next chunk may be of the same message
        if parcel.left:
            # To the end of the line, behind those that have waited.
            card.waiting.append(parcel)
        card.sending = False
        if card.waiting:
            self._send_chunk(card)

    def _receive(self, parcel: _SizedMessage, size: float) -> None:
        """Takes a chunk in whose last byte comes now, after all that came before it."""
        card = self._card(parcel.target)
        now = self._world.loop.time()
        # Received while it is sent, unless the receiver was busy with what came before.
        begins = max(card.received_at, now - size / self._send_bytes_s)
        # The last byte cannot be there before it was sent.
        card.received_at = max(now, begins + size / self._receive_bytes_s)
        # Only the whole message arrives.
        if parcel.left:
            return
        if card.received_at > now:
            context = self._world.context
            self._world.loop.at(card.received_at, self._arrive, parcel, context=context)
        else:
            self._arrive(parcel)

    def _arrive(self, parcel: _SizedMessage) -> None:
        if (
            parcel.target.lifetime is parcel.lifetime
        ):  # else it was on its way to an incarnation that has crashed
            parcel.link.send(parcel.envelope)


class SizedRef:
    """The address of an actor for messages that have a size. Delivery: as of the link, in no order."""

    __slots__ = ("_actor", "_link", "_nics", "_source", "_target")

    def __init__(self, nics: Nics, source: Host, target: Host, actor: str) -> None:
        self._nics = nics
        self._source = source
        self._target = target
        self._actor = actor
        self._link = nics._world.link(source.name, target.name)

    def tell(self, message: Any, size_bytes: float) -> None:
        """Sends `message`, which takes as long as so many bytes; never waits.

        Raises:
            ConfigError: that is no number of bytes.
        """
        if not 0 <= size_bytes < math.inf:
            check_number("size_bytes", size_bytes, finite=True)
        source, target = self._source, self._target
        envelope = Envelope(source.name, self._actor, copy_message(message), 0, SAY, 0.0)
        self._nics.send(_SizedMessage(source, target, target.lifetime, self._link, envelope, size_bytes))

    def __repr__(self) -> str:
        return f"<SizedRef '{self._target.name}/{self._actor}' from '{self._source.name}'>"


@dataclass(slots=True)
class _SizedMessage:
    """A message on its way; `left` are the bytes that have not been sent."""

    source: Host
    target: Host
    lifetime: Lifetime
    link: HostLink
    envelope: Envelope
    left: float


class _NicState:
    """What a host sends, and until when it receives what has come."""

    __slots__ = ("context", "lifetime", "received_at", "sending", "waiting")

    def __init__(self, lifetime: Lifetime, context: Context) -> None:
        self.lifetime = lifetime
        self.context = context
        self.waiting: deque[_SizedMessage] = deque()
        self.sending = False
        self.received_at = 0.0
