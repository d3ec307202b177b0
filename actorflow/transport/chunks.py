"""A frame in pieces of at most 1 MiB, and back into one buffer.

A large frame as one piece would keep all behind it waiting and is slower to send. Pieces of one lane
follow each other; those of the other lane may come between them, so each lane has an `Assembly`, and no
more than one frame a lane is ever half there.

Memory for a frame is found once, after its size has passed the limits (and, for data, the sender's credit).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from actorflow.errors import WireError
from actorflow.transport.codec import PREFIX_BYTES
from actorflow.transport.kinds import LIMITS, Buffer, Limits

CHUNK_BYTES = 1 << 20
_APART = 64 << 10  # bytes from which a buffer is sent from where it lies; smaller ones are joined


class Chunk(NamedTuple):
    """One piece of a frame.

    Attributes:
        whole: Bytes of the frame, in its first piece; 0 in the others.
        payload: Bytes of it, at least one.
    """

    whole: int
    payload: Buffer


def cut(parts: Sequence[Buffer], size: int, chunk_bytes: int = CHUNK_BYTES) -> list[Chunk]:
    """Returns the pieces of a frame that is given as buffers; large ones are not copied.

    Args:
        parts: The frame, as `codec.encode` gives it.
        size: Bytes of them all.
        chunk_bytes: Bytes of the largest piece.
    """
    payloads: list[Buffer] = []
    small: list[Buffer] = []  # to be joined into one piece
    small_bytes = 0
    apart = min(_APART, chunk_bytes)
    for part in parts:
        if not len(part):
            continue
        if small and (len(part) >= apart or small_bytes + len(part) > chunk_bytes):
            payloads.append(b"".join(small))
            small, small_bytes = [], 0
        if len(part) < apart:
            small.append(part)
            small_bytes += len(part)
        else:
            memory = memoryview(part)
            payloads += (memory[at : at + chunk_bytes] for at in range(0, len(memory), chunk_bytes))
    if small:
        payloads.append(b"".join(small))
    return [Chunk(0 if i else size, payload) for i, payload in enumerate(payloads)]


class Assembly:
    """Makes frames of pieces that come once and in order."""

    __slots__ = ("_at", "_chunk_bytes", "_frame", "_limits")

    def __init__(self, limits: Limits = LIMITS, chunk_bytes: int = CHUNK_BYTES) -> None:
        self._limits = limits
        self._chunk_bytes = chunk_bytes
        self._frame: Buffer | None = None
        self._at = 0

    @property
    def missing(self) -> int:
        """Bytes that the frame which is half there still needs; 0 when none is."""
        return 0 if self._frame is None else len(self._frame) - self._at

    def check(self, chunk: Chunk) -> None:
        """Raises WireError unless the piece may come now, before any memory is found for its frame."""
        size = len(chunk.payload)
        if not 0 < size <= self._chunk_bytes:
            message = f"a piece of a frame has 1 to {self._chunk_bytes} bytes, got {size}"
            raise WireError(message)
        missing = self.missing
        if bool(chunk.whole) == bool(missing):
            what = f"the first piece of one of {chunk.whole} bytes" if chunk.whole else "a later piece"
            message = f"frames come one after the other, got {what} when {missing} bytes were missing"
            raise WireError(message)
        if chunk.whole and not PREFIX_BYTES <= chunk.whole <= self._limits.frame_bytes:
            most = self._limits.frame_bytes
            message = f"a frame has {PREFIX_BYTES} to {most} bytes, got {chunk.whole} announced"
            raise WireError(message)
        if size > (chunk.whole or missing):
            message = f"a piece is a part of its frame, got {size} bytes of {chunk.whole or missing}"
            raise WireError(message)

    def take(self, chunk: Chunk) -> Buffer | None:
        """Takes a piece; returns the frame if that was its last.

        Raises:
            WireError: it may not come now; nothing is changed.
        """
        self.check(chunk)
        if chunk.whole:
            # Not bytearray, which writes zeros: memory that is announced and never filled costs nothing.
            self._frame, self._at = np.empty(chunk.whole, np.uint8), 0
        frame = self._frame
        assert frame is not None
        end = self._at + len(chunk.payload)
        memoryview(frame)[self._at : end] = chunk.payload
        self._at = end
        if end < len(frame):
            return None
        self._frame = None
        return frame
