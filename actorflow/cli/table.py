"""Plain text columns, the same on a terminal and in a pipe."""

from __future__ import annotations

from collections.abc import Iterator, Sequence


def columns(rows: Sequence[Sequence[str]], *, right: bool = False) -> Iterator[str]:
    """Yields one line a row, every column as wide as its widest cell; the first row is the heading."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [
            cell.rjust(width) if right else cell.ljust(width) for cell, width in zip(row, widths, strict=True)
        ]
        yield "  ".join(cells).rstrip()
