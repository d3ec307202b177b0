"""A lane as a stream of frames, cut into pieces: small frames share one, and a large one takes several.

    piece    frame, gap, frame, gap, ..., the beginning of a frame
    piece    more of that frame
    piece    the end of it, gap, frame ...

A frame tells its own size in its first `PREFIX_BYTES`, which lie in one piece. It begins at a multiple of 16
bytes in its piece, since arrays are views of it; what lies in the gap before it is not looked at. A large
frame as one piece would keep all behind it waiting and is slower to send, so no piece is larger than 1 MiB.
Pieces of one lane follow each other; those of the other lane may come between them, so each lane has a
`Stream` here and an `Assembly` there, and no more than one frame a lane is ever half there.

Memory for a frame is found once, after its size has passed the limits and (for data) the sender's credit.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from actorflow.errors import WireError
from actorflow.transport.codec.message_codec import frame_size
from actorflow.transport.codec.types import ALIGN, APART, LIMITS, ZEROS, Buffer, MessageLimits
from actorflow.values.arrays import Array
from actorflow.values.lease import unshared

CHUNK_BYTES = 1 << 20
_APART = 64 << 10  # bytes from which a buffer is sent from where it lies; smaller ones are joined up to that

_LEAST_KEPT, _MOST_KEPT = 4 << 20, 256 << 20  # bytes of a frame whose memory is kept, and of all that is
_KEPT = 4  # frames


class Chunk(NamedTuple):
    """One piece of a lane.

    Attributes:
        payload: Bytes of it, at least one.
        closes: The serial numbers of the frames that end in it, in order.
    """

    payload: Buffer
    closes: Sequence[int]


class Stream:
    """The frames of a lane that wait to be cut: the later that is, the more of them share a piece.

    To send and receive 64 bytes takes 10 µs where 100 share a piece, and 24 where each has its own (two links
    in one process, over a wire that appends to a deque; processor time, the best of 25 rounds of 1000).

    Args:
        chunk_bytes: Bytes of the largest piece.

    Attributes:
        parts: What waits, in order: a buffer, whether a frame begins with it, and which one ends, or 0.
    """

    __slots__ = ("_apart", "_chunk_bytes", "parts")

    def __init__(self, chunk_bytes: int = CHUNK_BYTES) -> None:
        self._chunk_bytes = chunk_bytes
        self._apart = min(_APART, chunk_bytes)
        self.parts: deque[tuple[Buffer, bool, int]] = deque()

    def __bool__(self) -> bool:
        """Whether something waits."""
        return bool(self.parts)

    def put(self, parts: Sequence[Buffer], serial: int) -> None:
        """Adds a frame.

        Args:
            parts: It, as `codec.encode` gives it: the first one holds its prefix, and does not change.
            serial: Its number, not 0.
        """
        if len(parts) == 1:
            self.parts.append((parts[0], True, serial))
            return
        parts = [part for part in parts if len(part)]
        last = len(parts) - 1
        for i, part in enumerate(parts):
            self.parts.append((part, not i, 0 if i < last else serial))

    def cut(self) -> Chunk:
        """Takes the next piece out, which there must be; large buffers are not copied."""
        parts = self.parts
        part, begins, serial = parts.popleft()
        size = len(part)
        if size >= self._apart:
            return self._slice(part, serial)
        if not parts:
            return Chunk(part, (serial,) if serial else ())
        small = [part]
        closes = [serial] if serial else []
        while parts:
            part, begins, serial = parts[0]
            gap = -size % ALIGN if begins else 0
            end = size + gap + len(part)
            if end > self._apart:
                break
            parts.popleft()
            if gap:
                small.append(ZEROS[:gap])
            small.append(part)
            size = end
            if serial:
                closes.append(serial)
        return Chunk(b"".join(small), closes)

    def _slice(self, part: Buffer, serial: int) -> Chunk:
        """The first piece of a large buffer; the rest is next."""
        memory, most = memoryview(part), self._chunk_bytes
        if len(memory) <= most:
            return Chunk(memory, (serial,) if serial else ())
        self.parts.appendleft((memory[most:], False, serial))
        return Chunk(memory[:most], ())


class Frames:
    """Memory for large frames: that of one which nobody looks at any more is used again.

    Arrays of a message are views of its frame. Whoever has one, or any buffer of it, holds a reference to
    the frame; so when the list here holds the only one, nobody can see a write. Memory of more than 32 MiB
    that is found anew is mapped anew, and the system has to clear each page as it is touched: of 64 MiB in
    a row through shared memory the receiver spent 10.3 ms in the system for 128 MiB, and spends 2.4; they
    came at 3.7 GB/s, and come at 5.0 (two processors, busy with other things too).
    """

    __slots__ = ("_cells",)

    def __init__(self) -> None:
        self._cells: list[list[Array]] = []

    def __len__(self) -> int:
        """How many are kept."""
        return len(self._cells)

    def find(self, size: int) -> Array:
        """Returns memory for a frame; what was in it may still be there."""
        if not _LEAST_KEPT <= size <= _MOST_KEPT:
            # Not bytearray, which writes zeros: memory that is announced and never filled costs nothing.
            return np.empty(size, np.uint8)
        cells = self._cells
        for cell in cells:
            if len(cell[0]) == size and unshared(cell):
                return cell[0]
        cell = [np.empty(size, np.uint8)]
        cells.append(cell)
        while len(cells) > _KEPT or sum(len(kept[0]) for kept in cells) > _MOST_KEPT:
            del cells[0]
        return cell[0]


class Assembly:
    """Makes frames of pieces that come once and in order.

    Args:
        limits: What one message may be.
        admit: Is called with the size of each frame before memory is found for it, and may raise WireError.
        chunk_bytes: Bytes of the largest piece.
    """

    __slots__ = ("_admit", "_at", "_chunk_bytes", "_frame", "_frames", "_limits")

    def __init__(
        self,
        limits: MessageLimits = LIMITS,
        admit: Callable[[int], None] | None = None,
        chunk_bytes: int = CHUNK_BYTES,
    ) -> None:
        self._limits = limits
        self._admit = admit
        self._chunk_bytes = chunk_bytes
        self._frames = Frames()
        self._frame: Buffer | None = None
        self._at = 0

    @property
    def missing(self) -> int:
        """Bytes that the frame which is half there still needs; 0 when none is."""
        return 0 if self._frame is None else len(self._frame) - self._at

    def take(self, piece: Buffer, *, borrowed: bool = False) -> Iterator[Buffer]:
        """Gives the frames that end in the next piece, each when it is asked for.

        A frame is the piece itself, a part of it, or memory of its own.

        Args:
            piece: It.
            borrowed: Its memory is somebody else's once all frames were asked for: none of it is given.

        Raises:
            WireError: it goes on as no piece can. The frames before that were given; nothing else is changed.
        """
        stop = len(piece)
        if not 0 < stop <= self._chunk_bytes:
            message = f"a piece of a lane has 1 to {self._chunk_bytes} bytes, got {stop}"
            raise WireError(message)
        at = 0
        if self._frame is not None:
            at = min(self.missing, stop)
            frame = self._fill(piece[:at] if at < stop else piece)
            if frame is None:
                return
            yield frame
            at += -at % ALIGN
        elif not borrowed and type(piece) is not bytes and frame_size(piece, self._limits) < stop:
            piece = bytes(piece)  # one copy, and each of its frames is cheap to take out
        while at < stop:
            size = frame_size(piece, self._limits, at)
            if self._admit is not None:
                self._admit(size)  # ORDER: before memory is found
            end = at + size
            if end > stop:
                self._frame, self._at = self._frames.find(size), 0
                self._fill(piece[at:])
                return
            if size == stop and not borrowed:
                yield piece
            elif size < APART or borrowed:
                yield bytes(piece[at:end])  # whoever keeps a view of it keeps no more than it
            else:
                yield np.frombuffer(piece, np.uint8, size, at)
            at = end + -end % ALIGN

    def violation(self) -> str | None:
        """Says which invariant does not hold; None while all do."""
        if self._frame is not None and not 0 < self._at < len(self._frame):
            return f"a frame of {len(self._frame)} bytes is half there, got {self._at} of them"
        return None

    def _fill(self, part: Buffer) -> Buffer | None:
        """Adds a part of the frame that is half there; returns it once it is whole."""
        frame, end = self._frame, self._at + len(part)
        assert frame is not None
        memoryview(frame)[self._at : end] = part
        self._at = end
        if end < len(frame):
            return None
        self._frame = None
        return frame
