"""What a child inherits from its launcher, and the environment variables in which that stands."""

from __future__ import annotations

import os
import stat
from collections.abc import MutableMapping

from actorflow.errors import ConfigError

DEATH_PIPE = "ACTORFLOW_DEATH_PIPE"
"""The read end of a pipe whose other end the launcher holds and never writes to: it ends when that does."""

KEYS = "ACTORFLOW_KEYS_PIPE"
"""A pipe that holds key material and has been closed at the other end."""

NO_KEYS = "none"
"""What stands for no keys at all where the name of their file is expected."""

FOLDER = "ACTORFLOW_FOLDER"
"""The folder of the cluster, for a process whose own address does not tell it."""


def take(variable: str, environ: MutableMapping[str, str] = os.environ) -> int | None:
    """Returns the descriptor that a launcher has left, which is the caller's now; None when it left none.

    No process that this one starts inherits it, and none finds its number.

    Raises:
        ConfigError: when the number is of no pipe.
    """
    text = environ.pop(variable, None)
    if text is None:
        return None
    if not _is_pipe(text):
        what = f"{variable} must be the number of a pipe that the launcher has left, got {text!r}"
        raise ConfigError(what, hint="unset it: only a launcher sets it")
    os.set_inheritable(int(text), False)
    return int(text)


def _is_pipe(text: str) -> bool:
    try:
        return stat.S_ISFIFO(os.fstat(int(text)).st_mode)
    except (ValueError, OverflowError, OSError):
        return False
