"""Reads the data of an installed package of R, without R: its lazy-load database.

`data/Rdata.rdx` is a serialised list: for each variable an offset and a length in `data/Rdata.rdb`, where it
lies as its unpacked length (4 bytes, the highest first) and a zlib stream of its serialisation.
Source: R Internals, "Lazy loading"; `makeLazyLoadDB` in R's tools.

The format is read by the package `rdata`, which evaluates nothing.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from actorflow.datasets import atomic_files
from actorflow.datasets.dataset import Absent

_LENGTH_BYTES = 4


def texts(package: Path, names: Sequence[str]) -> list[list[str]]:
    """Returns variables of an installed package, each of which is a vector of strings.

    Args:
        package: The folder of the package, which is named like it.
        names: The names of the variables.

    Raises:
        Absent: there is no such package, it has other variables, or `rdata` is not installed.
    """
    index_file, content_file = package / "data" / "Rdata.rdx", package / "data" / "Rdata.rdb"
    index, content = atomic_files.read(index_file), atomic_files.read(content_file)
    need_rdata()
    try:
        chunks = _value(index)["variables"]
        found = [_value(_unpack(content, *map(int, chunks[name]))) for name in names]
        return [[str(line) for line in lines] for lines in found]
    except Exception as error:  # what a parser raises when a file is none of its format can be anything
        message = f"{package.name} of R cannot be read ({type(error).__name__}: {error})"
        raise Absent(message) from error


def need_rdata() -> None:
    """Raises `Absent` where the package that reads files of R is not installed."""
    if find_spec("rdata") is None:
        raise Absent("the Python package rdata, which reads files of R, is not installed: pip install rdata")


def _unpack(content: bytes, start: int, length: int) -> bytes:
    chunk = content[start : start + length]
    unpacked = zlib.decompress(chunk[_LENGTH_BYTES:])
    if len(unpacked) != int.from_bytes(chunk[:_LENGTH_BYTES]):
        message = f"{len(unpacked)} bytes are at {start}, which says another length"
        raise ValueError(message)
    return unpacked


def _value(serialised: bytes) -> Any:
    import rdata  # on use: pandas and xarray come with it

    # The extension says that no header of a saved workspace stands before the value.
    return rdata.conversion.convert(rdata.parser.parse_data(serialised, extension=".rds"))
