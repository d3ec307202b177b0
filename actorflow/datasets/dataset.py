"""What a data set is: its name, its one right content, and the places where that may be found.

The content is *normalised*: one file whose bytes do not depend on how a package was made, so that one
checksum stands for the data set wherever it came from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256

from actorflow.datasets.folders import DatasetFolders

Tell = Callable[[str], None]
"""Is told what is being done now, in a few words, before what may take a while."""


def silent(doing: str) -> None:
    """Tells nobody."""


class Absent(Exception):
    """A place does not have the data set; the text says why."""


@dataclass(frozen=True, slots=True)
class Source:
    """One place that may have a data set.

    Attributes:
        where: The place, as an error names it.
        get: Returns the normalised content, or raises `Absent`.
        downloads: Whether it asks another machine.
        slow: Whether what it gives is worth keeping in the cache.
    """

    where: str
    get: Callable[[Tell], bytes]
    downloads: bool = False
    slow: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset:
    """A data set.

    Attributes:
        name: What commands call it.
        about: What it is, in one line.
        licence: Whose it is, and what may be done with it.
        package: The package that it comes from, with the version that the checksum is of.
        file: The name of the normalised file.
        size: The length of its content in bytes.
        sha256: The checksum of its content, in hexadecimal digits.
        sources: Lists where to look, in this order, beside the cache and folders that the user names.
        remedies: What a user can do where none of them has it.
        lines: Tells of a content in a few lines.
    """

    name: str
    about: str
    licence: str
    package: str
    file: str
    size: int
    sha256: str
    sources: Callable[[DatasetFolders], Iterable[Source]]
    remedies: tuple[str, ...]
    lines: Callable[[bytes], Iterator[str]]

    def wrong(self, content: bytes) -> str | None:
        """Returns what is wrong with a content, or None if it is the right one."""
        found = sha256(content).hexdigest()
        if found == self.sha256:
            return None
        return f"{len(content):,} bytes with sha256 {found}, where {self.size:,} with {self.sha256} are right"
