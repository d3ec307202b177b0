"""What a process printed, in files of a bounded size: its beginning, and what came last.

    NAME.log             the beginning, at most `BEGIN_BYTES`
    NAME.newest.1.log    what came before the last one, at most `NEWEST_BYTES`
    NAME.newest.log      what came last, at most `NEWEST_BYTES`

The first ends with a line that names the others. A disk that is full, or a file that cannot be written for
another reason, costs lines and nothing else: where lines can be written again, one of them says how many
bytes are missing, and the last lines are in memory besides.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from actorflow.runtime.disk import is_full

BEGIN_BYTES = 2 << 20
"""Of the beginning."""

NEWEST_BYTES = 3 << 20
"""Of each of the two files with what came last."""

TAIL_BYTES = 16 << 10
"""Of the last lines, in memory."""

_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


def files(path: Path) -> tuple[Path, Path, Path]:
    """Returns the files of a log, as they were written: the beginning, before the last one, the last one."""
    stem = path.name.removesuffix(".log")
    return path, path.with_name(f"{stem}.newest.1.log"), path.with_name(f"{stem}.newest.log")


class LogFile:
    """The log of one process, in all of its incarnations.

    INVARIANT: its files hold at most `begin_bytes + 2 * newest_bytes`, and some lines of its own.

    What an earlier run has left under these names goes to NAME.log.old and so on, in the place of what was
    there.

    Args:
        path: The file of the beginning. One that is no plain file, such as /dev/null, has no limit.
        begin_bytes: Of the beginning.
        newest_bytes: Of each file with what came last.

    Attributes:
        path: The file of the beginning.

    Raises:
        OSError: the file cannot be made, for another reason than a full disk.
    """

    def __init__(
        self, path: Path, *, begin_bytes: int = BEGIN_BYTES, newest_bytes: int = NEWEST_BYTES
    ) -> None:
        self.path, self._before, self._newest = files(path)
        self._newest_bytes = newest_bytes
        self._at = self.path
        self._descriptor = -1
        self._lost_bytes = 0
        self._why = ""
        self._tail = b""
        self._capped = _is_plain_or_new(path)
        self._room = begin_bytes
        self._fresh = True  # whether the present file is empty
        if self._capped:
            for file in files(path):
                if file.exists():
                    file.replace(f"{file}.old")
        try:
            self._descriptor = os.open(self._at, _FLAGS, 0o600)
        except OSError as error:
            if not is_full(error):
                raise

    def write(self, printed: bytes) -> None:
        """Takes what the process printed; a disk that is full loses it, and nothing is raised."""
        self._tail = (self._tail + printed[-TAIL_BYTES:])[-TAIL_BYTES:]
        while self._capped and len(printed) > self._room:
            cut = printed.rfind(b"\n", 0, self._room) + 1  # whole lines, where they are not too long
            if not cut and self._fresh:
                cut = self._room
            self._put(printed[:cut])
            printed = printed[cut:]
            self._turn()
        self._put(printed)

    def tail(self, lines: int = 20) -> str:
        """Returns the last lines that the process printed, `TAIL_BYTES` at most; "" when there are none."""
        return "\n".join(self._tail.decode(errors="replace").splitlines()[-lines:])

    def close(self) -> None:
        """Closes the file; harmless when that is done."""
        self._put(b"")  # for what is to be said of a loss
        self._close_file()

    # -------------------------------------------------------------------------------- the files

    def _put(self, piece: bytes) -> None:
        """Writes to the present file, and counts what finds no room."""
        self._room -= len(piece)
        self._fresh = self._fresh and not piece
        if self._lost_bytes:
            said = f"\n[actorflow: {self._lost_bytes} bytes are missing here: {self._why}]\n"
            if self._append(said.encode()):
                self._lost_bytes += len(piece)
                return
            self._lost_bytes = 0
        self._lost_bytes += self._append(piece)

    def _append(self, piece: bytes) -> int:
        """Returns how many bytes could not be written."""
        left = memoryview(piece)
        try:
            if left and self._descriptor < 0:
                self._descriptor = os.open(self._at, _FLAGS, 0o600)
            while left:
                left = left[os.write(self._descriptor, left) :]
        except OSError as error:
            self._why = error.strerror or str(error)
        return len(left)

    def _turn(self) -> None:
        """Goes on in the next file."""
        if self._at == self.path:
            self._append(f"[actorflow: this is the beginning; the end is in {self._newest.name}]\n".encode())
        self._close_file()
        self._room = self._newest_bytes
        self._fresh = True
        try:
            if self._at == self._newest:
                self._newest.replace(self._before)
        except OSError as error:  # as where somebody has removed it, or its folder
            self._why = error.strerror or str(error)
        self._at = self._newest

    def _close_file(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _is_plain_or_new(path: Path) -> bool:
    try:
        return stat.S_ISREG(path.stat().st_mode)
    except OSError:  # one that cannot be made either is told when it is opened
        return True
