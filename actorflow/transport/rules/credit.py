"""How much may be on its way to a peer: a window of messages and bytes, spent and given back.

The rule, for whoever sends: an envelope may go when nothing else is out, or when with it the window is
not exceeded. Out is what was spent and has not come back. So an envelope larger than the whole window
passes, alone.

What comes back is told as totals since the session began: a lost grant is made up for by the next, and
one that comes twice, or late, changes nothing. The receiver keeps the same account with what it knows,
which is never less out than there is by its own grants, so whoever exceeds its window is at fault.
"""

from __future__ import annotations

from typing import NamedTuple

from actorflow.errors import WireError


class Window(NamedTuple):
    """What may be out at a time.

    Attributes:
        messages: How many envelopes.
        bytes: Of their frames.
    """

    messages: int = 1024
    bytes: int = 64 << 20

    def holds(self, messages: int, size: int) -> bool:
        """Tells whether so many envelopes of so many bytes may be out; one may always."""
        return messages <= 1 or (messages <= self.messages and size <= self.bytes)


WINDOW = Window()


class Spending:
    """The sender's account of what is out.

    INVARIANT: `window.holds(messages_out, bytes_out)`.

    Attributes:
        window: The receiver's.
        messages, bytes: Spent since the session began.
        messages_back, bytes_back: Come back since then.
    """

    __slots__ = ("bytes", "bytes_back", "messages", "messages_back", "window")

    def __init__(self, window: Window) -> None:
        self.window = window
        self.messages = self.bytes = 0
        self.messages_back = self.bytes_back = 0

    @property
    def out(self) -> tuple[int, int]:
        """Messages and bytes that are out."""
        return self.messages - self.messages_back, self.bytes - self.bytes_back

    def fits(self, size: int) -> bool:
        """Tells whether an envelope of so many bytes may go now."""
        messages = self.messages - self.messages_back + 1
        return self.window.holds(messages, self.bytes - self.bytes_back + size)

    def spend(self, size: int) -> None:
        """Records that an envelope goes, which `fits`."""
        self.messages += 1
        self.bytes += size

    def granted(self, messages: int, size: int) -> None:
        """Takes the totals that the receiver says have come back; older ones change nothing.

        Raises:
            WireError: more came back than was spent, or the totals contradict each other.
        """
        if messages <= self.messages_back and size <= self.bytes_back:
            return
        over = messages > self.messages or size > self.bytes
        torn = messages <= self.messages_back or size <= self.bytes_back
        if over or torn or (messages == self.messages) != (size == self.bytes):
            spent = f"{self.messages} messages and {self.bytes} bytes"
            back = f"{self.messages_back} and {self.bytes_back} of {spent} had come back"
            message = f"credit comes back as it was spent, got {messages} and {size} when {back}"
            raise WireError(message)
        self.messages_back, self.bytes_back = messages, size

    def violation(self) -> str | None:
        """Says which invariant does not hold; None while all do."""
        messages, size = self.out
        if messages < 0 or size < 0 or (messages == 0) != (size == 0):
            return f"what comes back was spent, got {messages} messages and {size} bytes out"
        if not self.window.holds(messages, size):
            return f"what is out fits {self.window}, got {messages} messages and {size} bytes"
        return None

    def __repr__(self) -> str:
        messages, size = self.out
        return f"{messages}/{self.window.messages} messages and {size}/{self.window.bytes} bytes out"


class Granting:
    """The receiver's account of what it has taken in, and what it has given back.

    Attributes:
        window: Its own, as announced.
        messages, bytes: Given back since the session began: what the sender is told.
        messages_held, bytes_held: Taken in and not given back.
        peak_messages, peak_bytes: The most that were held.
    """

    __slots__ = (
        "bytes", "bytes_held", "messages", "messages_held", "peak_bytes", "peak_messages", "window",
    )  # fmt: skip

    def __init__(self, window: Window) -> None:
        self.window = window
        self.messages = self.bytes = 0
        self.messages_held = self.bytes_held = 0
        self.peak_messages = self.peak_bytes = 0

    def admit(self, size: int) -> None:
        """Takes an envelope in, before any memory is found for it.

        Raises:
            WireError: the sender had no credit for it.
        """
        messages, total = self.messages_held + 1, self.bytes_held + size
        if not self.window.holds(messages, total):
            credit = f"{self.window.messages} messages and {self.window.bytes} bytes"
            message = f"a peer sends on credit, got {messages} messages and {total} bytes on {credit}"
            raise WireError(message)
        self.messages_held, self.bytes_held = messages, total
        if messages > self.peak_messages:
            self.peak_messages = messages
        if total > self.peak_bytes:
            self.peak_bytes = total

    def release(self, size: int) -> None:
        """Gives the credit of one envelope back."""
        self.messages_held -= 1
        self.bytes_held -= size
        self.messages += 1
        self.bytes += size

    def violation(self) -> str | None:
        """Says which invariant does not hold; None while all do."""
        messages, size = self.messages_held, self.bytes_held
        if messages < 0 or size < 0 or (messages == 0) != (size == 0):
            return f"what is given back was taken in, got {messages} messages and {size} bytes held"
        if not self.window.holds(messages, size):
            return f"what is held fits {self.window}, got {messages} messages and {size} bytes"
        if messages > self.peak_messages or size > self.peak_bytes:
            peak = f"{self.peak_messages} messages and {self.peak_bytes} bytes"
            return f"no more is held than at most, got {messages} messages and {size} bytes over {peak}"
        return None

    def __repr__(self) -> str:
        held = f"{self.messages_held} messages and {self.bytes_held} bytes held"
        return f"{held} (peak {self.peak_messages} and {self.peak_bytes})"
