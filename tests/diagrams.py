"""Diagrams of the protocols' states, out of their tables: `python -m tests.diagrams` writes them (`make docs`).

A module has a table where it has a mapping TRANSITIONS: (state, event) -> state. docs/states.md has a section
of each, with a diagram in docs/figures/states; and the module says the same at its head, in text.
"""

from __future__ import annotations

import ast
import importlib
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from tests.arcs import draw

TOP = Path(__file__).parents[1]
PACKAGE = TOP / "actorflow"
PAGE = TOP / "docs" / "states.md"
FIGURES = TOP / "docs" / "figures" / "states"
NAME = "TRANSITIONS"

INTRODUCTION = """\
# The states of protocols

Where a part of actorflow goes through states, a table says which state follows which event. What is not in
a table does not happen: the code refuses it with an `InternalError`, or answers whoever asked with an error.
The code reads these tables, and this page is drawn from them, so it is never behind.

Tests and simulations look at more than that: after every event each of these state machines checks its own
invariants, and the error of one that does not hold tells the last events. See
[Watching](watching.md#when-something-is-broken).

In the diagrams a state machine begins on the left. Arrows above the states go to the right, those below to
the left; an event with a round arrow leaves the state as it is.
"""


@dataclass(frozen=True, slots=True)
class Machine:
    """A module with a table."""

    module: str
    table: Mapping[tuple[Enum, Enum], Enum]

    @property
    def states(self) -> list[Enum]:
        """All states, in the order of their definition: the first one is where it begins."""
        state, _ = next(iter(self.table))
        return list(type(state))

    @property
    def events(self) -> list[Enum]:
        """All events, likewise."""
        _, event = next(iter(self.table))
        return list(type(event))

    @property
    def figure(self) -> str:
        """The name of its diagram."""
        return f"{self.module.replace('.', '-')}.svg"


def label(member: Enum) -> str:
    """What a state or an event is called for readers."""
    told = member.value if isinstance(member.value, str) else member.name
    return told.lower().replace("_", " ")


def machines(package: Path = PACKAGE) -> list[Machine]:
    """Returns every module with a table, in the order of their names."""
    found = []
    for path in sorted(package.rglob("*.py")):
        if NAME in path.read_text() and NAME in _assigned(path):
            module = ".".join(path.relative_to(package.parent).with_suffix("").parts)
            table = getattr(importlib.import_module(module), NAME)
            found.append(Machine(module.partition(".")[2], table))
    return found


def _assigned(path: Path) -> Iterator[str]:
    for node in ast.parse(path.read_text()).body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        yield from (target.id for target in targets if isinstance(target, ast.Name))


def text_table(machine: Machine) -> list[str]:
    """Returns the table as lines of text, which the docstring of the module has, however it is indented."""
    rows = [["", *map(label, machine.events)]]
    for state in machine.states:
        following = (machine.table.get((state, event)) for event in machine.events)
        rows.append([label(state), *("." if one is None else label(one) for one in following)])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in rows]


def missing_lines(machine: Machine) -> list[str]:
    """Returns the lines of the table that the docstring of the module does not have."""
    said = sys.modules[f"actorflow.{machine.module}"].__doc__ or ""
    has = {_squeezed(line) for line in said.splitlines()}
    return [line for line in text_table(machine) if _squeezed(line) not in has]


def _squeezed(line: str) -> str:
    return re.sub(r" {2,}", "  ", line.strip())


def diagram(machine: Machine) -> str:
    """Returns the diagram as SVG."""
    arrows: dict[tuple[str, str], list[str]] = {}
    for state in machine.states:
        for event in machine.events:
            if (following := machine.table.get((state, event))) is not None:
                arrows.setdefault((label(state), label(following)), []).append(label(event))
    return draw(list(map(label, machine.states)), arrows)


def section(machine: Machine) -> str:
    """Returns its part of the page."""
    kind = type(machine.states[0])
    lines = [f"## `{machine.module}`", "", kind.__doc__ or "", ""]
    lines += [f"![The states of {machine.module}](figures/states/{machine.figure})", ""]
    comments = _comments(kind)
    if comments:
        lines += ["| state | |", "|---|---|"]
        lines += [f"| {label(s)} | {comments[s.name]} |" for s in machine.states if s.name in comments]
        lines.append("")
    kind = type(machine.events[0])
    comments = _comments(kind)
    lines += ["| event | " + " | ".join(map(label, machine.states)) + " | |"]
    lines += ["|---|" + "---|" * len(machine.states) + "---|"]
    for event in machine.events:
        following = (machine.table.get((state, event)) for state in machine.states)
        cells = ["" if one is None else label(one) for one in following]
        lines.append(f"| {label(event)} | {' | '.join(cells)} | {comments.get(event.name, '')} |")
    return "\n".join(lines) + "\n"


def _comments(kind: type[Enum]) -> dict[str, str]:
    """What stands beside each member where it is defined."""
    module = sys.modules[kind.__module__]
    assert module.__file__ is not None
    source = Path(module.__file__).read_text()
    body = source[source.index(f"class {kind.__name__}(") :].split("\n\n\n")[0]
    return dict(re.findall(r"(?m)^    (\w+) = [^#\n]*#\s+(.+)$", body))


def files() -> dict[Path, str]:
    """Returns every file that is written, and what it holds."""
    found = machines()
    written = {FIGURES / machine.figure: diagram(machine) for machine in found}
    page = "\n".join([INTRODUCTION, *map(section, found)])
    return {PAGE: page, **written}


def stale(written: Mapping[Path, str] | None = None) -> list[str]:
    """Returns a sentence for each file that does not hold what it should, or that nobody needs."""
    written = files() if written is None else written
    told = [
        f"{path.relative_to(TOP)} is not what the tables say: renew it with `make docs`"
        for path, text in written.items()
        if not path.exists() or path.read_text() != text
    ]
    left = [path for path in FIGURES.glob("*.svg") if path not in written]
    return told + [f"{path.relative_to(TOP)} is of no table: remove it" for path in left]


def main() -> None:
    """Writes the page and the diagrams, and removes those of tables that are gone."""
    written = files()
    FIGURES.mkdir(parents=True, exist_ok=True)
    for path, text in written.items():
        path.write_text(text)
    for path in FIGURES.glob("*.svg"):
        if path not in written:
            path.unlink()


if __name__ == "__main__":
    main()
