"""A figure of the paper beside what was simulated: as tables, as JSON, and as what a plot needs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from actorflow.cli.display.text_table import columns
from studies.paper.numbers import Figure


@dataclass(frozen=True, slots=True)
class Line:
    """A curve of a plot: what was simulated, and what the paper reports, None where it does not."""

    label: str
    x: Sequence[float]
    simulated: Sequence[float]
    paper: Sequence[float | None]


@dataclass(frozen=True, slots=True)
class Panel:
    """A plot with its axes; the scale of both is linear, or logarithmic."""

    x: str
    y: str
    lines: Sequence[Line]
    logarithmic: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of text under a heading, with a line above."""

    title: str
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True)
class Report:
    """All that a command has found.

    Attributes:
        title: What it is.
        tables: As they are printed.
        findings: Sentences below them.
        model: What the model is, and what it leaves out.
        facts: The JSON, without what the paper and the model were given.
        panels: The plots.
        given: What the paper reports and what the model takes.
    """

    title: str
    tables: Sequence[Table]
    findings: Sequence[str]
    model: str
    facts: dict[str, Any]
    panels: Sequence[Panel]
    given: Figure

    def lines(self) -> Iterator[str]:
        """Yields what is printed."""
        yield self.title
        for table in self.tables:
            yield ""
            yield table.title
            yield ""
            yield from columns(table.rows, right=True)
        yield ""
        yield from self.findings
        yield ""
        yield self.model
        yield ""
        yield from assumptions(self.given)

    def as_json(self) -> dict[str, Any]:
        """Returns what `--json` writes."""
        parts = {"paper": self.given.paper, "parameters": self.given.parameters}
        given = {
            part: {
                name: {"value": fact.value, "origin": fact.origin, "note": fact.note}
                for name, fact in facts.items()
            }
            for part, facts in parts.items()
        }
        return {**self.facts, **given}


def assumptions(given: Figure) -> Iterator[str]:
    """Yields what is simulated, and what is read, fitted or assumed."""
    yield "Simulated: all but the columns of the paper. What the paper reports:"
    yield from columns([("", name, fact.origin, fact.note) for name, fact in given.paper.items()])
    yield "What the model takes:"
    rows = [("", name, f"{fact.value:g}", fact.origin, fact.note) for name, fact in given.parameters.items()]
    yield from columns(rows)


def residual(simulated: float, paper: float | None) -> float | None:
    """Returns by what part the simulated number is more than the paper's."""
    return None if paper is None else simulated / paper - 1


def percent(part: float | None) -> str:
    """Returns a part as text, with its sign."""
    return "-" if part is None else f"{100 * part:+.1f} %"


def number(value: float | None, digits: int) -> str:
    """Returns a number as text with so many decimals."""
    return "-" if value is None else f"{value:,.{digits}f}"
