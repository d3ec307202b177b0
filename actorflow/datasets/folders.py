"""Where data sets are looked for and kept on this machine, as the environment has it.

`ACTORFLOW_CACHE` is the folder for what can be made again; without it, the user's cache folder.
`ACTORFLOW_DATA` is a folder in which the user has put data sets, which is read and never written.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from actorflow.errors import ConfigError

CACHE = "ACTORFLOW_CACHE"
DATA = "ACTORFLOW_DATA"

_R_LIBRARIES = (Path("/usr/lib/R/site-library"), Path("/usr/local/lib/R/site-library"))
_SHARED = (Path("/usr/share/datasets"),)


@dataclass(frozen=True, slots=True)
class DatasetFolders:
    """The folders of one machine and user; none of them need exist.

    Attributes:
        kept: Where data sets are kept.
        given: The folder that the user says has some, or None.
        r_libraries: Where packages of R are installed.
        shared: Where packages of data sets are installed.
    """

    kept: Path
    given: Path | None = None
    r_libraries: tuple[Path, ...] = _R_LIBRARIES
    shared: tuple[Path, ...] = _SHARED

    @classmethod
    def of(cls, environ: Mapping[str, str] = os.environ) -> Self:
        """Returns the places that an environment names; an empty variable counts as none.

        Raises:
            ConfigError: the user has no home folder, and no cache is named.
        """
        said = environ.get(DATA)
        return cls(_cache(environ) / "datasets", _path(said) if said else None, _R_LIBRARIES)


def _cache(environ: Mapping[str, str]) -> Path:
    if said := environ.get(CACHE):
        return _path(said)
    base = environ.get("XDG_CACHE_HOME", "")
    # The specification of XDG has relative paths ignored.
    return (Path(base) if os.path.isabs(base) else _path("~/.cache")) / "actorflow"


def _path(said: str) -> Path:
    try:
        return Path(said).expanduser().absolute()
    except RuntimeError as error:
        message = f"a folder for data sets must be one that can be found, got {said}: {error}"
        raise ConfigError(message, hint=f"{CACHE}=DIR names a folder that can be written") from error
