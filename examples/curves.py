"""Draws how a training went, where matplotlib is installed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Curve = tuple[Sequence[tuple[float, float]], str]
"""Points, and how matplotlib draws them: "-" is a line, "o" are dots."""


def draw(file: str, curves: Mapping[str, Curve], **axes: Any) -> None:
    """Writes a figure of curves, by what they show; `axes` are its labels and scales, as in matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        print("no figure: pip install matplotlib")
        return
    figure = Figure(figsize=(6, 3.5), layout="constrained")
    plot = figure.subplots()
    for label, (points, style) in curves.items():
        plot.plot(*zip(*points, strict=True), style, label=label)
    plot.set(**axes)
    plot.legend()
    figure.savefig(file)
    print(f"the curve is in {file}")
