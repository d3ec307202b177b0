"""Jane Austen's six novels, out of the package janeaustenr of R."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterator, Sequence
from pathlib import Path

from actorflow.datasets import debian, r_database
from actorflow.datasets.dataset import Dataset, Source
from actorflow.datasets.fetching import load
from actorflow.datasets.folders import DATA, DatasetFolders

_PACKAGE = "r-cran-janeaustenr"

# In the order of publication. What janeaustenr calls them.
_TITLES = {
    "Sense and Sensibility": "sensesensibility",
    "Pride and Prejudice": "prideprejudice",
    "Mansfield Park": "mansfieldpark",
    "Emma": "emma",
    "Northanger Abbey": "northangerabbey",
    "Persuasion": "persuasion",
}


def austen(*, download: bool = True) -> dict[str, str]:
    """Returns Jane Austen's six novels: title -> text, in the order of publication.

    They are read from the cache; the first time they are taken out of Debian's package `r-cran-janeaustenr`,
    which takes seconds and blocks. `actorflow data fetch austen` does that ahead.

    Args:
        download: Whether the package may be downloaded when this machine does not have it.

    Returns:
        Six texts, some 4 million characters together. Lines are those of the package, each with its newline;
        an empty one parts paragraphs; `_` stands around words that were set in italics.

    Raises:
        DatasetError: they cannot be had, or the copy in the cache is damaged; the text says what to do.
        ConfigError: the cache cannot be written.
    """
    return decode(load(AUSTEN, download=download))


def normalise(novels: Sequence[Sequence[str]]) -> bytes:
    """Returns the content that novels have, given the lines of each in the order of the titles."""
    texts = (
        "".join(f"{unicodedata.normalize('NFC', line.rstrip())}\n" for line in lines) for lines in novels
    )
    return (json.dumps(dict(zip(_TITLES, texts, strict=True)), ensure_ascii=False, indent=0) + "\n").encode()


def decode(content: bytes) -> dict[str, str]:
    """Returns title -> text."""
    novels: dict[str, str] = json.loads(content)
    return novels


def _lines(content: bytes) -> Iterator[str]:
    for title, text in decode(content).items():
        yield f"{title}: {len(text):,} characters, {len(text.split()):,} words"


def _read(package: Path) -> bytes:
    return normalise(r_database.texts(package, tuple(_TITLES.values())))


def _sources(folders: DatasetFolders) -> Iterator[Source]:
    return debian.of_r(_PACKAGE, "janeaustenr", _read, r_database.need_rdata, folders)


AUSTEN = Dataset(
    name="austen",
    about="Jane Austen's six novels, as text",
    licence="the novels are in the public domain; the package is under the MIT licence, by Julia Silge",
    package="Debian's r-cran-janeaustenr 1.0.0",
    file="austen.json",
    size=4_116_398,
    sha256="888fd06ec231ae1ca9160792b3e6d065e02a3133dc61090517fe57e1a09d27e8",
    sources=_sources,
    remedies=(
        f"as root: apt install {_PACKAGE} (after `apt update`, where apt knows no such package)",
        "pip install rdata, which reads the package",
        f"elsewhere: apt-get download {_PACKAGE}; then {DATA}=DIR, the folder that holds the .deb",
        'in R: install.packages("janeaustenr", lib="DIR"); then ' + f"{DATA}=DIR",
        f"elsewhere: actorflow data fetch austen --to DIR; then {DATA}=DIR, a copy of that folder",
    ),
    lines=_lines,
)
