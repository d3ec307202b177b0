"""When an end says Hello: at once, and again after waits that double, until the session begins.

A peer that was refused, or has sent what is no datagram, is greeted after a wait of its own: what it is, it
will still be in a moment. That wait does not double, and does not become short again when the peer can be
reached again.

Pure rules: time is an argument.
"""

from __future__ import annotations

from actorflow.transport.rules.link_settings import LinkSettings


class HelloRetry:
    """The rule, for one end.

    Attributes:
        at: When the next Hello is due.
    """

    __slots__ = ("_settings", "_wait_s", "at")

    def __init__(self, settings: LinkSettings) -> None:
        self._settings = settings
        self._wait_s = settings.resend_s
        self.at = 0.0

    def begin(self, now: float, wait_s: float = 0.0) -> None:
        """Begins anew, since a session is over: at once, or after a wait and then again after as long."""
        self.at = now + wait_s
        self._wait_s = wait_s or self._settings.resend_s

    def note_sent(self, now: float) -> None:
        """Hears that a Hello was said."""
        self.at = now + self._wait_s
        self._wait_s = max(self._wait_s, min(2 * self._wait_s, self._settings.heartbeat_s))

    def hurry(self) -> None:
        """Makes waits short again, since the peer can be reached again; not those of `begin`, if longer."""
        if self._wait_s <= self._settings.heartbeat_s:
            self._wait_s = self._settings.resend_s

    def __repr__(self) -> str:
        return f"<HelloRetry at {self.at:.3f} s, then after {self._wait_s:g} s>"
