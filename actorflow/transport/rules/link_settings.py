"""What one end of a channel may hold, and how long it waits."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from types import NoneType

from actorflow.errors import ConfigError, show_value
from actorflow.transport.codec.types import Lossy
from actorflow.transport.rules.chunks import CHUNK_BYTES
from actorflow.transport.rules.credit import WINDOW, Window
from actorflow.transport.rules.delivery import MASK_BITS, RetransmissionTimer, SendWindow
from actorflow.values.checks import is_whole

CONTROL = Window(1 << 16, 256 << 20)
FLIGHT = SendWindow()


@dataclass(frozen=True, slots=True)
class LinkSettings:
    """How a link behaves.

    Attributes:
        window: What a peer may have on its way to this end: data, until it is in the mailboxes.
        control: What of CONTROL may wait for its acknowledgement; more, and the peer counts as lost. Large
            answers, `EnvelopeKind.BULK`, are not counted: their sender waits for the peer to take them.
        flight: What of each lane may be on the wire unacknowledged. CONTROL waits behind so much DATA.
        silence_s: The peer is lost after so long without a word, where the wire knows nothing of it.
        busy_s: The same where the wire is connected to its process; at least `silence_s`.
        gone_s: The peer is lost when its connection has been broken for so long.
        heartbeat_s: Who has nothing to say says so after this time.
        resend_s: What is not acknowledged is sent again after this time, then after twice as long ...
        ack_s: How long an acknowledgement waits for something to travel with.
        lossy: What messages may lose on their way from this end: with `Lossy.BFLOAT16` float32 arrays of
            4 KiB or more travel as half as many bytes, and arrive with 8 bits of mantissa. None loses
            nothing.
    """

    window: Window = WINDOW
    control: Window = CONTROL
    flight: SendWindow = FLIGHT
    silence_s: float = 10.0
    busy_s: float = 60.0
    gone_s: float = 3.0
    heartbeat_s: float = 2.5
    resend_s: float = 0.2
    ack_s: float = 0.02
    lossy: Lossy | None = None

    def __post_init__(self) -> None:
        for name, kind in _KINDS.items():
            if not isinstance(got := getattr(self, name), kind):
                message = f"{name} must be of {_type_names(kind)}, got {show_value(got)}"
                raise ConfigError(message)
        waits = (self.ack_s, self.resend_s, self.heartbeat_s, self.silence_s)
        if not 0 < self.ack_s < self.resend_s <= self.heartbeat_s <= self.silence_s / 2 < inf:
            got = ", ".join(f"{wait:g}" for wait in waits)
            message = f"0 < ack_s < resend_s <= heartbeat_s <= silence_s / 2 must hold, got {got}"
            raise ConfigError(message, hint="raise silence_s; the others are small parts of it")
        if not (0 < self.busy_s < inf and 0 < self.gone_s < inf):
            message = f"busy_s and gone_s are seconds above 0, got {self.busy_s:g} and {self.gone_s:g}"
            raise ConfigError(message)
        for name, window in (("window", self.window), ("control", self.control)):
            if not all(is_whole(n, 1, plain=True) for n in window):
                message = f"a window holds a message and a byte at least, got {name}={window}"
                raise ConfigError(message)
        if not all(is_whole(n, plain=True) for n in self.flight) or not (
            1 <= self.flight.chunks <= MASK_BITS and self.flight.bytes >= CHUNK_BYTES
        ):
            message = (
                f"a flight is 1 to {MASK_BITS} chunks and {CHUNK_BYTES} bytes or more, got {self.flight}"
            )
            raise ConfigError(message)

    @property
    def pace(self) -> RetransmissionTimer:
        """When to resend."""
        return RetransmissionTimer(self.resend_s, self.heartbeat_s, max(self.heartbeat_s, self.busy_s / 4))


_KINDS: dict[str, tuple[type, ...]] = {
    "window": (Window,),
    "control": (Window,),
    "flight": (SendWindow,),
    **dict.fromkeys(("silence_s", "busy_s", "gone_s", "heartbeat_s", "resend_s", "ack_s"), (int, float)),
    "lossy": (Lossy, NoneType),
}


def _type_names(kinds: tuple[type, ...]) -> str:
    return " or ".join("None" if kind is NoneType else kind.__name__ for kind in kinds)


SETTINGS = LinkSettings()

LOCAL = LinkSettings(gone_s=1.0, flight=SendWindow(bytes=8 << 20))
"""Between processes of one machine, where a connection does not break by itself: the process is gone.

What CONTROL may wait behind is 8 MiB there. Arrays of 1 MiB through shared memory, on a busy machine: 0.21
acknowledgements for each instead of 0.57, and 0.13 ms of processor time at the receiver instead of 0.18,
0.12 ms instead of 0.18 at the sender.
"""
