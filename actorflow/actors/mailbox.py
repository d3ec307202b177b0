"""The bounded store in front of an actor: two lanes, two limits, and a line of those who wait.

The control lane never waits. The data lane holds at most `max_messages` messages and `max_bytes`
bytes; who finds no room stands in `waiters`, first come first in.


This is a structure, not an actor: it knows no loop and wakes nobody.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from operator import attrgetter
from typing import Any, Protocol

SMALL_BYTES = 1024
"""Messages below this size count as a message only."""

LEAST_OVERDRAFT = 16
"""Messages that even a mailbox of capacity 1 may take over its limit to open a ring."""


class MailboxEntry(Protocol):
    """A message that waits for room."""

    nbytes: int

    @property
    def void(self) -> bool:
        """True once nobody wants it to enter any more."""
        ...

    def enter(self) -> None:
        """Enters, or takes a place, now that there is room."""
        ...

    def refuse(self) -> None:
        """Hears that it never will: the actor is dead."""
        ...


class Passing(Protocol):
    """Whoever may take back a message that stands in a mailbox."""

    def take(self) -> bool:
        """Tells, once, whether the message, which has left the mailbox, is delivered."""
        ...


class Sized:
    """A message that counts bytes, or that a timer brings.

    Attributes:
        timer: What decides, when it is taken, whether it is delivered at all; None for what was told.
    """

    __slots__ = ("message", "nbytes", "timer")

    def __init__(self, message: Any, nbytes: int, timer: Passing | None = None) -> None:
        self.message = message
        self.nbytes = nbytes
        self.timer = timer


class Sizes(dict[type, "Callable[[Any], int] | None"]):
    """How to size a message, by its type; None for types that count as a message only.

    A type with an `nbytes` attribute says its own size. Tuples, lists and dicts are looked into,
    one level deep.

    Attributes:
        unsized: The types, of those seen so far, that count as a message only. To find one here takes 15 ns,
            to look its size up 40, since that is no plain dict.
    """

    def __init__(self) -> None:
        super().__init__()
        self.unsized: set[type] = set()

    def __missing__(self, kind: type) -> Callable[[Any], int] | None:
        size: Callable[[Any], int] | None = None
        if kind in (tuple, list):
            size = self._of_items
        elif kind is dict:
            size = self._of_values
        elif kind in (bytes, bytearray):
            size = len
        elif hasattr(kind, "nbytes"):
            size = attrgetter("nbytes")
        self[kind] = size
        if size is None:
            self.unsized.add(kind)
        return size

    def _of_items(self, items: Any) -> int:
        return sum(size(item) for item in items if (size := _flat(self, item)) is not None)

    def _of_values(self, items: dict[Any, Any]) -> int:
        return self._of_items(items.values())


def _flat(sizes: Sizes, item: Any) -> Callable[[Any], int] | None:
    kind = type(item)
    # one level deep: what lies further in counts nothing
    return None if kind in (tuple, list, dict) else sizes[kind]


class Mailbox:
    """The store of one actor.

    INVARIANT: `bytes` is the sum over the data lane and the places held.
    INVARIANT: `len(data) + held <= max_messages`, and `bytes <= max_bytes` or one message is alone,
        except for the messages, at most max(16, max_messages), let in over the limit to open a
        ring (`waits`).
    INVARIANT: nobody in `waiters` whose message would fit at the front.
    `mark` is the depth from which a put must look closer. It is 0 while somebody waits or the
    mailbox is closed, else the highest depth yet seen; so the hot path makes one comparison where
    it would make four, and the peak costs nothing.
    """

    __slots__ = (
        "bytes",
        "closed",
        "control",
        "data",
        "held",
        "mark",
        "max_bytes",
        "max_messages",
        "peak",
        "peak_bytes",
        "waiters",
    )

    def __init__(self, max_messages: int = 1024, max_bytes: int = 64 << 20) -> None:
        if max_messages < 1 or max_bytes < 1:
            message = f"a mailbox needs room for one message, got {max_messages=}, {max_bytes=}"
            raise ValueError(message)
        self.control: deque[Any] = deque()
        self.data: deque[Any] = deque()
        self.waiters: OrderedDict[MailboxEntry, None] = OrderedDict()
        self.max_messages = max_messages
        self.max_bytes = max_bytes
        self.bytes = 0
        self.held = 0
        self.peak = 0
        self.peak_bytes = 0
        self.mark = 0
        self.closed = False

    @property
    def overdraft(self) -> int:
        """Messages that may still enter over the limit to open a ring."""
        over = max(0, len(self.data) + self.held - self.max_messages)
        # What was lent so far is what stands over the limit now: it comes back as messages are taken.
        return max(LEAST_OVERDRAFT, self.max_messages) - over

    def fits(self, nbytes: int) -> bool:
        """Tells whether a message of `nbytes` may enter now: there is room and nobody is ahead."""
        return not self.waiters and not self.closed and self.has_room(nbytes)

    def add(self, message: Any, nbytes: int) -> None:
        """Puts a message in; the caller saw that it fits, or opens a ring."""
        if nbytes:
            # Only what counts bytes is wrapped: the size is taken once, for a list may change before it is
            # read.
            self.bytes += nbytes
            message = Sized(message, nbytes)
        self.data.append(message)
        self._remark()

    def insert(self, entry: Sized) -> None:
        """Puts in what a timer brings; the caller saw that it fits, or opens a ring."""
        self.bytes += entry.nbytes
        self.data.append(entry)
        self._remark()

    def wait(self, entry: MailboxEntry) -> None:
        """Stands `entry` at the end of the line."""
        self.waiters[entry] = None
        # From now on every sender looks closer, and finds that somebody is ahead.
        self.mark = 0

    def withdraw(self, entry: MailboxEntry) -> bool:
        """Takes `entry` out of the line; false when it is not in it any more."""
        if entry not in self.waiters:
            return False
        del self.waiters[entry]
        # Those behind it may fit where it did not.
        self.admit()
        return True

    def take(self) -> Any:
        """Returns the next message of the data lane and lets in who waits."""
        message = self.data.popleft()
        if type(message) is Sized:
            self.bytes -= message.nbytes
            message = message.message
        # the room just made is for who has waited
        if self.waiters:
            self.admit()
        return message

    def admit(self) -> None:
        """Lets in those at the front of the line for whom there is room."""
        waiters = self.waiters
        while waiters:
            entry = next(iter(waiters))
            # INVARIANT: nobody overtakes, so the first who does not fit holds up all others; void ones leave.
            if not entry.void and not self.has_room(entry.nbytes):
                break
            del waiters[entry]
            if not entry.void:
                entry.enter()
        self._remark()

    def force(self, entry: MailboxEntry) -> None:
        """Lets `entry` in over the limit, past those before it who find no room, to open a ring."""
        # Whoever stood only behind a void entry enters first: `entry` passes nobody who fits.
        self.admit()
        if entry in self.waiters:
            del self.waiters[entry]
            entry.enter()
            self.admit()

    def hold(self, nbytes: int) -> None:
        """Keeps a place for a message that enters by `fill`, or never, by `release`."""
        self.held += 1
        self.bytes += nbytes
        self._remark()

    def fill(self, message: Any, nbytes: int) -> None:
        """Puts a message in the place held for it."""
        self.held -= 1
        # `add` counts them again
        self.bytes -= nbytes
        self.add(message, nbytes)

    def release(self, nbytes: int) -> None:
        """Gives a held place back."""
        self.held -= 1
        self.bytes -= nbytes
        self.admit()

    def close(self) -> None:
        """Lets nobody in from now on; what is inside stays."""
        self.closed = True
        self.mark = 0

    def __repr__(self) -> str:
        waiting = f", {len(self.waiters)} wait for room" if self.waiters else ""
        signals = f", {len(self.control)} signals" if self.control else ""
        return (
            f"{len(self.data)}/{self.max_messages} messages (peak {self.peak}), "
            f"{self.bytes}/{self.max_bytes} bytes (peak {self.peak_bytes}){signals}{waiting}"
        )

    def has_room(self, nbytes: int) -> bool:
        """Tells whether there is room for a message of `nbytes`, whoever stands ahead of it."""
        depth = len(self.data) + self.held
        if depth >= self.max_messages:
            return False
        # Too large for the whole mailbox it enters an empty one, so that it passes, alone.
        return not nbytes or not depth or self.bytes + nbytes <= self.max_bytes

    def _remark(self) -> None:
        depth = len(self.data)
        if depth > self.peak:
            self.peak = depth
        if self.bytes > self.peak_bytes:
            self.peak_bytes = self.bytes
        if self.waiters or self.closed:
            self.mark = 0
        else:
            # The highest depth yet seen: who puts in more comes by here and raises the peak; below, the peak
            # costs nothing.
            self.mark = min(self.peak, self.max_messages - self.held)
