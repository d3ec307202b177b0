"""The figure of the convergence study."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from studies.runs import AWARE, STRAGGLER, TARGET, WORK_S, Result
from studies.tables import Spread, cell

_STYLE = {
    "svg.fonttype": "none",
    "svg.hashsalt": "actorflow",
    "font.size": 9,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "axes.spines.top": False,
    "axes.spines.right": False,
}

_NAMES = {
    "sync": ("Sync: waits for all", "C0", "o"),
    "backup": ("Backup: the first n − 1", "C2", "s"),
    "stale:1": ("StaleSync(1)", "C4", "v"),
    "stale:4": ("StaleSync(4)", "C5", "^"),
    "async": ("Async: waits for nobody", "C3", "D"),
    AWARE: ("Async, shorter steps for stale gradients", "C1", "P"),
}


def draw(results: Sequence[Result], file: Path) -> None:
    """Writes the figure: time to the loss above, accuracy below; steady workers left, stragglers right."""
    policies = [policy for policy in _NAMES if any(r.run.policy == policy for r in results)]
    workers = sorted({result.run.workers for result in results})
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(8.2, 6.6), layout="constrained")
        axes = figure.subplots(2, 2, sharex=True, sharey="row")
        for column, stragglers in enumerate((False, True)):
            for place, policy in enumerate(policies):
                shift = 1 + 0.02 * (place - len(policies) / 2)  # side by side, not on top
                cells = [cell(results, policy, n, stragglers=stragglers) for n in workers]
                reached = [Spread.of([r.reached_s for r in runs]) for runs in cells]
                right = [Spread.of([r.accuracy for r in runs]) for runs in cells]
                _line(axes[0][column], policy, [n * shift for n in workers], reached)
                _line(axes[1][column], policy, [n * shift for n in workers], right)
        stall = f"{STRAGGLER.p:.0%} of batches stall for {STRAGGLER.stall_s:g} s on average"
        axes[0][0].set_title(f"steady workers: {WORK_S:g} s a batch")
        axes[0][1].set_title(f"stragglers: {stall}")
        axes[0][0].set_ylabel(f"virtual seconds until the loss is below {TARGET:g}\n(less is better)")
        axes[1][0].set_ylabel("test accuracy after as many batches\n(more is better)")
        axes[0][0].set_ylim(bottom=0)
        for axis in axes[1]:
            axis.set_xscale("log", base=2)
            axis.set_xticks(workers, [str(n) for n in workers])
            axis.minorticks_off()
            axis.set_xlabel("workers (one is training without a cluster)")
        figure.legend(*axes[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
        file.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(file, metadata={"Date": None} if file.suffix == ".svg" else None)


def _line(axes: Any, policy: str, x: Sequence[float], y: Sequence[Spread]) -> None:
    name, color, marker = _NAMES[policy]
    there = [
        (at, spread.mean, spread.spread) for at, spread in zip(x, y, strict=True) if spread.mean is not None
    ]
    if there:
        at, mean, error = zip(*there, strict=True)
        axes.errorbar(at, mean, error, color=color, marker=marker, markersize=4, capsize=2, label=name)
