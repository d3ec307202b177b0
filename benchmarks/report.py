"""Says what was measured: a table for people, one JSON object for programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from benchmarks.harness import Better, Row, Sample, Unit
from benchmarks.machine import Machine

if TYPE_CHECKING:
    from rich.console import Console

_SIGNS = {Better.HIGH: "≥", Better.LOW: "≤"}
_VERDICTS = {True: Text("met", "green"), False: Text("missed", "bold red"), None: Text("")}


def as_json(benchmark: str, machine: Machine, rows: Sequence[Row]) -> dict[str, Any]:
    """Returns the object that `--json` writes; `ratio` is ours / theirs, null without the peer."""
    return {
        "benchmark": benchmark,
        "machine": machine,
        "rows": [
            {
                "metric": row.contest.metric,
                "unit": row.contest.unit.value,
                "ours": row.ours.median,
                "peer": row.peer.name,
                "theirs": None if row.theirs is None else row.theirs.median,
                "ratio": row.ratio,
                "better": row.contest.unit.better.value,
            }
            for row in rows
        ],
    }


def as_table(rows: Sequence[Row]) -> Table:
    """Returns a line a row: the medians with their spread, each aim, and whether it was met."""
    table = Table(box=None, header_style="bold", pad_edge=False)
    for heading in ("metric", "ours", "aim", "", "peer", "theirs", "ratio", "aim", ""):
        words = heading in ("metric", "peer", "")
        table.add_column(heading, justify="left" if words else "right", no_wrap=heading != "peer")
    metric = None
    for row in rows:
        unit = row.contest.unit
        again = row.contest.metric == metric
        metric = row.contest.metric
        sign = _SIGNS[unit.better]
        aim, ratio_aim = row.contest.aim, row.peer.aim
        table.add_row(
            "" if again else metric,
            "" if again else _sample(row.ours, unit),
            "" if again or aim is None else f"{sign} {quantity(aim, unit)}",
            "" if again else _VERDICTS[row.met],
            Text(row.peer.name),  # its brackets are not markup
            "" if row.theirs is None else _sample(row.theirs, unit),
            "" if row.ratio is None else times(row.ratio),
            "" if ratio_aim is None else f"{sign} {times(ratio_aim)}",
            _VERDICTS[row.ratio_met],
        )
    return table


def natural_width(table: Table, console: Console) -> int:
    """Returns the columns that the table needs so that no figure is cut off."""
    return Measurement.get(console, console.options.update(max_width=1_000), table).maximum


def notes(rows: Sequence[Row]) -> list[str]:
    """Returns what a reader must know to judge the rows, each note once."""
    found = [f"{row.contest.metric}: {row.contest.note}" for row in rows if row.contest.note]
    found += [f"{row.peer.name}: {row.peer.note}" for row in rows if row.peer.note]
    return list(dict.fromkeys(found))


def quantity(value: float, unit: Unit) -> str:
    """Returns a value with its unit and three digits, for example `1.23 M/s` or `0.650 µs`."""
    if unit is Unit.MEBIBYTES:
        return f"{_digits(value)} MiB"
    if unit is Unit.MICROSECONDS:
        return f"{_digits(value)} µs"
    if unit is Unit.MILLISECONDS:
        return f"{_digits(value)} ms"
    if unit is Unit.MEGABYTES:
        return f"{_digits(value)} MB/s"
    for size, prefix in ((1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{_digits(value / size)} {prefix}/s"
    return f"{_digits(value)} /s"


def times(ratio: float) -> str:
    """Returns a ratio with three digits, for example `4.02x`."""
    return f"{_digits(ratio)}x"


def _digits(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:#.3g}"


def _sample(sample: Sample, unit: Unit) -> str:
    return f"{quantity(sample.median, unit)} ±{sample.spread:.0%}"
