"""Which files a source reads: a path, a list of paths, or a pattern, in a fixed order."""

from __future__ import annotations

import os
from collections.abc import Iterable
from difflib import get_close_matches
from glob import glob, has_magic
from pathlib import Path
from typing import Any

from actorflow.errors import ConfigError, InputError

PathLike = str | os.PathLike[str]
Paths = PathLike | Iterable[PathLike]
"""One path or pattern, or several; those of a pattern are taken in sorted order."""


def files_of(source: str, paths: Paths) -> tuple[str, ...]:
    """Returns the files that `paths` mean; each is there now and is no directory.

    Paths stay in the order in which they are given; what a pattern (`*`, `?`, `[...]`) matches is sorted
    by name. A file that is there goes before a pattern that reads the same.

    Args:
        source: What errors call the source.
        paths: See `Paths`.
    """
    # One text is a path, though it can be gone through.
    given: Any = [paths] if isinstance(paths, str | os.PathLike) else paths
    if not isinstance(given, Iterable):
        message = f"{source} takes a path, a pattern, or several, got {paths!r:.80}"
        raise ConfigError(message)
    given = list(given)
    if not given:
        message = f"{source} takes at least one path, got none"
        raise ConfigError(message)
    return tuple(file for path in given for file in _expand(source, path))


def name_source(source: str, files: tuple[str, ...]) -> str:
    """Returns what errors call a source of these files: `text_lines 'a.txt' and 2 more`."""
    more = f" and {len(files) - 1} more" if len(files) > 1 else ""
    return f"{source} {files[0]!r}{more}"


def _expand(source: str, path: Any) -> list[str]:
    text: Any = os.fspath(path) if isinstance(path, str | os.PathLike) else None
    if not isinstance(text, str) or not text or "\0" in text:
        message = f"{source} takes paths as text, got {path!r}"
        raise ConfigError(message)
    # ORDER: a directory, a file, a pattern: a file that is there goes before a pattern that reads the same.
    if os.path.isdir(text):
        message = f"{source} reads files, got the directory {text!r}"
        raise InputError(message, hint=f"a pattern takes those in it: {os.path.join(text, '*')!r}")
    if os.path.exists(text):
        return [text]
    if has_magic(text):
        # Sorted: the order of a folder differs between machines.
        found = sorted(file for file in glob(text, recursive=True) if not os.path.isdir(file))
        if found:
            return found
        message = f"{source} found no file that matches {text!r}"
        raise InputError(message, hint=_near(text))
    message = f"{source} found no file {text!r}"
    raise InputError(message, hint=_near(text))


def _near(text: str) -> str:
    """What a path may have meant: names like it in its folder, or the part of the way that is there."""
    folder, name = os.path.split(text)
    at = Path(folder or ".")
    if not at.is_dir():
        # The part of the way that is there.
        while not at.is_dir():
            at = at.parent
        inside = f"in {str(at.resolve())!r}" if str(at) == "." else f"in {str(at)!r}"
        return f"there is no folder {folder!r}; look {inside}"
    try:
        names = sorted(entry.name for entry in at.iterdir() if not entry.is_dir())
    except OSError as cause:
        return f"the folder {folder!r} cannot be read: {cause.strerror}"
    near = get_close_matches(name, names, n=3, cutoff=0.5) or names[:3]
    if not near:
        return f"the folder {str(at.resolve())!r} has no files"
    return f"in its folder there is {', '.join(map(repr, near))}"
