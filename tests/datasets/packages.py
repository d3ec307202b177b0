"""Data sets and packages made up for tests, as the real ones lie on a machine."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path

from actorflow.datasets.dataset import Dataset, Source
from actorflow.datasets.folders import DatasetFolders

CONTENT = b"truth universally acknowledged\n"


def dataset(
    content: bytes = CONTENT,
    sources: Callable[[DatasetFolders], Iterable[Source]] = lambda places: (),
    name: str = "made",
) -> Dataset:
    return Dataset(
        name=name,
        about="made up",
        licence="none",
        package="made 1.0",
        file=f"{name}.txt",
        size=len(content),
        sha256=sha256(content).hexdigest(),
        sources=sources,
        remedies=("install made",),
        lines=lambda held: iter([f"{len(held)} bytes"]),
    )


def r_package(folder: Path, variables: Mapping[str, Sequence[str]]) -> Path:
    """Writes the data of an installed package of R, as R would, and returns its folder."""
    from rdata.conversion import convert_python_to_r_data
    from rdata.unparser import unparse_data

    def serialised(value: object) -> bytes:
        return unparse_data(convert_python_to_r_data(value))

    import numpy as np

    chunks, places = b"", {}
    for name, lines in variables.items():
        plain = serialised(np.array(lines))
        chunk = len(plain).to_bytes(4) + zlib.compress(plain)
        places[name] = np.array([len(chunks), len(chunk)], dtype="int32")
        chunks += chunk
    (folder / "data").mkdir(parents=True)
    (folder / "data" / "Rdata.rdb").write_bytes(chunks)
    index = {"variables": places, "references": {}, "compressed": True}
    (folder / "data" / "Rdata.rdx").write_bytes(gzipped(serialised(index)))
    return folder


def gzipped(plain: bytes) -> bytes:
    packer = zlib.compressobj(wbits=31)
    return packer.compress(plain) + packer.flush()


def program(folder: Path, name: str, script: str) -> None:
    """Writes a program for the shell into a folder that is to be on the PATH."""
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)
