"""Two ends of a channel between two posts of one event loop: no copies, credit, and sessions that can be lost."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from actorflow.actors.post import Post
from actorflow.errors import ActorflowError, CannotTravel, ChannelClosed, PeerLost
from actorflow.transport.channel import Envelope, Lane, Receiver, Sender


class NotSent:
    """Travels nowhere."""


class End:
    """One end: what it sends is delivered by `carry`, lane by lane, in order.

    Attributes:
        window: Envelopes of the data lane that may be on their way or in line over there.
        spent: How many are.
        line: What waits for credit, and who hears.
    """

    other: End

    def __init__(self, peer: str, receiver: Receiver, window: int, later: Callable[[Any, Any], Any]) -> None:
        self.peer = peer
        self.receiver = receiver
        self.window = window
        self.later = later
        self.spent = 0
        self.line: deque[tuple[Envelope, Sender | None]] = deque()
        self.lanes: dict[Lane, deque[Envelope]] = {Lane.CONTROL: deque(), Lane.DATA: deque()}
        self.held: list[Envelope] = []
        self.dead: ActorflowError | None = None
        self.stopped = False
        self.sent: list[Envelope] = []

    def send(self, envelope: Envelope, sender: Sender | None = None) -> bool:
        if self.dead is not None:
            raise ChannelClosed(f"'{self.peer}' is not there")
        if isinstance(envelope.body, NotSent):
            raise CannotTravel("a NotSent cannot travel")
        if envelope.lane is Lane.DATA and (self.line or self.spent >= self.window):
            self.line.append((envelope, sender))
            return False
        self._go(envelope)
        return True

    def _go(self, envelope: Envelope) -> None:
        self.sent.append(envelope)
        self.spent += envelope.lane is Lane.DATA
        self.lanes[envelope.lane].append(envelope)
        self.later(self.carry, envelope.lane)

    def carry(self, lane: Lane) -> None:
        """Delivers the next envelope of a lane at the other end."""
        if self.stopped or not self.lanes[lane]:
            return
        envelope = self.lanes[lane].popleft()
        if self.other.receiver.deliver(self.other, envelope):
            self._credit(lane)
        else:
            assert lane is Lane.DATA
            self.other.held.append(envelope)

    def release(self, envelope: Envelope) -> None:
        self.held.remove(envelope)
        self.later(self.other._credit, Lane.DATA)

    def _credit(self, lane: Lane) -> None:
        self.spent -= lane is Lane.DATA and self.spent > 0
        while self.line and self.spent < self.window:
            envelope, sender = self.line.popleft()
            self._go(envelope)
            if sender is not None:
                sender.admitted()

    def lose(self, reason: ActorflowError | None = None) -> None:
        """Ends the session at this end."""
        if self.dead is not None:
            return
        self.dead = reason = reason or PeerLost(f"'{self.peer}' has been silent")
        unknown = [
            *self.lanes[Lane.CONTROL],
            *self.lanes[Lane.DATA],
            *(envelope for envelope, _ in self.line),
        ]
        line, self.line = self.line, deque()
        for lane in self.lanes.values():
            lane.clear()
        self.held.clear()
        self.spent = 0
        for _, sender in line:
            if sender is not None:
                sender.admitted()
        self.receiver.lost(self, reason, unknown)

    def begin(self) -> None:
        """Begins a new session at this end; the other one does likewise."""
        assert self.dead is not None
        self.dead = None

    def close(self) -> None:
        if self.dead is None:
            self.lose(ChannelClosed(f"the channel to '{self.peer}' was closed"))
            self.later(self.other.lose, PeerLost(f"'{self.other.peer}' said goodbye"))


def joined(
    one: Post, two: Post, window: int = 4, later: Callable[[Any, Any], Any] | None = None
) -> tuple[End, End]:
    """Attaches the ends of a new channel to two posts and returns them."""
    carried = later or (lambda call, value: one.system.loop.call_soon(call, value))
    here, there = End(two.name, one, window, carried), End(one.name, two, window, carried)
    here.other, there.other = there, here
    one.attach(here)
    two.attach(there)
    return here, there


def lose(here: End) -> None:
    """Ends the session at both ends."""
    here.lose()
    here.other.lose()
