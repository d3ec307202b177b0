"""The line of a user's program that a call came from, as errors show it, and whose code a frame runs."""

from __future__ import annotations

import contextlib
import os
import sys
from functools import lru_cache
from pathlib import Path
from types import FrameType

from actorflow import errors

_STDLIB = str(Path(contextlib.__file__).parent) + os.sep
_OURS = (
    errors.__file__.rpartition("errors")[0],  # as code objects spell it: unresolved, with its separator
    contextlib.__file__,  # stands between a `with` of the user and the scopes below
)


def source_line() -> str:
    """Returns `file:line` of the innermost caller that the user wrote; see `users_frame`."""
    frame = users_frame(sys._getframe(1))
    return line_at(frame.f_code.co_filename, frame.f_lineno)


def users_frame(frame: FrameType) -> FrameType:
    """Returns the innermost frame, from `frame` outwards, of code that the user wrote.

    That is neither actorflow nor what is installed beside it: numpy and the standard library call tensors as
    well, and their lines tell nobody anything. Where all is installed, the innermost outside actorflow.
    """
    nearest: FrameType | None = None
    # Outwards from the call: the first frame of the user is the line that he wrote.
    at: FrameType | None = frame
    while at is not None:
        if is_users(at):
            if not is_installed(at.f_code.co_filename):
                return at
            # Where all is installed the first one outside actorflow has to do.
            nearest = nearest or at
        frame, at = at, at.f_back
    return nearest or frame


@lru_cache(1024)
def is_installed(file: str) -> bool:
    """Tells whether a file of code belongs to the standard library or to an installed package."""
    parts = Path(file).parts
    return file.startswith((_STDLIB, "<frozen")) or "site-packages" in parts or "dist-packages" in parts


def users_level() -> int:
    """Returns how far up the stack of who calls, as `warnings.warn` counts, code of the user called."""
    level, frame = 1, sys._getframe(1)
    users = users_frame(frame)
    while frame is not users and frame.f_back is not None:
        level, frame = level + 1, frame.f_back
    return level


def is_users(frame: FrameType) -> bool:
    """Tells whether a frame runs code outside actorflow."""
    return not frame.f_code.co_filename.startswith(_OURS)


def users_line(file: str, line: int) -> str | None:
    """Returns `file:line` as errors show it; None of code that is not the program's."""
    ours = file.startswith(_OURS) or is_installed(file)
    return None if ours else line_at(file, line)


def line_at(file: str, line: int) -> str:
    """Returns `file:line` as errors show it.

    The file is relative to the current directory where it lies below it; elsewhere it is its name
    with that of its folder.
    """
    return f"{_format_file(file, _current_directory())}:{line}"


@lru_cache
def _format_file(file: str, directory: str) -> str:
    """How a line is told from those of other files of that name, and short."""
    if file.startswith("<"):  # typed in, or made with exec
        return file
    path = Path(directory, file)
    if path.is_relative_to(directory):
        return str(path.relative_to(directory))
    return str(Path(path.parent.name, path.name))


def _current_directory() -> str:
    try:
        return os.getcwd()
    except FileNotFoundError:  # somebody has removed it
        return ""
