"""A file read forward: bounded pieces, a byte offset for errors, gzip where its name says so.

Nothing is read that was not asked for, and no buffer is made for what a header merely claims.
"""

from __future__ import annotations

import gzip
import io
import os
import stat
import zlib
from typing import IO
from zipfile import BadZipFile

from actorflow.errors import InputError

READ_BYTES = 2**18
"""What readers take from a file at once. Pieces of 64 KiB to 1 MiB are equally fast, smaller ones slower."""


def fault(
    path: str,
    rule: str,
    found: str,
    *,
    at: str | None = None,
    byte: int | None = None,
    hint: str | None = None,
) -> InputError:
    """Returns the error of a malformed file.

    Args:
        path: The file, and what of it: `'a.npz', array 'x'`.
        rule: What was expected.
        found: What was there instead.
        at: The element or line, where there is one.
        byte: The offset in the file, unpacked, where it is known.
        hint: What to try.
    """
    place = ", ".join(part for part in (path, at, None if byte is None else f"byte {byte}") if part)
    message = f"{place}: expected {rule}, got {found}"
    return InputError(message, hint=hint)


class ByteStream:
    """Bytes of a file from its start on.

    Attributes:
        label: What errors call the file.
        offset: Bytes read and skipped, unpacked.
        size: Bytes in all, None where that shows at the end only: gzip, devices and pipes.
    """

    __slots__ = ("_file", "_seeks", "label", "offset", "size")

    def __init__(
        self, file: IO[bytes] | io.BufferedIOBase | io.RawIOBase, label: str, size: int | None, *, seeks: bool
    ) -> None:
        self._file = file
        self._seeks = seeks
        self.label = label
        self.offset = 0
        self.size = size

    @property
    def rest(self) -> int | None:
        """Bytes that can still come, where known."""
        return None if self.size is None else max(0, self.size - self.offset)

    def read(self, n: int) -> bytes:
        """Returns the next `n` bytes, fewer only where the file ends."""
        rest = self.rest
        # Where the size is known no more is asked for than can come.
        n = n if rest is None else min(n, rest)
        piece = self._piece(min(n, READ_BYTES))
        # One piece is enough for nearly all reads: then nothing is put together.
        if len(piece) == n or not piece:
            return piece
        whole = bytearray(piece)
        # In pieces: `n` may be what a damaged header claims, and memory is taken only for what comes.
        while len(whole) < n and (piece := self._piece(min(n - len(whole), READ_BYTES))):
            whole += piece
        return bytes(whole)

    def _piece(self, n: int) -> bytes:
        try:
            piece = self._file.read(n) or b""
        except (OSError, EOFError, zlib.error, BadZipFile) as cause:
            raise stream_error(self, "bytes that can be read", str(cause) or type(cause).__name__) from cause
        self.offset += len(piece)
        return piece

    def skip(self, n: int) -> int:
        """Passes over `n` bytes and returns how many there were: a seek in a plain file."""
        rest = self.rest
        # A seek in a plain file; what is packed has to be read.
        if rest is not None and self._seeks:
            n = min(n, rest)
            self._file.seek(self.offset + n)
            self.offset += n
            return n
        left = n
        while left and (piece := self._piece(min(left, READ_BYTES))):
            left -= len(piece)
        return n - left

    def close(self) -> None:
        """Closes the file."""
        self._file.close()


def stream_error(
    stream: ByteStream,
    rule: str,
    found: str,
    *,
    at: str | None = None,
    byte: int | None = None,
    hint: str | None = None,
) -> InputError:
    """Returns `fault` of the file that is read, at its present offset unless `byte` is another."""
    return fault(stream.label, rule, found, at=at, byte=stream.offset if byte is None else byte, hint=hint)


def is_gzip(path: str) -> bool:
    """Tells whether the name of a file says gzip."""
    return path.endswith(".gz")


def open_stream(path: str) -> ByteStream:
    """Opens a file to read it forward."""
    label = repr(path)
    try:
        # Unbuffered: readers take pieces that are large enough.
        raw = open(path, "rb", buffering=0)  # noqa: SIM115  the stream closes it
        about = os.fstat(raw.fileno())
    except OSError as cause:
        raise fault(label, "a file that can be read", cause.strerror or type(cause).__name__) from cause
    # Devices and pipes have no size: it shows at their end.
    size = about.st_size if stat.S_ISREG(about.st_mode) else None
    if not is_gzip(path):
        return ByteStream(raw, label, size, seeks=size is not None)
    # gzip opens it by itself; it was opened to see whether it can be.
    raw.close()
    if size == 0:
        raise fault(
            label, "the header of gzip", "an empty file", byte=0, hint="the file is cut; fetch it again"
        )
    return ByteStream(gzip.open(path, "rb"), label, None, seeks=False)
