"""The account of a link: what it has sent, received, refused and held, all its sessions together."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from actorflow.transport.rules.credit import Window
from actorflow.transport.rules.link_session import LinkSession


@dataclass(frozen=True, slots=True)
class LinkStats:
    """The account of a link.

    Attributes:
        phase: How far the session is.
        sessions: How many have begun.
        sent, received: Envelopes.
        datagrams_sent, datagrams_received: Of all forms.
        resent, duplicates: Chunks that were sent, or came, again.
        refused: Datagrams that belonged to no session of this end.
        malformed: Datagrams that were none.
        in_line, peak_line: Envelopes that wait for credit or for the session, now and at most.
        credit: Messages and bytes that may be sent now.
        held, peak_held: Envelopes of the peer whose credit has not been given back.
        unacknowledged: Envelopes that were sent, or stand in line.
    """

    phase: str
    sessions: int
    sent: int
    received: int
    datagrams_sent: int
    datagrams_received: int
    resent: int
    duplicates: int
    refused: int
    malformed: int
    in_line: int
    peak_line: int
    credit: Window
    held: int
    peak_held: int
    unacknowledged: int


class LinkCounters:
    """What a link has done so far.

    Attributes:
        counts: Of its own, and of the sessions that are over.
    """

    __slots__ = ("_peak_held", "_peak_line", "counts")

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._peak_line = self._peak_held = 0

    def close(self, session: LinkSession) -> None:
        """Adds a session that is over."""
        self.counts.update(_counts(session))
        self._peak_line = max(self._peak_line, session.peak_line)
        self._peak_held = max(self._peak_held, session.granting.peak_messages)

    def stats(self, phase: str, session: LinkSession) -> LinkStats:
        """Returns the account with the present session."""
        total = self.counts + _counts(session)
        credit = Window(0, 0)
        if session.spending is not None:
            messages, size = session.spending.out
            window = session.spending.window
            credit = Window(max(0, window.messages - messages), max(0, window.bytes - size))
        return LinkStats(
            phase=phase,
            **{name: total[name] for name in _COUNTERS},
            in_line=len(session.line),
            peak_line=max(self._peak_line, session.peak_line),
            credit=credit,
            held=session.granting.messages_held,
            peak_held=max(self._peak_held, session.granting.peak_messages),
            unacknowledged=len(session.unacknowledged),
        )


_COUNTERS = (
    "sessions", "sent", "received", "datagrams_sent", "datagrams_received", "resent", "duplicates", "refused",
    "malformed",
)  # fmt: skip


def _counts(session: LinkSession) -> Counter[str]:
    """Returns what a session adds to the account."""
    return Counter(
        sent=session.sent,
        received=session.received,
        resent=sum(sending.resent for sending in session.sending),
        duplicates=sum(receiving.duplicates for receiving in session.receiving),
    )
