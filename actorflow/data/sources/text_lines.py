"""Lines of text files, as bytes or as text."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from contextlib import suppress
from functools import partial

from actorflow.data.sources.block_reader import Blocks, BlockSource
from actorflow.data.sources.byte_stream import READ_BYTES, ByteStream, open_stream, stream_error
from actorflow.data.sources.paths import Paths, files_of, name_source
from actorflow.errors import ConfigError
from actorflow.values.checks import is_whole

LINE_BYTES = 2**24
"""The longest line that is taken for one: a file without line ends is no text, and must not fill memory."""


def text_lines(paths: Paths, *, encoding: str | None = None, max_line_bytes: int = LINE_BYTES) -> BlockSource:
    r"""Lines without their ends (`\n`, `\r\n` or `\r`), from one file after the other.

    A last line without an end is one; the end of the last line begins none. To start at a later line the
    lines before it are read and dropped.

    Args:
        paths: A path, a pattern, or several; gzip where the name ends in `.gz`.
        encoding: How bytes become str; None leaves them bytes. One that writes a line end as ASCII does.
        max_line_bytes: A longer line is an error.
    """
    if encoding is not None:
        check_encoding("text_lines", encoding)
    if not is_whole(max_line_bytes, 1):
        message = f"max_line_bytes must be positive, a whole number, got {max_line_bytes!r}"
        raise ConfigError(message)
    files = files_of("text_lines", paths)
    return BlockSource(name_source("text_lines", files), partial(_blocks, files, encoding, max_line_bytes))


def check_encoding(source: str, encoding: str) -> str:
    """Returns the name that an encoding has in Python, whichever of its names is given.

    Raises:
        ConfigError: for what is none, or one in which lines cannot be told apart as bytes.
    """
    try:
        found = codecs.lookup(encoding)
        # Lines are told apart as bytes: so line ends have to look as in ASCII.
        same = "\r\nA".encode(encoding) == b"\r\nA" and found._is_text_encoding
    except (LookupError, UnicodeError, TypeError):
        message = f"{source} takes the name of an encoding, got {encoding!r}"
        raise ConfigError(message, hint="utf-8, latin-1, ...") from None
    if not same:
        message = f"{source} needs an encoding that writes line ends as ASCII does, got {encoding!r}"
        raise ConfigError(message, hint="convert the file to utf-8")
    return found.name


def whole_lines(stream: ByteStream, max_line_bytes: int = LINE_BYTES) -> Iterator[tuple[int, bytes]]:
    """Yields a file in pieces that end where lines do, each with the offset at which it starts."""
    begun: list[bytes] = []  # the line that has not ended, in pieces
    length = 0
    start = 0
    while piece := stream.read(READ_BYTES):
        if begun and begun[-1].endswith(b"\r"):  # a line end, or half of one: the next piece tells
            piece = begun.pop() + piece
            length = sum(map(len, begun))
        # Up to the last line end; a `\r` at the very end may be half of one.
        cut = max(piece.rfind(b"\n"), piece.rfind(b"\r", 0, len(piece) - 1)) + 1
        if cut:
            whole = b"".join([*begun, piece[:cut]])
            # Only then is it looked for line by line.
            if len(whole) > max_line_bytes and (fits := _fitting(whole, max_line_bytes)) < len(whole):
                # The lines before the long one are given first.
                if fits:
                    yield start, whole[:fits]
                raise _too_long(stream, start + fits, max_line_bytes)
            yield start, whole
            start += len(whole)
            begun, length = [], 0
        if cut < len(piece):
            begun.append(piece[cut:])
            length += len(piece) - cut
        if length > max_line_bytes + 1:  # 1: a line end may be among them
            raise _too_long(stream, start, max_line_bytes)
    if begun:
        last = b"".join(begun)
        if _fitting(last, max_line_bytes) < len(last):
            raise _too_long(stream, start, max_line_bytes)
        yield start, last


def _fitting(data: bytes, limit: int) -> int:
    """Returns how many bytes of whole lines stand before the first line that is longer than the limit."""
    at = 0
    for line in data.splitlines(keepends=True):
        if len(line) > limit and len(line.rstrip(b"\r\n")) > limit:
            return at
        at += len(line)
    return at


def _too_long(stream: ByteStream, start: int, limit: int) -> Exception:
    hint = "raise max_line_bytes, or read the file with records or tfrecord if it is no text"
    return stream_error(stream, f"a line of at most {limit} bytes", "a longer one", byte=start, hint=hint)


def _blocks(files: tuple[str, ...], encoding: str | None, max_line_bytes: int, start: int) -> Blocks:
    ordinal = 0
    for path in files:
        stream = open_stream(path)
        line = 1
        try:
            for offset, data in whole_lines(stream, max_line_bytes):
                lines = data.splitlines()
                first = max(0, start - ordinal)
                if first < len(lines):
                    if encoding is None:
                        yield lines[first:] if first else lines
                    else:
                        yield from _decode(stream, encoding, offset, data, lines, line, first)
                ordinal += len(lines)
                line += len(lines)
        finally:
            stream.close()


def _decode(
    stream: ByteStream, encoding: str, offset: int, data: bytes, lines: list[bytes], number: int, first: int
) -> Iterator[list[str]]:
    """The lines of a piece as text, from its `first` on; those before one that is no text, then its error."""
    with suppress(UnicodeError):  # found below, where its line is known
        split = data.decode(encoding).splitlines()
        if len(split) == len(lines):  # Unicode has more line ends than a file: here are none of them
            yield split[first:] if first else split
            return
    made: list[str] = []
    # Line by line, since one of them is no text, or holds a line end of Unicode's.
    for at, line in enumerate(lines[first:], first):
        try:
            made.append(line.decode(encoding))
        except UnicodeError as cause:
            if made:
                yield made
            byte = offset + sum(map(len, data.splitlines(keepends=True)[:at]))
            raise undecodable(stream, number + at, byte, line, encoding, cause) from cause
    yield made


def undecodable(
    stream: ByteStream, line: int, byte: int, raw: bytes, encoding: str, cause: UnicodeError
) -> Exception:
    """Returns the error of a line that is not text in its encoding."""
    inside = cause.start if isinstance(cause, UnicodeDecodeError) else 0
    shown = raw[max(0, inside - 8) : inside + 8]
    return stream_error(
        stream,
        f"text in {encoding}",
        repr(shown),
        at=f"line {line}",
        byte=byte + inside,
        hint="say which encoding= it has",
    )
