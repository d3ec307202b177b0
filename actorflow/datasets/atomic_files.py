"""Files of data sets: whole under their name, or not there at all."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path

from actorflow.datasets.dataset import Absent
from actorflow.datasets.folders import CACHE
from actorflow.errors import ConfigError

_PART = ".part"
_STALE_S = 24 * 60 * 60  # nobody takes so long to write one file


def read(path: Path) -> bytes:
    """Returns what a file holds.

    Raises:
        Absent: it is not there or cannot be read.
    """
    try:
        return path.read_bytes()
    except OSError as error:
        message = f"no {path.name} ({error.strerror})"
        raise Absent(message) from error


def keep(path: Path, content: bytes) -> None:
    """Writes a file in one piece: whoever reads meanwhile finds what was there before, or all of it.

    A process that is killed while it writes leaves at most a part under another name, which goes a day later.

    Raises:
        ConfigError: the folder cannot be made or written.
    """
    part: str | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, part = tempfile.mkstemp(suffix=_PART, prefix=f".{path.name}.", dir=path.parent)
        with open(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            # ORDER: on the disk first, then under its name, so that a machine that loses power keeps no half.
            os.fsync(descriptor)
            os.fchmod(descriptor, 0o644)  # a cache may be shared; mkstemp has it for its maker alone
            now_s = os.fstat(descriptor).st_mtime
        os.replace(part, path)
        _sweep(path, now_s)
    except OSError as error:
        message = f"data sets must go to a folder that can be written, got {path.parent}: {error.strerror}"
        raise ConfigError(
            message, hint=f"{CACHE}=DIR names another cache, --to DIR another folder"
        ) from error
    finally:
        if part is not None:
            with suppress(OSError):
                os.unlink(part)  # gone already, where all went well


def _sweep(path: Path, now_s: float) -> None:
    """Removes parts of this file that somebody who was killed has left."""
    for part in path.parent.glob(f".{path.name}.*{_PART}"):
        with suppress(OSError):  # another process sweeps as well
            if now_s - part.stat().st_mtime > _STALE_S:
                part.unlink()
