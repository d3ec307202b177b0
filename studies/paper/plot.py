"""Writes the plots of a report with matplotlib, which the extra `examples` brings."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from actorflow.errors import ProgramError
from actorflow.runtime import sigint
from studies.paper.report import Panel

_SUFFIXES = (".svg", ".png", ".pdf")
_FEW = 3  # lines of a panel; the names of more stand beside it
_STYLE: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "actorflow",
    "font.size": 9,
    "axes.grid": True,
    "grid.alpha": 0.3,
}


def check(file: Path) -> None:
    """Raises ProgramError when no plot could be written to `file`; before minutes of simulating."""
    if file.suffix not in _SUFFIXES:
        message = f"--plot writes {', '.join(_SUFFIXES)}, got {file}"
        raise ProgramError(message)
    if find_spec("matplotlib") is None:
        message = "--plot needs matplotlib, which is not installed"
        raise ProgramError(message, hint='pip install "actorflow[examples]"')


def draw(panels: Sequence[Panel], title: str, file: Path) -> None:
    """Writes the panels side by side: simulated as lines, the paper's numbers dashed in the same colour."""
    with sigint.guard_sigint():
        import matplotlib as mpl
        from matplotlib.figure import Figure
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(max(7.5, 4.6 * len(panels)), 3.8), layout="constrained")
        figure.suptitle(title, fontsize=10)
        for axes, panel in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
            _draw(axes, panel)
        figure.savefig(file, metadata={"Date": None} if file.suffix == ".svg" else None)


def _draw(axes: Any, panel: Panel) -> None:
    axes.set_xlabel(panel.x)
    axes.set_ylabel(panel.y)
    ticks = sorted({x for line in panel.lines for x in line.x})
    if panel.logarithmic:
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.minorticks_off()
    axes.set_xticks(ticks, [f"{x:g}" for x in ticks])
    for i, line in enumerate(panel.lines):
        color = f"C{i}"
        axes.plot(line.x, line.simulated, color=color, marker=".", label=line.label)
        paper = [(x, y) for x, y in zip(line.x, line.paper, strict=True) if y is not None]
        if paper:
            axes.plot(*zip(*paper, strict=True), color=color, marker="x", linestyle=":", alpha=0.7)
    axes.plot([], [], color="grey", marker="x", linestyle=":", label="the paper")
    beside = {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0)} if len(panel.lines) > _FEW else {}
    axes.legend(fontsize=8, **beside)
