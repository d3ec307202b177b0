"""Two ends of a channel between two hubs of one event loop: no copies, credit, sessions that can be lost."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from actorflow.actors.remote.hub import RemoteHub
from actorflow.errors import ActorflowError, CannotTravel, ChannelClosed, PeerLost
from actorflow.transport.rules.channel import Envelope, Lane, Receiver, Sender


class NotSent:
    """Travels nowhere."""


class End:
    """One end: what it sends is delivered by `carry`, lane by lane, in order, whenever it is called.

    Attributes:
        window: Envelopes of the data lane that may be on their way or in line over there.
        later: Calls a function with a value, at another time.
        spent: How many of the window are.
        line: What waits for credit, and who hears.
        peak_line: The most that it has been.
        held: What the receiver here has in line, and its credit for.
        session: Which one this is; odd while it lives.
    """

    other: End

    def __init__(self, peer: str, receiver: Receiver, window: int, later: Callable[[Any, Any], Any]) -> None:
        self.peer = peer
        self.receiver = receiver
        self.window = window
        self.later = later
        self.spent = 0
        self.peak_line = 0
        self.session = 1
        self.line: deque[tuple[Envelope, Sender | None]] = deque()
        self.lanes: dict[Lane, deque[Envelope]] = {Lane.CONTROL: deque(), Lane.DATA: deque()}
        self.held: list[Envelope] = []

    @property
    def lives(self) -> bool:
        """Whether its session goes on."""
        return self.session % 2 == 1

    def send(self, envelope: Envelope, sender: Sender | None = None) -> bool:
        if not self.lives:
            raise ChannelClosed(f"'{self.peer}' is not there")
        if isinstance(envelope.body, NotSent):
            raise CannotTravel("a NotSent cannot travel")
        if envelope.lane is Lane.DATA and (self.line or self.spent >= self.window):
            self.line.append((envelope, sender))
            self.peak_line = max(self.peak_line, len(self.line))
            return False
        self._go(envelope)
        return True

    def _go(self, envelope: Envelope) -> None:
        self.spent += envelope.lane is Lane.DATA
        self.lanes[envelope.lane].append(envelope)
        self.later(self.carry, envelope.lane)

    def carry(self, lane: Lane) -> None:
        """Delivers the next envelope of a lane at the other end, if that is in the same session."""
        if not self.lanes[lane] or self.session != self.other.session:
            return
        envelope, session = self.lanes[lane].popleft(), self.session
        if not self.other.receiver.deliver(self.other, envelope):
            self.other.held.append(envelope)
        elif lane is Lane.DATA:
            self.credit(session)

    def release(self, envelope: Envelope) -> None:
        self.held.remove(envelope)
        self.later(self.other.credit, self.session)

    def credit(self, session: int) -> None:
        """Takes the credit of one envelope back."""
        if session != self.session:
            return
        self.spent -= 1
        while self.line and self.spent < self.window:
            envelope, sender = self.line.popleft()
            self._go(envelope)
            if sender is not None:
                sender.admitted()

    def lose(self, reason: ActorflowError | None = None) -> None:
        """Ends the session at this end."""
        if not self.lives:
            return
        self.session += 1
        reason = reason or PeerLost(f"'{self.peer}' has been silent")
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
        self.receiver.lost(self, reason, unknown)
        for _, sender in line:
            if sender is not None:
                sender.admitted()

    def begin(self) -> None:
        """Begins a new session at this end; the other one does likewise."""
        assert not self.lives
        self.session += 1

    def close(self) -> None:
        if self.lives:
            self.lose(ChannelClosed(f"the channel to '{self.peer}' was closed"))
            self.later(self.other.lose, PeerLost(f"'{self.other.peer}' said goodbye"))


def joined(
    one: RemoteHub, two: RemoteHub, window: int = 4, later: Callable[[Any, Any], Any] | None = None
) -> tuple[End, End]:
    """Attaches the ends of a new channel to two hubs and returns them."""
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
