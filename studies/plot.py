"""The figures of the studies."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, median
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from studies.live_backup import Point
from studies.runs import AWARE, STRAGGLER, TARGET, WORK_S, Result
from studies.tables import cell

_STYLE: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "actorflow",
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "axes.spines.top": False,
    "axes.spines.right": False,
}

_SECONDS = (2, 3, 5, 10, 20)

_NAMES = {
    "sync": ("Sync: waits for all", "C0", "o"),
    "backup": ("Backup: the first n − 1", "C2", "s"),
    "stale:1": ("StaleSync(1)", "C4", "v"),
    "stale:4": ("StaleSync(4)", "C5", "^"),
    "async": ("Async: waits for nobody", "C3", "D"),
    AWARE: ("Async, shorter steps for stale gradients", "C1", "P"),
}


def draw(results: Sequence[Result], file: Path) -> None:
    """Writes the figure: time to the loss above, accuracy below; steady workers left, stragglers right.

    Lines are means over seeds, small dots the seeds.
    """
    policies = [policy for policy in _NAMES if any(r.run.policy == policy for r in results)]
    workers = sorted({result.run.workers for result in results})
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(8.4, 7.2), layout="constrained")
        axes = figure.subplots(2, 2, sharex=True, sharey="row")
        for column, stragglers in enumerate((False, True)):
            for place, policy in enumerate(policies):
                shift = 1 + 0.022 * (place - (len(policies) - 1) / 2)  # side by side, not on top
                cells = [cell(results, policy, n, stragglers=stragglers) for n in workers]
                at = [n * shift for n in workers]
                _line(axes[0][column], policy, at, [[r.reached_s for r in runs] for runs in cells])
                _line(axes[1][column], policy, at, [[r.accuracy for r in runs] for runs in cells])
        _label(axes, workers)
        figure.legend(*axes[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
        file.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(file, metadata={"Date": None} if file.suffix == ".svg" else None)


def _label(axes: Any, workers: Sequence[int]) -> None:
    axes[0][0].set_title(f"Steady workers\n{WORK_S:g} s a batch")
    axes[0][1].set_title(
        f"Stragglers\n{STRAGGLER.p:.0%} of batches take {STRAGGLER.stall_s:g} s longer, on average"
    )
    axes[0][0].set_ylabel(f"virtual seconds to a loss of {TARGET:g}\n(lower is better)")
    axes[1][0].set_ylabel("test accuracy, after equally many batches\n(higher is better)")
    axes[0][0].set_yscale("log")
    axes[0][0].set_yticks(_SECONDS, [f"{s} s" for s in _SECONDS])
    axes[0][0].minorticks_off()
    for axis in axes[1]:
        axis.set_xscale("log", base=2)
        axis.set_xticks(workers, [str(n) for n in workers])
        axis.minorticks_off()
        axis.set_xlabel("workers (1: no cluster)")


def _line(axes: Any, policy: str, x: Sequence[float], y: Sequence[Sequence[float | None]]) -> None:
    name, color, marker = _NAMES[policy]
    found = [(at, [value for value in values if value is not None]) for at, values in zip(x, y, strict=True)]
    there = [(at, values) for at, values in found if values]
    means = [fmean(values) for _, values in there]
    axes.plot([at for at, _ in there], means, color=color, marker=marker, markersize=5, label=name)
    for at, values in there:
        axes.plot([at] * len(values), values, color=color, marker=".", markersize=4, alpha=0.45, linestyle="")


def draw_live(points: Sequence[Point], file: Path) -> None:
    """Writes the figure of live backup workers: how long updates took, live beside simulated, for each b."""
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(7.2, 3.6), layout="constrained")
        left, right = figure.subplots(1, 2, width_ratios=(1, 1.4))
        b = [point.b for point in points]
        left.plot(b, [point.exact_s for point in points], color="grey", linestyle=":", label="computed")
        left.plot(b, [median(point.simulated_s) for point in points], "C0s", label="simulated")
        left.plot(b, [median(point.live_s) for point in points], "C3.", markersize=9, label="live")
        left.set_xticks(b)
        left.set_ylim(bottom=0)
        left.set_xlabel("b, backup workers of 6")
        left.set_ylabel("median update, seconds")
        left.legend()
        for point, color in zip(points, ("C0", "C1", "C2"), strict=True):
            for times, style, name in ((point.simulated_s, ":", "simulated"), (point.live_s, "-", "live")):
                share = [(k + 1) / len(times) for k in range(len(times))]
                label = f"b = {point.b}, {name}"
                right.plot(sorted(times), share, color=color, linestyle=style, label=label)
        right.set_xlim(0.3, 1.5)
        right.set_xlabel("seconds")
        right.set_ylabel("share of updates that took no longer")
        right.legend(fontsize=7)
        file.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(file, metadata={"Date": None} if file.suffix == ".svg" else None)
