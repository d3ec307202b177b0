"""What an endpoint counts."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field

from actorflow.runtime.clock import SystemClock
from actorflow.transport.rules.security import RefusalReason, Refusals

log = logging.getLogger("actorflow.transport")


@dataclass(frozen=True, slots=True)
class EndpointStats:
    """The account of an endpoint.

    Attributes:
        datagrams_out, bytes_out: What went to ZeroMQ.
        datagrams_in, bytes_in: What came from it, and was handed to a link.
        dropped: Datagrams of ours for which there was no way, or no room.
        refused: What was not let in, by reason.
        connections: Of others to us, now.
        lost: Of those, how many have ended, for whatever reason: a message that is too large is one.
        unmatched: Of those, how many have said nothing by which they are known.
        routes: Peers to which there is a way through them.
    """

    datagrams_out: int
    bytes_out: int
    datagrams_in: int
    bytes_in: int
    dropped: int
    refused: Mapping[str, int]
    connections: int
    lost: int
    unmatched: int
    routes: int


@dataclass(slots=True)
class Counters:
    """The same, while it is written."""

    name: str
    datagrams_out: int = 0
    bytes_out: int = 0
    datagrams_in: int = 0
    bytes_in: int = 0
    dropped: int = 0
    lost: int = 0
    refusals: Refusals = field(default_factory=lambda: Refusals(SystemClock.now))

    def refuse(self, refusal: RefusalReason, address: str) -> None:
        """Counts what was refused, and says so once."""
        if self.refusals.note(refusal, address):
            log.warning("'%s' refused %s, from %s", self.name, refusal.value, address or "somewhere")

    def stats(self, connections: int, unmatched: int, routes: int) -> EndpointStats:
        """Returns the account now."""
        return EndpointStats(
            self.datagrams_out,
            self.bytes_out,
            self.datagrams_in,
            self.bytes_in,
            self.dropped,
            {refusal.name.lower(): n for refusal, n in self.refusals.counts.items()},
            connections,
            self.lost,
            unmatched,
            routes,
        )
