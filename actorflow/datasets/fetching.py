"""Gets data sets: out of the cache, out of a folder that the user names, out of packages."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from actorflow.datasets import atomic_files, search
from actorflow.datasets.dataset import Absent, Dataset, Source, Tell, silent
from actorflow.datasets.folders import DATA, DatasetFolders
from actorflow.errors import DatasetDamaged


@dataclass(frozen=True, slots=True)
class Fetched:
    """A data set as a file.

    Attributes:
        path: The file.
        size: Its length in bytes.
        sha256: Its checksum.
        source: Where the content came from; None if the file was there.
    """

    path: Path
    size: int
    sha256: str
    source: str | None


def load(
    dataset: Dataset, *, download: bool = True, folders: DatasetFolders | None = None, tell: Tell = silent
) -> bytes:
    """Returns the content of a data set, checked; what took long to get is kept in the cache.

    Args:
        dataset: Which.
        download: Whether another machine may be asked, where this one does not have it.
        folders: Where to look and keep; what the environment says, by default.
        tell: Is told what takes a while.

    Raises:
        DatasetDamaged: the file in the cache is not what was written there; nothing else is tried.
        DatasetMissing: it is nowhere to be found.
        ConfigError: the cache cannot be written.
    """
    folders = DatasetFolders.of() if folders is None else folders
    path = folders.kept / dataset.file
    try:
        content = atomic_files.read(path)
    except Absent:
        found = search.first(dataset, sources(dataset, folders, download=download), tell)
        if found.source.slow:
            atomic_files.keep(path, found.content)
        return found.content
    wrong = dataset.wrong(content)
    if wrong is not None:
        message = f"data set {dataset.name!r} must be what was kept in the cache, got {path}: {wrong}"
        raise DatasetDamaged(message, hint=f"`actorflow data fetch {dataset.name}` gets it again")
    return content


def fetch(
    dataset: Dataset, *, to: Path | None = None, folders: DatasetFolders | None = None, tell: Tell = silent
) -> Fetched:
    """Makes sure that a folder has the file of a data set, and returns which file that is.

    A file that is there and whole stays; one that is damaged is replaced.

    Args:
        dataset: Which.
        to: The folder; the cache, by default.
        folders: Where to look, and the cache; what the environment says, by default.
        tell: Is told what takes a while.

    Raises:
        DatasetError: it cannot be had; the text says why, and what can be done.
        ConfigError: the folder cannot be written.
    """
    folders = DatasetFolders.of() if folders is None else folders
    path = (folders.kept if to is None else to) / dataset.file
    try:
        if dataset.wrong(atomic_files.read(path)) is None:
            return Fetched(path, dataset.size, dataset.sha256, None)
        tell(f"{path} is damaged and will be replaced")
    except Absent:
        pass
    found = search.first(dataset, sources(dataset, folders), tell)
    atomic_files.keep(path, found.content)
    return Fetched(path, len(found.content), dataset.sha256, found.source.where)


def sources(dataset: Dataset, folders: DatasetFolders, *, download: bool = True) -> Iterator[Source]:
    """Yields where to look for a data set, in this order: files as `fetch` writes them, then packages."""
    yield _file(f"the cache {folders.kept}", folders.kept / dataset.file)
    if folders.given is None:
        yield Source(DATA, _unset)
    else:
        yield _file(f"{DATA} {folders.given}", folders.given / dataset.file)
    yield from (source for source in dataset.sources(folders) if download or not source.downloads)


def _file(where: str, path: Path) -> Source:
    return Source(where, lambda tell: atomic_files.read(path))


def _unset(tell: Tell) -> bytes:
    raise Absent("not set")
