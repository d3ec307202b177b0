"""Once and in order over a wire that loses, doubles and reorders: numbers, acknowledgements, resending.

One `Sending` and one `Receiving` a lane, session and direction. What is sent has the numbers 1, 2, ...;
the receiver says up to which number it has all (`upto`), and which of the 64 after the first gap it holds
(`mask`: bit i stands for `upto + 2 + i`). Both only grow, so acknowledgements may be lost, doubled and late.

Resending: what is not acknowledged within `resend_s` of the last progress is due again, all of it, but
only four at a time until something is acknowledged; each acknowledged one then lets one more out. The wait
doubles each time, up to a cap, and is short again after progress. Where the wire is connected, what was sent
is most likely on its way to a peer that is busy: then only one is due again, and the waits grow further, so
that nothing piles up on that way. Time is an argument.

Source: selective acknowledgement and slow start of TCP (RFC 2018, RFC 5681). Deviation: the wait is not
estimated from round trips, since the wires below lose almost nothing, and nothing is sent early on a gap.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from actorflow.errors import WireError

MASK_BITS = 64
_RESTART = 4  # how many are resent before one is acknowledged

T = TypeVar("T")
_NOTHING: tuple[Any, ...] = ()


class SendWindow(NamedTuple):
    """What may be sent and not yet acknowledged, on one lane.

    Attributes:
        chunks: How many; at most 64.
        bytes: Of what size together, unless it is only one.
    """

    chunks: int = 64
    bytes: int = 4 << 20


class RetransmissionTimer(NamedTuple):
    """When to resend.

    Attributes:
        resend_s: The first wait.
        most_s: The longest.
        connected_s: The longest over a wire that is connected.
    """

    resend_s: float = 0.2
    most_s: float = 2.5
    connected_s: float = 15.0


class Sending(Generic[T]):
    """What one lane sends, until it is acknowledged.

    INVARIANT: numbers `upto + 1 .. last` are out, the rest waits unnumbered.
    INVARIANT: at most `flight.chunks` are out, of at most `flight.bytes` bytes unless it is one.

    Attributes:
        upto: All up to this number are acknowledged.
        last: The last number given.
        resend_at: When what is out is due again; None when nothing is.
        resent: How often something was sent again.
        bytes: Of all that waits or is out.
        peak: The most that waited or were out.
        waiting: What waits, each with its size.
        due: The numbers of what is out, and to be sent again, in order.
    """

    __slots__ = (
        "_allowed", "_bytes_out", "_flight", "_held", "_out", "_pace", "_wait_s",
        "bytes", "due", "last", "peak", "resend_at", "resent", "upto", "waiting",
    )  # fmt: skip

    def __init__(self, flight: SendWindow, pace: RetransmissionTimer) -> None:
        self._flight = flight
        self._pace = pace
        self._wait_s = pace.resend_s
        self._allowed = flight.chunks
        self.waiting: deque[tuple[int, T]] = deque()
        self._out: dict[int, tuple[int, T]] = {}  # in the order of their numbers
        self._bytes_out = 0
        self._held: set[int] = set()  # out, and the receiver has them beyond a gap
        self.due: deque[int] = deque()
        self.upto = self.last = 0
        self.resend_at: float | None = None
        self.resent = self.bytes = self.peak = 0

    def __len__(self) -> int:
        """How many wait or are out."""
        return len(self.waiting) + len(self._out)

    def put(self, item: T, size: int) -> None:
        """Adds what is to be sent after all that is there."""
        self.waiting.append((size, item))
        self.bytes += size
        self.peak = max(self.peak, len(self))

    @property
    def open(self) -> bool:
        """Whether one more, if it is not too large, would be sent at once: then is the time to make it."""
        if self.waiting or self.due or self.last - self.upto >= self._flight.chunks:
            return False
        return len(self._out) - len(self._held) < self._allowed

    def take(self, now: float) -> tuple[int, T] | None:
        """Returns what is to be sent now, and its number; None when nothing may be."""
        if not self.waiting and not self.due:
            return None
        flying = len(self._out) - len(self._held) - len(self.due)
        if flying >= self._allowed:
            return None
        if self.due:
            number = self.due.popleft()
            self.resent += 1
            return number, self._out[number][1]
        if not self.waiting or self.last - self.upto >= self._flight.chunks:
            return None
        size, item = self.waiting[0]
        if self._out and self._bytes_out + size > self._flight.bytes:
            return None
        self.waiting.popleft()
        self.last += 1
        self._out[self.last] = (size, item)
        self._bytes_out += size
        if self.resend_at is None:
            self.resend_at = now + self._wait_s
        return self.last, item

    def acknowledged(self, upto: int, mask: int, now: float) -> Sequence[T]:
        """Takes an acknowledgement; an older one changes nothing.

        Returns:
            What is acknowledged for good by it, in order.

        Raises:
            WireError: it speaks of numbers that were never sent.
        """
        if upto == self.upto and not mask:
            return _NOTHING  # nothing new, as most often
        if upto + (mask.bit_length() + 1 if mask else 0) > self.last:
            message = (
                f"what was sent is acknowledged, got {upto} and mask {mask:#x} when {self.last} was last"
            )
            raise WireError(message)
        if upto < self.upto:
            return []
        done = [self._forget(number) for number in range(self.upto + 1, upto + 1)]
        self.upto = upto
        progress = len(done)
        if mask:
            held = {upto + 2 + i for i in range(mask.bit_length()) if mask >> i & 1} - self._held
            self._held |= held
            progress += len(held)
        if progress:
            if self.due:
                self.due = deque(n for n in self.due if n > upto and n not in self._held)
            self._allowed = min(self._flight.chunks, self._allowed + progress)
            self._wait_s = self._pace.resend_s
            self.resend_at = now + self._wait_s if len(self._out) > len(self._held) else None
        return done

    def _forget(self, number: int) -> T:
        size, item = self._out.pop(number)
        self._bytes_out -= size
        self.bytes -= size
        self._held.discard(number)
        return item

    def expire(self, now: float, *, connected: bool = False) -> bool:
        """Makes due what waited too long for its acknowledgement; tells whether it had.

        Args:
            now: The time.
            connected: Whether the wire is.
        """
        if self.resend_at is None or now < self.resend_at:
            return False
        most_s, restart = (self._pace.connected_s, 1) if connected else (self._pace.most_s, _RESTART)
        self._wait_s = min(2 * self._wait_s, most_s)
        self._again(now, min(self._flight.chunks, restart))
        return True

    def reconnected(self, now: float) -> None:
        """Makes due what is out, some of which may have gone down with a connection."""
        if self.resend_at is not None:
            self._wait_s = self._pace.resend_s
            self._again(now, self._flight.chunks)

    def _again(self, now: float, allowed: int) -> None:
        self.due = deque(number for number in self._out if number not in self._held)
        self._allowed = allowed
        self.resend_at = now + self._wait_s

    def violation(self) -> str | None:
        """Says which invariant does not hold; None while all do."""
        out, held, due, flight = self._out, self._held, list(self.due), self._flight
        if list(out) != list(range(self.upto + 1, self.last + 1)):
            return f"{self.upto + 1} to {self.last} are out, got {list(out)}"
        if len(out) > flight.chunks or (self._bytes_out > flight.bytes and len(out) > 1):
            return f"at most {flight} are out, got {len(out)} of {self._bytes_out} bytes"
        sizes = sum(size for size, _ in out.values()), sum(size for size, _ in self.waiting)
        if (self._bytes_out, self.bytes) != (sizes[0], sum(sizes)):
            got = f"{self._bytes_out} out and {self.bytes} in all"
            return f"the bytes out are {sizes[0]} and {sum(sizes)} in all, got {got}"
        if not held <= out.keys():
            return f"what the peer holds is out, got {sorted(held)} when {list(out)} are"
        if due != sorted(set(due)) or not held.isdisjoint(due) or not out.keys() >= set(due):
            return f"what is due is out and not held, each once and in order, got {due}"
        if (self.resend_at is None) != (len(out) == len(held)):  # else what was lost would be lost for good
            missing = len(out) - len(held)
            return f"a time to resend is set while something is missing, got {self.resend_at}, {missing} are"
        if not 1 <= self._allowed <= flight.chunks:
            return f"1 to {flight.chunks} may be out, got {self._allowed}"
        return None

    def __repr__(self) -> str:
        return f"{len(self._out)} out, {len(self.waiting)} waiting (peak {self.peak}), {self.resent} resent"


class Receiving(Generic[T]):
    """What one lane receives: each number once, in order.

    INVARIANT: `upto + 1` is not held; what is held is at most `flight`.

    Attributes:
        upto: All up to this number have come.
        duplicates: What came again.
        beyond: What came too far ahead to be held.
    """

    __slots__ = ("_flight", "_held", "_held_bytes", "beyond", "duplicates", "upto")

    def __init__(self, flight: SendWindow) -> None:
        self._flight = flight
        self._held: dict[int, tuple[int, T]] = {}
        self._held_bytes = 0
        self.upto = self.duplicates = self.beyond = 0

    @property
    def mask(self) -> int:
        """Which numbers are held beyond the gap."""
        return sum(1 << number - self.upto - 2 for number in self._held) if self._held else 0

    def accept(self, number: int, item: T, size: int) -> list[T]:
        """Takes what arrives; returns what is next in order, which may be nothing or several."""
        if number == self.upto + 1 and not self._held:
            self.upto = number
            return [item]
        if number <= self.upto or number in self._held:
            self.duplicates += 1
            return []
        if number > self.upto + 1:
            if number > self.upto + self._flight.chunks or self._held_bytes + size > self._flight.bytes:
                self.beyond += 1
            else:
                self._held[number] = (size, item)
                self._held_bytes += size
            return []
        ready = [item]
        self.upto = number
        while self.upto + 1 in self._held:
            self.upto += 1
            size, item = self._held.pop(self.upto)
            self._held_bytes -= size
            ready.append(item)
        return ready

    def violation(self) -> str | None:
        """Says which invariant does not hold; None while all do."""
        first, last = self.upto + 2, self.upto + self._flight.chunks
        if not all(first <= number <= last for number in self._held):
            return f"what is held lies in {first} to {last}, got {sorted(self._held)}"
        size = sum(size for size, _ in self._held.values())
        if self._held_bytes != size or size > self._flight.bytes:
            return f"the bytes held are {size}, of at most {self._flight.bytes}, got {self._held_bytes}"
        return None

    def __repr__(self) -> str:
        return f"{self.upto} in order, {len(self._held)} held, {self.duplicates} duplicates"
