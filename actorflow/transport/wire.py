"""What a link needs from below and beside: something that carries datagrams, and the time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from actorflow.transport.kinds import Buffer


class Wire(Protocol):
    """Carries datagrams to one peer: each whole or not at all, perhaps late, twice, or out of order."""

    def send(self, parts: Sequence[Buffer]) -> None:
        """Sends one datagram, of one or two buffers; never waits and never raises.

        The buffers do not change any more, and may be borrowed for as long as it takes. Whoever is at the
        other end hands them, as they are, to `Link.receive`, though not before this call has returned.
        """
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
