"""What moves messages to one other process and back: the protocol, and what it moves.

Promise of every channel, while both ends live: each envelope is delivered once, in the order of its
lane. DATA spends credit, in messages and bytes, and waits for it; the credit comes back once the
envelope is in the mailbox of its target. CONTROL never waits and may overtake DATA. When the other end
is gone the receiver hears so once; what had not been acknowledged by then may or may not have arrived.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Any, NamedTuple, Protocol

from actorflow.errors import ActorflowError


class Lane(IntEnum):
    """Which messages keep order with each other."""

    CONTROL = 0
    DATA = 1


class EnvelopeKind(IntEnum):
    """What an envelope says."""

    TELL = 0
    ASK = 1
    ANSWER = 2
    ERROR = 3  # the answer of a question that failed: the body is an ActorflowError
    CANCEL = 4  # nobody waits for the answer of `ask` any more
    WATCH = 5  # tell the sender, as GONE, when the target is dead
    GONE = 6  # the watched actor has stopped: the body is why, or None
    STOP = 7  # the target is asked to stop
    BULK = 8  # a large answer: whoever asked says TAKEN when it is there
    TAKEN = 9  # the large answer to `ask` is there, so that the next one may come


class Envelope(NamedTuple):
    """A message on its way to an actor of another process; made in half the time of a frozen dataclass.

    Attributes:
        target: The actor's name there; of an answer, that of the actor that answers.
        body: What it is told: what `transport.codec.message_codec` writes.
        say: What kind of message it is.
        lane: Its lane.
        ask: Number of the question; 0 for what needs no answer.
        limit_s: How long the asker waits; 0 for what needs no answer.
    """

    target: str
    body: Any
    say: EnvelopeKind = EnvelopeKind.TELL
    lane: Lane = Lane.DATA
    ask: int = 0
    limit_s: float = 0.0


class Sender(Protocol):
    """Whoever sends without ever suspending."""

    def admitted(self) -> None:
        """Hears, once for each `send` that returned False, that the envelope has left the line."""
        ...


class Channel(Protocol):
    """One end of the way to a peer process and back.

    Attributes:
        peer: Name of the process at the other end.
    """

    peer: str

    def send(self, envelope: Envelope, sender: Sender | None = None) -> bool:
        """Sends an envelope; never waits.

        Returns:
            True when it is on its way. False when it stands in line for credit: it is accepted, and
            `sender.admitted()` is called once it has left the line, also when the channel is lost.

        Raises:
            CannotTravel: the body is nothing that travels, or too large; nothing was sent.
            ChannelClosed: the peer is lost or the channel was closed; nothing was sent.
            NotConnected: nobody has said who takes what comes, or has started it; nothing was sent.
        """
        ...

    def release(self, envelope: Envelope) -> None:
        """Gives back the credit of an envelope that `Receiver.deliver` had answered with False."""
        ...

    def close(self) -> None:
        """Says goodbye to the peer and frees everything; closing twice is harmless."""
        ...


class Receiver(Protocol):
    """Who takes what a channel brings."""

    def deliver(self, channel: Channel, envelope: Envelope) -> bool:
        """Takes an envelope.

        Returns:
            True when it is in the mailbox of its target, or nobody wants it. False when it stands in
            line there: the receiver calls `channel.release(envelope)` later.
        """
        ...

    def lost(self, channel: Channel, reason: ActorflowError, unacknowledged: Sequence[Envelope]) -> None:
        """Hears, once a session, that the peer is gone.

        Args:
            channel: Whose peer.
            reason: PeerLost, and why; ChannelClosed when this end closed it.
            unacknowledged: What had been sent, or stood in line, and nobody knows whether it arrived.
        """
        ...
