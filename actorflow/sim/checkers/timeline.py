"""Draws operations as bars over time, one row a client, at most 100 columns wide.

    client 0  [write 0]
    client 1           [read -> 3----------]
                       ^^^^^^^^^^^^^^^^^^^^^
    client 2              [write 4 -> ?----->

`[` is an invocation and `]` a return; `<` began before the picture and `>` is still open at its end.
Columns are events, not seconds: a bar is as wide as its text, or as what happens during it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from actorflow.errors import pluralise
from actorflow.sim.checkers.verdict import WIDTH
from actorflow.sim.history import Client, Operation

ROWS = 20
LABEL = 32  # the longest text in a bar


def call(operation: Operation) -> str:
    """Returns the operation in a few characters, without its key: `write 4 -> ?`, `read -> 3`."""
    return clipped(operation.brief(20), LABEL)


def draw(operations: Sequence[Operation], marked: Operation | None = None) -> str:
    """Returns the picture of the last operations, as many as fit, with `marked` underlined."""
    ordered = sorted(operations, key=lambda operation: operation.invoked)
    starts = [operation.invoked for operation in ordered]
    best = _Picture(ordered, starts[-1] if starts else 0, marked)
    for start in reversed(starts[:-1]):
        picture = _Picture(ordered, start, marked)
        if picture.width > WIDTH or len(picture.rows) > ROWS:
            break
        best = picture
    return best.text()


@dataclass(frozen=True, slots=True)
class _Bar:
    operation: Operation
    left: int
    right: int

    def text(self, began_before: bool) -> str:
        end = ">" if self.operation.returned is None else "]"
        inner = call(self.operation).ljust(self.right - self.left - 1, "-")
        return f"{'<' if began_before else '['}{inner}{end}"


class _Picture:
    """The operations that were running at event `start` or began after it, laid out.

    Operations of unknown outcome that began before are not drawn, but named below.
    """

    __slots__ = ("_bars", "_gutter", "_left_out", "_marked", "_open_before", "_start", "rows", "width")

    def __init__(self, ordered: Sequence[Operation], start: int, marked: Operation | None) -> None:
        self._start = start
        self._marked = marked
        drawn = [o for o in ordered if o.invoked >= start or (o.returned or -1) >= start or o is marked]
        self._open_before = [
            o for o in ordered if o.returned is None and o.invoked < start and o is not marked
        ]
        self._left_out = len(ordered) - len(drawn) - len(self._open_before)
        self._bars = self._layout(drawn)
        self.rows = self._assign()
        self._gutter = max((len(f"client {client}") for client, _ in self.rows), default=0) + 2
        self.width = self._gutter + max((bar.right + 1 for bar in self._bars), default=0)

    def _layout(self, drawn: list[Operation]) -> list[_Bar]:
        """Gives every event a column: each after the one before, and no bar shorter than its text."""
        events = [(o.invoked, False, o) for o in drawn if o.invoked >= self._start]
        events += [(o.returned, True, o) for o in drawn if o.returned is not None]
        left = {o.invoked: 0 for o in drawn if o.invoked < self._start}
        right: dict[int, int] = {}
        column = 0 if left else -1
        for _, returns, operation in sorted(events, key=lambda event: event[0]):
            column += 1
            if returns:
                column = max(column, left[operation.invoked] + len(call(operation)) + 1)
                right[operation.invoked] = column
            else:
                left[operation.invoked] = column
        still_open = [left[o.invoked] + len(call(o)) + 1 for o in drawn if o.returned is None]
        edge = max([column, *still_open])
        return [_Bar(o, left[o.invoked], right.get(o.invoked, edge)) for o in drawn]

    def _assign(self) -> dict[tuple[Client, int], list[_Bar]]:
        """Gives every client a row, and another one where an operation of its own is still open."""
        clients = dict.fromkeys(bar.operation.client for bar in self._bars)
        rows: dict[tuple[Client, int], list[_Bar]] = {}
        for client in sorted(clients, key=lambda client: (isinstance(client, str), client)):
            for bar in self._bars:
                if bar.operation.client != client:
                    continue
                row = 0
                while (client, row) in rows and rows[client, row][-1].right >= bar.left:
                    row += 1
                rows.setdefault((client, row), []).append(bar)
        return rows

    def text(self) -> str:
        lines = []
        for (client, row), bars in self.rows.items():
            line = (f"client {client}" if row == 0 else "").ljust(self._gutter)
            for bar in bars:
                line = line.ljust(self._gutter + bar.left) + bar.text(bar.operation.invoked < self._start)
            lines.append(line)
            lines += [
                " " * (self._gutter + bar.left) + "^" * (bar.right - bar.left + 1)
                for bar in bars
                if bar.operation is self._marked
            ]
        if self._open_before:
            named = ", ".join(f"{call(o)} (client {o.client})" for o in self._open_before)
            lines.append(clipped(f"open since before: {named}"))
        if self._left_out:
            verb = "is" if self._left_out == 1 else "are"
            lines.append(f"{pluralise(self._left_out, 'operation')} ended before and {verb} left out")
        return "\n".join(clipped(line) for line in lines)


def clipped(line: str, width: int = WIDTH) -> str:
    """Returns the line, with its end left out when it is longer than `width`."""
    return line if len(line) <= width else f"{line[: width - 3]}..."
