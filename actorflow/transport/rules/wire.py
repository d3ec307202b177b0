"""What a link needs from below and beside: something that carries datagrams, and the time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Protocol

from actorflow.transport.codec.types import Buffer


class Contact(Enum):
    """What a wire knows of the process at its other end, beside the datagrams that come."""

    UNKNOWN = "unknown"  # it cannot tell, as that of a simulated network
    CONNECTED = "connected"  # that process answers below the link, though its loop may be held up
    BROKEN = "broken"  # there is no connection now


class Wire(Protocol):
    """Carries datagrams to one peer: each whole or not at all, perhaps late, twice, or out of order."""

    def send(self, parts: Sequence[Buffer]) -> None:
        """Sends one datagram, of one or two buffers; never waits and never raises.

        The buffers do not change any more, and may be borrowed for as long as it takes. Whoever is at the
        other end hands them to `Link.receive`, as the same one or two buffers, not joined, though not before
        this call has returned.
        """
        ...

    def contact(self) -> Contact:
        """Returns what it knows now; it calls `Link.contact_changed` when that has changed."""
        ...


class Timer(Protocol):
    """What is to happen later."""

    def cancel(self) -> None:
        """Lets it not happen; too late is harmless."""
        ...


class Timers(Protocol):
    """The time of one process."""

    def now(self) -> float:
        """Returns seconds since an arbitrary start; never goes back."""
        ...

    def after(self, seconds: float, call: Callable[[], None]) -> Timer:
        """Calls `call` once, after so many seconds."""
        ...
