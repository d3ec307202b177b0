"""The holder of an event loop, by the frames of its thread: a line of the program, and the handler."""

from __future__ import annotations

import asyncio.runners
import os
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

_OURS = str(Path(__file__).parents[1]) + os.sep
_STDLIB = str(Path(os.__file__).parent) + os.sep
_RUNNERS = frozenset({asyncio.runners.__file__, str(Path(__file__).with_name("event_loop.py"))})
"""Whose frames are outside of the loop: those around them run it and do not hold it."""


def holder(frame: FrameType | None) -> str | None:
    """Returns who holds the event loop of a thread, with the line; None where no code of the program does.

    Args:
        frame: The innermost of the thread.
    """
    line: str | None = None
    # From the innermost outwards.
    for at in _within_the_loop(frame):
        file = at.f_code.co_filename
        if not file.startswith(_OURS):
            # The first line of the program on the way is where it stands.
            if line is None and not _installed(file):
                line = f"{at.f_code.co_qualname} at {_shown(file)}:{at.f_lineno}"
        # A frame of ours around that line: one with a `strand` is the handler that called it.
        elif line is not None:
            name = getattr(at.f_locals.get("self"), "strand", None)
            if isinstance(name, str):
                return f"'{name}', in {line}"
    return line


# Beyond the runner are frames that run the loop and do not hold it.
def _within_the_loop(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None and frame.f_code.co_filename not in _RUNNERS:
        yield frame
        frame = frame.f_back


def _installed(file: str) -> bool:
    installed = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")
    return file.startswith((_STDLIB, "<frozen")) or any(folder in file for folder in installed)


def _shown(file: str) -> str:
    """Relative to the current directory where it lies below it, else with its folder, as errors show it."""
    if file.startswith("<"):
        return file
    path = Path(file)
    try:
        return str(path.relative_to(Path.cwd()))
    except (OSError, ValueError):
        return str(Path(path.parent.name, path.name))
