"""Both ends of a channel in one process: no wire, no loss, no timer.

By default bodies pass as the objects that they are: whoever sends one does not change it any more. Each
is encoded all the same, since that tells its size, for credit, and refuses what could not travel. With
`framed`, bodies arrive as they would from another process: encoded, cut, put together and decoded, arrays
as copies. The rules of credit, lanes and order are those of a link. A session lasts as long as the pair: it
ends when either end is closed, or a receiver raises, which is logged, since nobody carried the message.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable

from actorflow.errors import ActorflowError, ChannelClosed, NotConnected
from actorflow.runtime.affinity import Affinity, affinity_here
from actorflow.transport.codec.types import LIMITS, MessageLimits
from actorflow.transport.rules import envelopes, peer_lost
from actorflow.transport.rules.channel import Envelope, Lane, Receiver, Sender
from actorflow.transport.rules.chunks import Assembly, Stream
from actorflow.transport.rules.credit import WINDOW, Granting, Spending, Window

log = logging.getLogger("actorflow.transport")

Carry = Callable[[Envelope], tuple[Envelope, int]]
"""Gives an envelope as the other end gets it, and the bytes of its frame."""


def pair(
    a: str = "ps0",
    b: str = "worker0",
    *,
    framed: bool = False,
    window: Window = WINDOW,
    limits: MessageLimits = LIMITS,
) -> tuple[Loopback, Loopback]:
    """Returns a channel of process `a` to process `b`, and one of `b` to `a`; connect a receiver to each.

    Args:
        a: Its name: the peer of the second channel.
        b: Its name: the peer of the first one.
        framed: Whether bodies are encoded and decoded, instead of passed.
        window: What each may have on its way to the other.
        limits: What one message may be.
    """
    carry = _through_codec if framed else _pass_on
    road = _Road(lambda envelope: carry(envelope, limits))
    ends = (Loopback(b, road, window), Loopback(a, road, window))
    for end, other in (ends, ends[::-1]):
        end._other = other
    return ends


def _pass_on(envelope: Envelope, limits: MessageLimits) -> tuple[Envelope, int]:
    # An envelope of its own, since credit is given back by which one it is, and one may be sent twice.
    return Envelope(*envelope), envelopes.write(envelope, limits)[1]


def _through_codec(envelope: Envelope, limits: MessageLimits) -> tuple[Envelope, int]:
    parts, size = envelopes.write(envelope, limits)
    stream, assembly = Stream(), Assembly(limits)
    stream.put(parts, 1)
    while not (frames := list(assembly.take(stream.cut().payload))):
        pass
    (frame,) = frames
    return envelopes.read(frame, envelope.lane, limits), size


class _Road:
    """What is on its way between the two ends, delivered one by one however deep sends are nested."""

    def __init__(self, carry: Carry) -> None:
        self.carry = carry
        self._ready: deque[tuple[Loopback, Envelope, int]] = deque()
        self._running = False

    def put(self, end: Loopback, envelope: Envelope, size: int) -> None:
        self._ready.append((end, envelope, size))

    def run(self) -> None:
        if self._running:
            return
        self._running = True
        try:
            while self._ready:
                end, envelope, size = self._ready.popleft()
                end._arrive(envelope, size)
        finally:
            self._running = False

    def clear(self) -> list[tuple[Loopback, Envelope]]:
        """Takes all off the road; returns who it was for."""
        left = [(end, envelope) for end, envelope, _ in self._ready]
        self._ready.clear()
        return left


class _WaitingFrame:
    """An envelope in line; see `link_session.WaitingEnvelope`."""

    __slots__ = ("carried", "envelope", "left", "sender", "size")

    def __init__(self, envelope: Envelope, carried: Envelope, size: int) -> None:
        self.envelope = envelope
        self.carried = carried
        self.size = size
        self.sender: Sender | None = None
        self.left = False


class Loopback:
    """One end; see `pair`.

    Attributes:
        peer: Name of the other end's process.
        sent, received: Envelopes.
        peak_line: The most that stood in line.
    """

    _other: Loopback

    def __init__(self, peer: str, road: _Road, window: Window) -> None:
        self.peer = peer
        self.sent = self.received = self.peak_line = 0
        self._road = road
        self._receiver: Receiver | None = None
        self._spending = Spending(window)
        self._granting = Granting(window)
        self._line: deque[_WaitingFrame] = deque()
        self._held: dict[int, tuple[Envelope, int]] = {}
        self._closed = ""
        self._affinity: Affinity | None = None

    def connect(self, receiver: Receiver) -> None:
        """Says who takes what comes; from then on the channel belongs to this thread and event loop."""
        self.check_here()
        if self._affinity is None:
            self._affinity = affinity_here(f"the channel to '{self.peer}'")
        self._receiver = receiver
        self._road.run()

    def send(self, envelope: Envelope, sender: Sender | None = None) -> bool:
        """Sends an envelope; see `Channel.send`."""
        self.check_here()
        if self._closed:
            raise ChannelClosed(self._closed)
        if self._receiver is None or self._other._receiver is None:
            message = (
                f"both ends have a receiver before anything is sent, got none at an end to '{self.peer}'"
            )
            raise NotConnected(message, hint="for channel in pair(...): channel.connect(receiver)")
        carried, size = self._road.carry(envelope)
        entry = _WaitingFrame(envelope, carried, size)
        if envelope.lane is Lane.CONTROL:
            self._go(entry)
        else:
            self._line.append(entry)
            self.peak_line = max(self.peak_line, len(self._line))
            self._admit()
        self._road.run()
        if not entry.left:
            entry.sender = sender
        return entry.left

    def release(self, envelope: Envelope) -> None:
        """Gives back the credit of an envelope that was delivered with False."""
        self.check_here()
        _, size = self._held.pop(id(envelope), (None, 0))
        if size and not self._closed:
            self._granting.release(size)
            self._other._spending.granted(self._granting.messages, self._granting.bytes)
            self._other._admit()
            self._road.run()

    def close(self) -> None:
        """Closes both ends; closing twice is harmless."""
        if self._closed:
            return
        self.check_here()
        self._closed = f"the channel to '{self.peer}' is closed"
        here = ChannelClosed(f"the channel to '{self.peer}' was closed at this end")
        self._end_both(here, peer_lost.goodbye_error(self._other.peer))

    def check_here(self) -> None:
        """Raises WrongLoop in another thread or event loop than that in which it was connected."""
        if self._affinity is not None:
            self._affinity.check()

    def _end_both(self, here: ActorflowError, there: ActorflowError) -> None:
        """Ends the session at both ends, for the reasons that each hears."""
        other, left = self._other, self._road.clear()
        for end in (self, other):
            end._closed = end._closed or f"'{end.peer}' is lost, and has not come back"
        for end, reason in ((self, here), (other, there)):
            end._end(reason, [envelope for to, envelope in left if to is not end])

    def _end(self, reason: ActorflowError, unacknowledged: list[Envelope]) -> None:
        line, self._line = self._line, deque()
        self._held.clear()
        if self._receiver is not None:
            self._receiver.lost(self, reason, (*unacknowledged, *(entry.envelope for entry in line)))
        for entry in line:
            if entry.sender is not None:
                entry.sender.admitted()

    def _go(self, entry: _WaitingFrame) -> None:
        entry.left = True
        self.sent += 1
        self._road.put(self._other, entry.carried, entry.size)

    def _admit(self) -> None:
        """Lets leave what there is credit for, in order."""
        while self._line and self._spending.fits(self._line[0].size):
            entry = self._line.popleft()
            self._spending.spend(entry.size)
            self._go(entry)
            if entry.sender is not None:
                entry.sender.admitted()

    def _arrive(self, envelope: Envelope, size: int) -> None:
        assert self._receiver is not None
        self.received += 1
        if envelope.lane is Lane.DATA:
            self._granting.admit(size)
            self._held[id(envelope)] = (envelope, size)
        try:
            taken = self._receiver.deliver(self, envelope)
        except Exception as error:  # the receiver hears it; who sent has done nothing wrong
            log.exception("what '%s' sent could not be delivered", self.peer)
            if not self._closed:
                self._end_both(
                    peer_lost.undeliverable_error(self.peer, error),
                    peer_lost.given_up_error(self._other.peer),
                )
        else:
            if taken:
                self.release(envelope)

    def __repr__(self) -> str:
        counts = f"{self.sent} sent, {self.received} received"
        line = f"{len(self._line)} in line (peak {self.peak_line})"
        closed = " closed" * bool(self._closed)
        return f"<Loopback to '{self.peer}'{closed}; {counts}, {line}, {self._spending!r}>"
