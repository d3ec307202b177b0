"""Files for readers to read, compressed where their name says so."""

from __future__ import annotations

import gzip
from pathlib import Path


def written(folder: Path, data: str | bytes, name: str) -> Path:
    """Writes the data into the folder and returns the file; as gzip, the same every time, where it ends in `.gz`."""
    content = data.encode() if isinstance(data, str) else data
    file = folder / name
    file.write_bytes(gzip.compress(content, mtime=0) if name.endswith(".gz") else content)
    return file
