"""Frames on a stream of bytes: what has come so far, and what has not left yet. No socket in here."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np

from actorflow.transport.codec.message_codec import PREFIX_BYTES, frame_size
from actorflow.transport.codec.types import LIMITS, Buffer, MessageLimits

_AT_ONCE = 512  # buffers to one write; Linux takes 1,024


class Inbox:
    """Frames that come in.

    Whoever reads the stream fills `room()` and says by `fill` how much came. Each frame gets memory of
    its own, as soon as its size is known and within the limits.

    Attributes:
        received: Bytes so far.
    """

    __slots__ = ("_frame", "_limits", "_prefix", "_room", "received")

    def __init__(self, limits: MessageLimits = LIMITS) -> None:
        self._limits = limits
        self._prefix = bytearray(PREFIX_BYTES)
        self._frame: Any = None
        self._room = memoryview(self._prefix)
        self.received = 0

    def room(self) -> memoryview:
        """Returns where the next bytes belong; never empty."""
        return self._room

    def fill(self, n: int) -> Buffer | None:
        """Counts `n` bytes more; returns the frame that they complete.

        Raises:
            WireError: when no frame begins as these bytes do.
        """
        self.received += n
        self._room = self._room[n:]
        # First the prefix, which says how large the frame is.
        if len(self._room):
            return None
        if self._frame is None:
            # Memory of its own for each, since results are views of it; within the limits, whatever is
            # claimed.
            self._frame = np.empty(frame_size(self._prefix, self._limits), np.uint8)
            memory = memoryview(self._frame)
            memory[:PREFIX_BYTES] = self._prefix
            self._room = memory[PREFIX_BYTES:]
        # A frame may be its prefix alone.
        if len(self._room):
            return None
        frame, self._frame = self._frame, None
        self._room = memoryview(self._prefix)
        return frame


class Outbox:
    """Frames that go out, in order. It borrows their buffers until they are sent."""

    __slots__ = ("_parts",)

    def __init__(self) -> None:
        self._parts: deque[Buffer] = deque()

    def __bool__(self) -> bool:
        """Whether anything waits."""
        return bool(self._parts)

    def add(self, parts: Sequence[Buffer]) -> None:
        """Puts a frame behind the others."""
        # An empty part would never be written, and never leave.
        self._parts += [part for part in parts if len(part)]

    def batch(self) -> list[Buffer]:
        """Returns buffers for one vectored write."""
        # More than the system takes at once are left for the next write.
        if len(self._parts) <= _AT_ONCE:
            return list(self._parts)
        return [self._parts[i] for i in range(_AT_ONCE)]

    def drop_sent(self, n: int) -> None:
        """Forgets the first `n` bytes."""
        parts = self._parts
        while n:
            size = len(parts[0])
            if n < size:
                # The rest of a buffer of which a part has left.
                parts[0] = memoryview(parts[0])[n:]
                return
            n -= size
            parts.popleft()

    def clear(self) -> None:
        """Forgets all that waits."""
        self._parts.clear()
