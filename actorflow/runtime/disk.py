"""Full disks, which are nobody's mistake: what tells them from others, and streams that outlive one."""

from __future__ import annotations

import errno
import io
import sys
from typing import Any, TextIO

from actorflow.errors import DiskFull, Where, describe

FULL = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG))
"""No room on the device, in the quota of the user, in a file of this size."""

_DEEP = 16


def is_full(error: BaseException | None) -> bool:
    """Tells whether an error, or what it came of, is that there is no room to write.

    >>> from actorflow.runtime.disk import is_full
    >>> is_full(OSError(28, "No space left on device")), is_full(OSError(2, "No such file"))
    (True, False)
    """
    for _ in range(_DEEP):  # a chain of causes may bite its tail
        if error is None:
            return False
        if isinstance(error, DiskFull) or getattr(error, "errno", None) in FULL:
            return True
        # What it came of, whether said with `from` or not.
        error = error.__cause__ or error.__context__
    return False


def no_room(name: str, error: BaseException, where: Where | None = None) -> DiskFull:
    """Returns the error for code of a user that found no room.

    Args:
        name: What the error calls the code.
        error: How that failed.
        where: At which line.
    """
    what = f"{name} must have room for what it writes, got {describe(error)}"
    return DiskFull(what, where=where, hint="make room there, or write to another folder")


def outlive(name: str) -> None:
    """Has a standard stream lose what finds no room, where whoever prints would fail for it; see `loss_of`.

    Nothing changes for one that is no file of the system, such as a stream of a test.

    Args:
        name: stdout or stderr.
    """
    stream: Any = getattr(sys, name)
    buffer = getattr(stream, "buffer", None)
    raw = getattr(buffer, "raw", buffer)
    # Only what is exactly the interpreter's own: a stream of a test or a notebook may do other things.
    if type(stream) is not io.TextIOWrapper or type(raw) is not io.FileIO:
        return
    # ORDER: what the old buffer still holds comes before what the new one writes.
    stream.flush()
    lossy = LossyStream(stream)
    # As before: python -u has no buffer between text and file.
    buffered: Any = lossy if buffer is raw else io.BufferedWriter(lossy)
    wrapped = io.TextIOWrapper(
        buffered,
        encoding=stream.encoding,
        errors=stream.errors,
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )
    setattr(sys, name, wrapped)


def loss_of(name: str) -> LossyStream | None:
    """Returns what has counted the loss of a standard stream, where there was one."""
    buffer: Any = getattr(getattr(sys, name), "buffer", None)
    raw = getattr(buffer, "raw", buffer)
    return raw if isinstance(raw, LossyStream) and raw.lost_bytes else None


class LossyStream(io.FileIO):
    """A stream of this process that loses what finds no room on its disk.

    Args:
        stream: That it writes to the file of, and keeps: it would close the file when nobody has it any more.

    Attributes:
        lost_bytes: How much that was.
        reason: Why it was lost, as the system says; "" where nothing was.
    """

    def __init__(self, stream: TextIO) -> None:
        # The file stays the stream's, which closes it.
        super().__init__(stream.fileno(), "w", closefd=False)
        self._stream = stream
        self.lost_bytes = 0
        self.reason = ""

    def write(self, text: Any) -> int:
        """Writes what there is room for; answers that all of it was written."""
        view = memoryview(text).cast("B")
        try:
            return super().write(view) or 0
        except OSError as error:
            if error.errno not in FULL:
                # Any other error is its writer's business.
                raise
            self.lost_bytes += view.nbytes
            self.reason = error.strerror or str(error)
            return view.nbytes
