"""How long an end waits for a peer that says nothing, by what the wire knows of it.

| contact   | the peer is lost                                                                          |
|-----------|-------------------------------------------------------------------------------------------|
| UNKNOWN   | `silence_s` after its last word                                                           |
| CONNECTED | `busy_s` after its last word: its process is there, though its loop may be held up        |
| BROKEN    | `gone_s` after the connection broke; before they have met, not before `silence_s` as well |

A change of contact never ends a wait at once: what holds now is counted from the change, and all of it ends
at the longest of these limits after the last word. An end that stood still itself, so that its timer came
late, listens for `heartbeat_s` more: what the peer said and the wire found out meanwhile may wait to be
heard. And `busy_s` and that longest limit are counted anew from then: who stood still could have heard no
word.

Pure rules: time is an argument.
"""

from __future__ import annotations

from math import inf

from actorflow.errors import PeerLost
from actorflow.transport.rules import peer_lost
from actorflow.transport.rules.link_settings import LinkSettings
from actorflow.transport.rules.wire import Contact


class FailureDetector:
    """The rule, and what it has to remember.

    Attributes:
        contact: What the wire knows.
    """

    __slots__ = ("_awake_since", "_busy_s", "_most_s", "_settings", "_since", "_spared_until", "contact")

    def __init__(self, settings: LinkSettings) -> None:
        self.contact = Contact.UNKNOWN
        self._settings = settings
        self._busy_s = max(settings.busy_s, settings.silence_s)
        self._most_s = max(self._busy_s, settings.gone_s)
        self._since = -inf  # when contact became what it is
        self._spared_until = -inf
        self._awake_since = -inf  # when a timer of this process came late

    def note_contact(self, contact: Contact, now: float) -> bool:
        """Hears what the wire knows; tells whether the peer can be reached again, and is to be spoken to."""
        if contact is self.contact:
            return False
        self.contact, self._since = contact, now
        return contact is Contact.CONNECTED

    def late(self, now: float, late_s: float) -> None:
        """Hears that a timer of this process came late by so much."""
        least_s = self._settings.heartbeat_s
        if self.contact is Contact.BROKEN:  # a shorter wait is spoiled by less
            least_s = min(least_s, self._settings.gone_s / 4)
        if late_s > least_s:
            self._awake_since = now
            self._spared_until = now + self._settings.heartbeat_s

    def ends_at(self, heard_at: float, *, met: bool) -> float:
        """Returns when the peer is lost if nothing is heard until then.

        Args:
            heard_at: When it was last heard; before they have met, since when it is waited for.
            met: Whether they have.
        """
        settings, since = self._settings, max(self._since, heard_at)
        listens_since = max(heard_at, self._awake_since)
        if self.contact is Contact.UNKNOWN:
            end = since + settings.silence_s
        elif self.contact is Contact.CONNECTED:
            end = max(listens_since + self._busy_s, since + settings.silence_s)
        elif met:
            end = since + settings.gone_s
        else:
            end = max(heard_at + settings.silence_s, since + settings.gone_s)
        return max(min(end, listens_since + self._most_s), self._spared_until)

    def reason(self, peer: str, heard_at: float, now: float, *, met: bool) -> PeerLost:
        """Returns why it is lost."""
        settings, seconds = self._settings, now - heard_at
        if self.contact is Contact.CONNECTED:
            return peer_lost.busy_error(peer, seconds, self._busy_s)
        if self.contact is Contact.BROKEN and met:
            return peer_lost.broken_error(peer, settings.gone_s)
        return peer_lost.silent_error(peer, seconds, settings.silence_s)
