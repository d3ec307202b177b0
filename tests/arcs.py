"""A diagram of states as SVG: boxes in a row, and an arc for each pair that an event leads through."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

BOX_W, BOX_H, GAP, MARGIN = 118, 44, 84, 24
STEP = 46  # by so much an arc is higher for each box that it passes
LINE = 14  # height of a line of text
CHAR = 6.4  # width of a character, about
_STYLE = (
    "text{font:12px 'DejaVu Sans',Verdana,sans-serif;fill:#1f2933;text-anchor:middle}"
    ".state{font-weight:bold}.stays{font-size:10px;fill:#52606d}.event{font-size:11px}"
    "rect.box{fill:#f0f4f8;stroke:#486581;stroke-width:1.5}"
    "path.arc{fill:none;stroke:#486581;stroke-width:1.3}"
)

Arrows = Mapping[tuple[str, str], Sequence[str]]


@dataclass(frozen=True, slots=True)
class _Arc:
    """From one box to another; `above` when it goes to the right."""

    start: int
    end: int
    events: Sequence[str]

    @property
    def above(self) -> bool:
        return self.end > self.start

    @property
    def span(self) -> int:
        return abs(self.end - self.start)

    def lines(self) -> list[str]:
        """Its events, as wide as it has room."""
        room = int((self.span * (BOX_W + GAP) - 40) / CHAR)
        return textwrap.wrap(", ".join(self.events), max(10, room))


def draw(states: Sequence[str], arrows: Arrows) -> str:
    """Returns the diagram; the same for the same input.

    Args:
        states: From left to right; the first one is where it begins, and one that leads nowhere is drawn twice.
        arrows: The events that lead from one state to another, or leave it.
    """
    place = {state: i for i, state in enumerate(states)}
    arcs = [_Arc(place[a], place[b], events) for (a, b), events in arrows.items() if a != b]
    stays = {a: events for (a, b), events in arrows.items() if a == b}
    ends = {a for a in states if not any(start == a for start, _ in arrows)}
    above = max((_height(arc) for arc in arcs if arc.above), default=0) + LINE
    below = max((_height(arc) for arc in arcs if not arc.above), default=0) + LINE
    width = 2 * MARGIN + len(states) * BOX_W + (len(states) - 1) * GAP + 20
    height, top = above + BOX_H + below + 2 * MARGIN, MARGIN + above
    lines = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
            f'viewBox="0 0 {width} {height}">'
        ),
        f"<style>{_STYLE}</style>",
        (
            '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
            'orient="auto"><path d="M0 0L8 4L0 8z" fill="#486581"/></marker></defs>'
        ),
        f'<rect width="{width}" height="{height}" rx="6" fill="#ffffff"/>',
    ]
    lines += [line for arc in arcs for line in _arc(arc, arcs, top)]
    lines += [line for arc in arcs for line in _label(arc, arcs, top)]
    for state, i in place.items():
        lines += _box(state, _left(i), top, stays.get(state, ()), ends=state in ends)
    middle = top + BOX_H / 2
    lines.append(f'<circle cx="{MARGIN - 6}" cy="{middle:g}" r="5" fill="#486581"/>')
    begin = f"M{MARGIN - 1} {middle:g}L{_left(0) - 1} {middle:g}"
    lines.append(f'<path class="arc" d="{begin}" marker-end="url(#tip)"/>')
    return "\n".join([*lines, "</svg>"]) + "\n"


def _left(i: int) -> int:
    return MARGIN + 20 + i * (BOX_W + GAP)


def _box(state: str, x: int, y: int, stays: Sequence[str], *, ends: bool) -> list[str]:
    lines = [f'<rect class="box" x="{x}" y="{y}" width="{BOX_W}" height="{BOX_H}" rx="8"/>']
    if ends:
        lines.append(
            f'<rect class="box" x="{x + 3}" y="{y + 3}" width="{BOX_W - 6}" height="{BOX_H - 6}" rx="6"/>'
        )
    middle, base = x + BOX_W / 2, y + BOX_H / 2 + (-2 if stays else 4)
    lines.append(f'<text class="state" x="{middle:g}" y="{base:g}">{escape(state)}</text>')
    if stays:
        told = "↻ " + ", ".join(stays)
        lines.append(f'<text class="stays" x="{middle:g}" y="{base + LINE:g}">{escape(told)}</text>')
    return lines


def _ends(arc: _Arc, arcs: Sequence[_Arc]) -> tuple[float, float]:
    """Where it touches its two boxes: side by side with the others there, so that none crosses its neighbour."""
    return _touch(arc, arc.start, arcs), _touch(arc, arc.end, arcs)


def _touch(arc: _Arc, box: int, arcs: Sequence[_Arc]) -> float:
    def order(one: _Arc) -> tuple[int, int]:
        other = one.end if one.start == box else one.start
        # To the left the nearest comes first, to the right the farthest: so arcs lie within each other.
        return (0, box - other) if other < box else (1, box - other)

    here = [one for one in arcs if one.above == arc.above and box in (one.start, one.end)]
    here.sort(key=order)
    return _left(box) + BOX_W * (here.index(arc) + 1) / (len(here) + 1)


def _height(arc: _Arc) -> int:
    return 18 + STEP * (arc.span - 1) + LINE * len(arc.lines()) + 6


def _apex(arc: _Arc, top: int) -> float:
    """The y of its outermost point, where its events stand."""
    rise = 24 + STEP * (arc.span - 1)
    return top - rise if arc.above else top + BOX_H + rise


def _arc(arc: _Arc, arcs: Sequence[_Arc], top: int) -> list[str]:
    (start, end), apex = _ends(arc, arcs), _apex(arc, top)
    edge = top if arc.above else top + BOX_H
    pull = edge + (apex - edge) * 4 / 3  # a curve reaches three quarters of the way to its control points
    way = f"M{start:.1f} {edge}C{start:.1f} {pull:.1f} {end:.1f} {pull:.1f} {end:.1f} {edge}"
    return [f'<path class="arc" d="{way}" marker-end="url(#tip)"/>']


def _label(arc: _Arc, arcs: Sequence[_Arc], top: int) -> list[str]:
    (start, end), apex, lines = _ends(arc, arcs), _apex(arc, top), arc.lines()
    middle, first = (start + end) / 2, apex - (len(lines) - 1) * LINE - 4 if arc.above else apex + LINE
    wide = max(map(len, lines)) * CHAR + 4
    back = f'<rect x="{middle - wide / 2:.1f}" y="{first - 11:.1f}" width="{wide:.1f}" '
    told = [f'{back}height="{len(lines) * LINE}" fill="#ffffff"/>']
    for i, line in enumerate(lines):
        told.append(f'<text class="event" x="{middle:.1f}" y="{first + i * LINE:.1f}">{escape(line)}</text>')
    return told
