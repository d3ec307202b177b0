"""A ring of bytes in memory that one process writes and another one reads: the rule, over a memoryview.

    page 0      magic; the token of this ring; `consumed`, which the reader alone writes
    the rest    slots, one behind the other; one that would not end before the end begins at the beginning

A slot has a **position**: how many bytes were passed since the ring was made. Positions only grow, so one
is the number of its slot as well. The writer gives position and size to the reader beside the ring. The
reader takes slots in the order of their positions, and says by `consumed` how far it has come: with a slot
it frees all before it, also those whose place it never heard of.

Neither believes the other. The reader reads nothing from the ring but payloads, which it looks at by places
that it has checked; whether a slot may still be there it knows from what it took before. The writer reads
`consumed` once for each slot, and it must lie between what it was and what was written.

What is read may change while it is read, if the writer is at fault: copy first, then look.
"""

from __future__ import annotations

from _thread import allocate_lock

from actorflow.errors import WireError

PAGE = 4096
TOKEN_BYTES = 16
_MAGIC = b"AFring1\0"
CONSUMED = 8  # which number of 8 bytes: on a cache line of its own
_ALIGN = 64


def _numbers(memory: memoryview) -> memoryview:
    """The first page as numbers of 8 bytes, each of which is read and written whole; `struct` is not so."""
    return memory[:PAGE].cast("Q")


def slot_bytes(size: int) -> int:
    """Returns what a payload takes of the ring."""
    return -(-size // _ALIGN) * _ALIGN


class RingWriter:
    """The writer's end; it makes the ring.

    INVARIANT: `consumed <= head`, and no byte from `consumed` to `head` is written to.

    Attributes:
        token: Tells this ring from all others.
        capacity: Bytes of slots.
        head: Where the next slot begins, if it fits there.
        consumed: What the reader had passed when it was last asked.
    """

    __slots__ = ("_free", "_numbers", "_slots", "capacity", "consumed", "head", "token")

    def __init__(self, memory: memoryview, token: bytes) -> None:
        assert len(token) == TOKEN_BYTES
        assert len(memory) > PAGE
        assert len(memory) % _ALIGN == 0
        memory[:PAGE] = bytes(PAGE)
        memory[: len(_MAGIC) + TOKEN_BYTES] = _MAGIC + token
        self.token = token
        self._numbers = _numbers(memory)
        self._slots = memory[PAGE:]
        self.capacity = len(self._slots)
        self.head = self.consumed = self._free = 0

    def put(self, payload: memoryview) -> int | None:
        """Writes a payload; returns its position, or None when there is no room for it.

        Args:
            payload: Bytes, at least one.

        Raises:
            WireError: the reader says what cannot be; the ring is of no use any more.
        """
        size, capacity, head = len(payload), self.capacity, self.head
        consumed = self._numbers[CONSUMED]
        if not self.consumed <= consumed <= head:
            message = (
                f"a ring is read as far as it is written, got {consumed} after {self.consumed} of {head}"
            )
            raise WireError(message)
        self.consumed = consumed
        need = slot_bytes(size)
        if need > capacity:
            return None
        over = head % capacity
        position = head
        # From the beginning too when nothing is unread: what was written last is still in the caches.
        if over and (over + need > capacity or consumed == head):
            position = head - over + capacity
        if consumed == head:
            self._free = position  # what is left out was read as well, though the reader cannot know it yet
        if position + need - max(consumed, self._free) > capacity:
            return None
        at = position % capacity
        self._slots[at : at + size] = payload
        self.head = position + need
        return position

    def __repr__(self) -> str:
        return f"<RingWriter of {self.capacity} bytes: {self.head - self.consumed} unread>"


class RingReader:
    """The reader's end.

    Attributes:
        token: That of the ring.
        capacity: Bytes of slots.
        consumed: How far it has come.
        passed: Slots that it was told of too late, or again.
    """

    __slots__ = ("_numbers", "_order", "_slots", "capacity", "consumed", "passed", "token")

    def __init__(self, memory: memoryview, token: bytes) -> None:
        """Takes a ring that is new.

        Raises:
            WireError: it is none, or another one.
        """
        head = bytes(memory[: len(_MAGIC) + TOKEN_BYTES])
        if head != _MAGIC + token or len(memory) <= PAGE or len(memory) % _ALIGN:
            message = f"a ring begins with its magic and its token, got {head[: len(_MAGIC)]!r} and others"
            raise WireError(message)
        self.token = token
        self._numbers = _numbers(memory)
        self._slots = memory[PAGE:]
        self.capacity = len(self._slots)
        self.consumed = self.passed = 0
        self._order = allocate_lock()
        self._order.acquire()

    def find(self, position: int, size: int) -> memoryview | None:
        """Returns the payload of a slot, in the ring; None when it is not there any more.

        It stays until `free` is called with a position behind its own.

        Raises:
            WireError: there can be no such slot.
        """
        ahead, at = position - self.consumed, position % self.capacity
        if ahead < 0:
            self.passed += 1
            return None
        if ahead >= 2 * self.capacity or position % _ALIGN or not 0 < size <= self.capacity - at:
            rule = f"a slot lies in its ring of {self.capacity} bytes"
            message = f"{rule}, got {size} bytes at {position} when {self.consumed} were passed"
            raise WireError(message)
        return self._slots[at : at + size].toreadonly()

    def free(self, position: int) -> None:
        """Lets the writer have all that lies before a position.

        Raises:
            WireError: it cannot have written so far.
        """
        if position <= self.consumed:
            return
        if position - self.consumed > 2 * self.capacity:  # what was left out, and all that fits
            rule = f"a ring of {self.capacity} bytes is freed as it is read"
            message = f"{rule}, got {position} when {self.consumed} were passed"
            raise WireError(message)
        self.consumed = position
        # ORDER: all reads of the slot before this store; not every machine keeps it without being told.
        self._order.release()
        self._order.acquire()
        self._numbers[CONSUMED] = position

    def __repr__(self) -> str:
        return f"<RingReader of {self.capacity} bytes: {self.consumed} passed>"
