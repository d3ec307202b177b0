"""A wire between processes of one host whose large payloads go through memory that both see.

It wraps another wire. A datagram with a payload of `least_bytes` or more puts it into a ring
(`ring_buffer`), and over the wire goes its head with the place. The link at the other end gets a view of it,
and the place is free again when it has taken it. All else goes over the wire as it is.

For each direction, whoever sends makes the ring, with the first large payload:

1. it makes memory (`segments`), and offers it: OFFER, again from time to time while no answer comes;
2. the other end opens it and says ACCEPTED, or DECLINED if it cannot: another host, another user, another
   container. The sender then closes its descriptor: from now on the memory lives as long as both map it;
3. until ACCEPTED, after DECLINED, and while there is no room in the ring, payloads go over the wire;
4. whoever is told a place in a ring that it does not know says GONE, as after its restart: the sender makes
   another. Both forget their rings when the connection breaks.

The wire below may lose, double and reorder: a place that comes late or again counts as lost, and the link
sends again. When all places may be lost, and so nothing is freed, PASSED frees them.

What is slow is not waited for and what fails is not raised: the wire below is always there.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, fields
from enum import Enum, auto
from typing import Protocol

from actorflow.errors import ConfigError, WireError
from actorflow.runtime.clock import Entropy
from actorflow.transport.codec.types import Buffer
from actorflow.transport.links import segments
from actorflow.transport.links.segments import MOST_BYTES
from actorflow.transport.rules import shm_words
from actorflow.transport.rules.ring_buffer import PAGE, TOKEN_BYTES, RingReader, RingWriter, slot_bytes
from actorflow.transport.rules.shm_words import Word, WordMessage
from actorflow.transport.rules.wire import Contact, Wire

RING_BYTES = 8 << 20
"""Of a ring: what a link has on the wire at most of its two lanes, or of one with the flight of `LOCAL`.

More is slower, since less of it stays in caches. Two processes, 1 MiB at a time, GB/s with rings of 4, 8 and
16 MiB: 64 MiB in a row 7.8, 7.9 and 7.2 (`np.copyto` of it 11.5), one and its answer 13.8, 13.0 and 9.1.
"""

LEAST_BYTES = 32 << 10
"""Payloads of so many bytes go through the ring.

