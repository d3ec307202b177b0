"""Plain text columns, the same on a terminal and in a pipe."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ShortenableColumn:
    """A column that may lose text where lines are short: down to `least` characters, from either end."""

    column: int
    least: int
    keep_end: bool = False


def columns(rows: Sequence[Sequence[str]], *, right: bool = False) -> Iterator[str]:
    """Yields one line a row, every column as wide as its widest cell; the first row is the heading."""
    widths = _widths(rows)
    for row in rows:
        cells = [
            cell.rjust(width) if right else cell.ljust(width) for cell, width in zip(row, widths, strict=True)
        ]
        yield "  ".join(cells).rstrip()


def fit_rows(
    rows: Sequence[Sequence[str]], width: int | None, cuts: Sequence[ShortenableColumn]
) -> Sequence[Sequence[str]]:
    """Returns the rows for lines of `width`: cuts the columns one after the other, as far as they allow."""
    if width is None:
        return rows
    for cut in cuts:
        widths = _widths(rows)
        over = sum(widths) + 2 * (len(widths) - 1) - width
        if over > 0:
            length = max(cut.least, widths[cut.column] - over)
            rows = [_shorten(row, cut, length) for row in rows]
    return rows


def _shorten(row: Sequence[str], cut: ShortenableColumn, length: int) -> Sequence[str]:
    cell = row[cut.column]
    if len(cell) <= length:
        return row
    short = f"…{cell[1 - length :]}" if cut.keep_end else f"{cell[: length - 1]}…"
    return [*row[: cut.column], short, *row[cut.column + 1 :]]


def _widths(rows: Sequence[Sequence[str]]) -> list[int]:
    return [max(map(len, column)) for column in zip(*rows, strict=True)]