Processor time of sending and taking one, in µs, over ZeroMQ (ipc) and with the ring beside it: 16 KiB 26 and
25, 32 KiB 29 and 26, 64 KiB 53 and 27, 256 KiB 96 and 41, 1 MiB 211 and 79.
"""

_MOST_ASKED = 256  # large payloads without an answer to the offer
_MOST_UNUSED = 4  # rings in a row that came to nothing


class WireListener(Protocol):
    """Who takes what the wire brings: a `link.Link`."""

    def receive(self, parts: Sequence[Buffer], *, borrowed: bool = False) -> None:
        """Takes a datagram."""
        ...

    def contact_changed(self) -> None:
        """Hears that `contact()` has changed."""
        ...


class ShmRing(Enum):
    """How far the ring for what is sent is."""

    NONE = auto()  # the next large payload makes one
    OFFERED = auto()
    OPEN = auto()
    SHUT = auto()  # until there is a new connection


@dataclass(frozen=True, slots=True)
class ShmStats:
    """The account of a `ShmWire`.

    Attributes:
        way: How far the ring for what is sent is.
        by_ring, by_ring_bytes: Payloads that were sent through it.
        by_wire, by_wire_bytes: Large ones that went over the wire.
        full: How often because there was no room.
        taken, taken_bytes: Payloads that came through a ring.
        stale: Places that came too late, or again, or were in no ring of this end.
        offered, declined: Rings that were offered to the peer, and that it did not take.
        refused: Rings of the peer that this end did not take.
        malformed: Words that were none.
    """

    way: str
    by_ring: int
    by_ring_bytes: int
    by_wire: int
    by_wire_bytes: int
    full: int
    taken: int
    taken_bytes: int
    stale: int
    offered: int
    declined: int
    refused: int
    malformed: int


class ShmWire:
    """One end. Both ends of the wire must be wrapped; either may be without shared memory.

    Args:
        inner: The wire to the peer; hand `receive` and `contact_changed` what it brings and says.
        ring_bytes: Of the ring for what is sent, a multiple of 4 KiB.
        least_bytes: Payloads of so many bytes go through it.
        entropy: Draws the names of rings.
    """

    def __init__(
        self,
        inner: Wire,
        *,
        ring_bytes: int = RING_BYTES,
        least_bytes: int = LEAST_BYTES,
        entropy: Entropy | None = None,
    ) -> None:
        if not (PAGE <= ring_bytes < MOST_BYTES and ring_bytes % PAGE == 0 and least_bytes >= 1):
            rule = f"a ring has a multiple of {PAGE} bytes, below {MOST_BYTES}, for payloads of 1 or more"
            message = f"{rule}, got {ring_bytes} for {least_bytes}"
            raise ConfigError(message)
        self._inner = inner
        self._link: WireListener | None = None
        self._ring_bytes = ring_bytes
        self._least_bytes = least_bytes
        self._entropy = entropy or Entropy()
        self._counts: Counter[str] = Counter()
        self._way = ShmRing.NONE
        self._writer: RingWriter | None = None
        self._offer: WordMessage | None = None  # while it is not answered
        self._asked = 0  # large payloads since it was made
        self._unused = 0
        self._stuck_at = 0  # what the reader had passed when there was no room
        self._reader: RingReader | None = None

    def attach(self, link: WireListener) -> None:
        """Says who takes what comes; before, it is lost."""
        self._link = link

    def contact(self) -> Contact:
        """Returns what the wire below knows."""
        return self._inner.contact()

    def contact_changed(self) -> None:
        """Hears that it is another than it was; rings are of one connection."""
        if self.contact() is Contact.BROKEN:
            self._forget()
        if self._link is not None:
            self._link.contact_changed()

    def close(self) -> None:
        """Lets go of the rings; what is sent and comes from now on goes by the wire."""
        self._forget()
        self._way, self._link = ShmRing.SHUT, None

    def __del__(self) -> None:
        if getattr(self, "_offer", None) is not None:  # who forgot to close it does not leave a descriptor
            self._hear_answer()

    def _forget(self) -> None:
        self._drop(ShmRing.NONE)
        self._way, self._unused = ShmRing.NONE, 0
        self._reader = None

    # -- sending -----------------------------------------------------------------------------------

    def send(self, parts: Sequence[Buffer]) -> None:
        """Sends one datagram; see `Wire.send`."""
        size = len(parts[1]) if len(parts) == 2 else 0
        if size < self._least_bytes:
            self._inner.send(parts)
            return
        goes = size <= self._ring_bytes and self.contact() is not Contact.BROKEN
        position = self._put(parts[1]) if goes else None
        if position is None:
            self._counts["by_wire"] += 1
            self._counts["by_wire_bytes"] += size
            self._inner.send(parts)
            return
        assert self._writer is not None
        self._counts["by_ring"] += 1
        self._counts["by_ring_bytes"] += size
        self._say(WordMessage(Word.PLACE, self._writer.token, position, size, head=parts[0]))

    def _say(self, said: WordMessage) -> None:
        self._inner.send(shm_words.pack(said))

    def _put(self, payload: Buffer) -> int | None:
        """Puts a payload into the ring; None when it is to go over the wire."""
        if self._way is ShmRing.OPEN:
            assert self._writer is not None
            try:
                position = self._writer.put(memoryview(payload).cast("B"))
            except WireError:
                self._counts["malformed"] += 1
                self._drop(ShmRing.SHUT)
                return None
            if position is None:
                self._full(self._writer)
            return position
        if self._way is ShmRing.NONE:
            self._make()
        elif self._offer is not None:
            self._asked += 1
            if self._asked >= _MOST_ASKED:
                self._drop(ShmRing.SHUT)
            elif self._asked & self._asked - 1 == 0:  # it, or the answer, may be lost
                self._say(self._offer)
        return None

    def _full(self, writer: RingWriter) -> None:
        """There was no room; if there was none the last time either, all places may be lost."""
        self._counts["full"] += 1
        if writer.consumed == self._stuck_at:
            self._say(WordMessage(Word.PASSED, writer.token, writer.head))
        self._stuck_at = writer.consumed

    def _make(self) -> None:
        """Makes a ring, and offers it."""
        size = PAGE + self._ring_bytes
        token = bytes.fromhex(self._entropy.name(8 * TOKEN_BYTES))
        try:
            memory, fd = segments.make(size)
        except (OSError, ValueError, MemoryError):
            self._counts["declined"] += 1
            self._way = ShmRing.SHUT
            return
        self._way, self._asked, self._stuck_at = ShmRing.OFFERED, 0, -1
        self._writer = RingWriter(memory, token)
        self._offer = WordMessage(Word.OFFER, token, size, pid=os.getpid(), fd=fd)
        self._counts["offered"] += 1
        self._say(self._offer)

    def _hear_answer(self) -> None:
        """The peer need not open it any more."""
        if self._offer is not None:
            os.close(self._offer.fd)
            self._offer = None

    def _drop(self, way: ShmRing) -> None:
        """Lets go of the ring."""
        self._hear_answer()
        if self._writer is not None:
            self._unused = 0 if self._writer.consumed else self._unused + 1
        self._writer = None
        self._way = ShmRing.SHUT if self._unused >= _MOST_UNUSED else way

    # -- receiving ---------------------------------------------------------------------------------

    def receive(self, parts: Sequence[Buffer], *, borrowed: bool = False) -> None:
        """Takes what the wire brings, whatever it is.

        Args:
            parts: One datagram.
            borrowed: Its buffers are the caller's again when this returns.
        """
        if self._link is None:
            return
        if shm_words.is_word(parts):
            self._hear(parts)
        else:
            self._link.receive(parts, borrowed=borrowed)

    def _hear(self, parts: Sequence[Buffer]) -> None:
        try:
            said = shm_words.unpack(parts)
        except WireError:
            self._counts["malformed"] += 1
            return
        match said.word:
            case Word.PLACE | Word.PASSED:
                self._take(said)
            case Word.OFFER:
                self._take_offer(said)
            case _:
                self._hear_word(said)

    def _take(self, said: WordMessage) -> None:
        """Hands a payload to the link, and frees its slot; or frees what is passed."""
        reader, link = self._reader, self._link
        if link is None or reader is None or reader.token != said.token:
            self._counts["stale"] += 1
            self._say(WordMessage(Word.GONE, said.token))
            return
        try:
            if said.word is Word.PASSED:
                reader.free(said.number)
                return
            payload = reader.find(said.number, said.size)
        except WireError:
            self._counts["malformed"] += 1
            return
        if payload is None:
            self._counts["stale"] += 1
            return
        self._counts["taken"] += 1
        self._counts["taken_bytes"] += said.size
        try:
            link.receive([bytes(said.head), payload], borrowed=True)
        finally:
            reader.free(said.number + slot_bytes(said.size))

    def _hear_word(self, said: WordMessage) -> None:
        """Hears what the peer says of the ring that was made here."""
        if self._writer is None or said.token != self._writer.token:
            return
        if said.word is Word.ACCEPTED:
            if self._way is ShmRing.OFFERED:
                self._hear_answer()
                self._way = ShmRing.OPEN
        elif said.word is Word.DECLINED:
            self._counts["declined"] += 1
            self._drop(ShmRing.SHUT)
        else:
            self._drop(ShmRing.NONE)

    def _take_offer(self, said: WordMessage) -> None:
        """Takes the ring of the peer, if it can."""
        if self._reader is None or self._reader.token != said.token:
            try:
                self._reader = RingReader(segments.open_(said.pid, said.fd, said.number), said.token)
            except (OSError, ValueError, WireError):
                self._counts["refused"] += 1
                self._say(WordMessage(Word.DECLINED, said.token))
                return
        self._say(WordMessage(Word.ACCEPTED, said.token))

    # -- the account -------------------------------------------------------------------------------

    def stats(self) -> ShmStats:
        """Returns the account."""
        names = (field.name for field in fields(ShmStats))
        return ShmStats(self._way.name.lower(), *(self._counts[name] for name in names if name != "way"))

    def __repr__(self) -> str:
        stats = self.stats()
        sent = f"{stats.by_ring} by ring, {stats.by_wire} by wire ({stats.full} for want of room)"
        return f"<ShmWire {stats.way}; {sent}, {stats.taken} taken, {stats.stale} stale>"
